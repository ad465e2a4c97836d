// page: the page of a run, by a process of its own.
#include <unistd.h>

#include "base/stop.h"
#include "cli/cli.h"
#include "watch/server/run_observer.h"

enum { LOOK_US = 200000 };

static drv_status run_page(arena *a DRV_UNUSED, const cli_args *args) {
    const char *password_file = cli_get(args, "--password-file", NULL);
    void *page = NULL;
    if (!password_file)
        return drv_fail(DRV_E_USAGE,
                "page: --password-file is missing: a file with the password, at least 16 characters");
    run_view *view = run_view_open(args->positional[0], 0);
    const run_observed run = {.run_dir = args->positional[0],
            .about = "",
            .http = cli_get(args, "--listen", "127.0.0.1:8080"),
            .http_metrics_token_file = "",
            .http_ranks = true,
            .password_file = password_file,
            .view = view};
    stop_listen();
    const drv_status status = page_observer.begin(&run, &page);
    while (status == DRV_OK && !stop_requested())
        usleep(LOOK_US);
    if (!page || page_observer.end(page)) run_view_close(view);
    return status;
}

static const cli_option options[] = {
        {"--listen", "HOST:PORT",
                "address to listen on (default 127.0.0.1:8080; 0.0.0.0:PORT: for any machine)"},
        {"--password-file", "FILE", "file with the password, at least 16 characters"},
};

const verb verb_page = {
        .name = "page",
        .summary = "serve the page of a run",
        .usage = "RUN_DIR --password-file FILE [--listen HOST:PORT]",
        .help = "Serves the same page as training.http, but from the run's files alone: on any machine that can\n"
                "read them, before, during and after the run. Browsers ask for the password (any user name will\n"
                "do); /healthz needs none and reports that this server works, whatever the state of the run. The\n"
                "connection is not encrypted. SIGTERM ends the server. drover launch KIND --page writes a\n"
                "Deployment for it.\n"
                "Example: drover page runs/perl --listen 0.0.0.0:8080 --password-file password",
        CLI_OPTIONS(options),
        CLI_WORDS(1, 1),
        .run = run_page,
};
