// compile: makes a run's programs without running them.
#include <stdio.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/str.h"
#include "cli/cli.h"
#include "config/config.h"
#include "train/device.h"
#include "train/programs.h"

enum { MAX_GRAPHS = 3 + 2 * MAX_SLOTS };

static int list_graphs(const programs *p, graph *out[MAX_GRAPHS]) {
    int n = 0;
    out[n++] = p->step_graph;
    out[n++] = p->update_graph;
    out[n++] = p->eval_graph;
    for (int i = 0; i < p->n_slots; i++) {
        out[n++] = p->aside_graph[i];
        out[n++] = p->back_graph[i];
    }
    return n;
}

static bool compile_one(arena *a, backend *b, graph *g) {
    const double start = clock_s();
    executable *made;
    const drv_status status = backend_compile(a, b, g, NULL, &made);
    if (status == DRV_OK)
        fprintf(stderr, "%-8s%d nodes, %.1f s\n", g->name, g->n_nodes, clock_s() - start);
    else
        fprintf(stderr, "%-8s%s\n", g->name, drv_message());
    return status == DRV_OK;
}

static drv_status run(arena *a, const cli_args *args) {
    run_config cfg;
    programs built;
    backend *device;
    graph *graphs[MAX_GRAPHS];
    int n_sets, n_failed = 0;
    const char **sets = cli_get_all(a, args, "--set", &n_sets);
    DRV_TRY(config_load(a, args->positional[0], sets, n_sets, &cfg));
    par_set_threads((int)cfg.threads);
    DRV_TRY(device_open(a, &cfg, &device));
    DRV_TRY(programs_build(a, &cfg, &built));
    const int n = list_graphs(&built, graphs);
    for (int i = 0; i < n; i++)
        n_failed += !compile_one(a, device, graphs[i]);
    backend_close(device);
    printf("Total graphs: %d\nTotal successful: %d\nTotal failed: %d\n", n, n - n_failed, n_failed);
    return n_failed ? drv_fail(DRV_E_DEVICE, "%d of %d graphs could not be compiled", n_failed, n)
                    : DRV_OK;
}

static const cli_option options[] = {CLI_SET};
const verb verb_compile = {
        .name = "compile",
        .summary = "compile a run's programs, so that it starts at once",
        .usage = "CONFIG [--set KEY=VALUE]...",
        .help = "Compiles the programs of a run for its back end and keeps them in the compile cache\n"
                "(pjrt.cache), from which `drover train` takes them. A program is found again as long as\n"
                "the model, the shapes, the plugin, its options and the kind of device are the same.\n"
                "`backend: cpu` has nothing to keep: its programs are checked. Ends with how many graphs\n"
                "there are, and how many were compiled and failed; exit status 1 when one failed.",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .min_positional = 1,
        .max_positional = 1,
        .run = run,
};
