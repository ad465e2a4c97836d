// drover: finds the verb in its table, runs it and turns its status into the exit status.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/exit_status.h"
#include "base/json.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/version.h"
#include "cli/cli.h"
#include "launch/outcome.h"

const verb *const cli_verbs[] = {
        &verb_train,
        &verb_launch,
        &verb_eval,
        &verb_generate,
        &verb_plot,
        &verb_top,
        &verb_report,
        &verb_page,
        &verb_audit,
        &verb_examples,
        &verb_config,
        &verb_plan,
        &verb_graph,
        &verb_compile,
        &verb_tokenizer,
        &verb_data,
        &verb_model,
        &verb_ckpt,
        &verb_chat,
        &verb_bench,
        &verb_devices,
        &verb_doctor,
};
const int n_cli_verbs = sizeof cli_verbs / sizeof *cli_verbs;

// The number of a closed standard descriptor would be reused for the next file that is opened, and
// messages would end up in that file. Opens such a descriptor so that writes to it fail as if it
// were closed.
static void open_standard_files(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            _exit(1);
}

static drv_status run_verb(arena *a, int argc, char **argv) {
    const verb *parent = NULL, *v;
    cli_args args;
    DRV_TRY(cli_find_verb(NULL, argv[0], &v));
    if (v->n_subverbs > 0) {
        if (argc < 2) {
            cli_print_help(stderr, NULL, v);
            return drv_fail(DRV_E_USAGE, "%s: the subverb is missing", v->name);
        }
        if (STR_ONE_OF(argv[1], "--help", "-h", "help")) return cli_help(1, argv);
        parent = v;
        DRV_TRY(cli_find_verb(parent, argv[1], &v));
        argc--, argv++;
    }
    DRV_TRY(cli_parse(a, parent, v, argc - 1, argv + 1, &args));
    if (args.help) {
        cli_print_help(stdout, parent, v);
        return DRV_OK;
    }
    return v->run(a, &args);
}

static drv_status run(arena *a, int argc, char **argv) {
    if (STR_ONE_OF(argv[0], "help", "--help", "-h")) return cli_help(argc - 1, argv + 1);
    if (!STR_ONE_OF(argv[0], "version", "--version", "-V")) return run_verb(a, argc, argv);
    puts(drover_version());
    return DRV_OK;
}

int main(int argc, char **argv) {
    open_standard_files();
    json_needs_memory();
    cli_open_stdout();
    signal_stack_give();
    signals_begin(getenv(LAUNCH_DIR) != NULL);
    if (argc < 2) {
        cli_print_help(stderr, NULL, NULL);
        return 2;
    }
    arena *a = arena_new("run");
    drv_status status = run(a, argc - 1, argv + 1);
    progress_end();
    // One of several ranks has printed the reason before any of them ended.
    if (status != DRV_OK && *drv_message()) log_failure(drv_message());
    cli_close_stdout();
    log_close_file();
    arena_free(a);
    outcome_leave(status);
    if (status == DRV_E_FAULT) _exit(exit_status(status)); // a device's library might wait for it
    return exit_status(status);
}
