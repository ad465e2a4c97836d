#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/cli.h"

static const verb *const verbs[] = {&verb_train, &verb_eval, &verb_generate, &verb_config,
        &verb_plan, &verb_graph, &verb_tokenizer, &verb_data, &verb_ckpt, &verb_bench,
        &verb_doctor};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

static void usage(FILE *f) {
    fputs("drover: pre-train Llama models, from text to a Hugging Face folder, in one program\n"
          "\n"
          "usage: drover VERB ...\n"
          "\n",
            f);
    for (int i = 0; i < N_VERBS; i++)
        fprintf(f, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\n`drover VERB --help` says more.\n", f);
}

static void verb_help(const verb *v) {
    printf("drover %s: %s\n\nusage: drover %s %s\n\n%s\n", v->name, v->summary, v->name, v->usage,
            v->help);
    if (v->n_options) puts("\noptions:");
    for (int i = 0; i < v->n_options; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", v->options[i].name,
                v->options[i].value ? v->options[i].value : "");
        printf("  %-26s %s\n", left, v->options[i].help);
    }
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN); // a file size limit is an error of write, not the end
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0 ||
            strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return 0;
    }
    const verb *v = NULL;
    const char *names[N_VERBS];
    for (int i = 0; i < N_VERBS; i++) {
        names[i] = verbs[i]->name;
        if (strcmp(argv[1], names[i]) == 0) v = verbs[i];
    }
    if (!v) {
        const char *near = str_nearest(argv[1], names, N_VERBS);
        fprintf(stderr, "drover: unknown verb \"%s\"%s%s%s; see drover --help\n", argv[1],
                near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            verb_help(v);
            return 0;
        }
    arena *a = arena_new("run");
    drv_status s = v->run(a, argc - 1, argv + 1);
    progress_end();
    if (s != DRV_OK) fprintf(stderr, "drover: %s\n", drv_message());
    log_close_file();
    arena_free(a);
    return s == DRV_OK ? 0 : s == DRV_E_USAGE ? 2 : 1;
}
