// compile: makes a run's programs without running them.
#include <stdio.h>

#include "base/parallel.h"
#include "base/str.h"
#include "cli/cli.h"
#include "config/config.h"
#include "train/device.h"
#include "train/programs.h"

enum { MAX_MEASURED = 64 };

typedef struct counts {
    backend *b;
    int n, n_failed;
    const executable *made[MAX_MEASURED]; // of n: the first ones; NULL: it failed
} counts;

static void tell(void *ctx, const char *name, int n_nodes, double seconds, const executable *made) {
    counts *c = ctx;
    backend_memory m;
    if (c->n < MAX_MEASURED) c->made[c->n] = made;
    c->n++;
    c->n_failed += !made;
    if (!made) {
        fprintf(stderr, "%-12s%s\n", name, drv_message());
        return;
    }
    fprintf(stderr, "%-12s%d nodes, %.1f s", name, n_nodes, seconds);
    if (backend_program_memory(c->b, made, &m))
        fprintf(stderr, "; arguments %s, results beside them %s, temporary %s",
                str_bytes((double)m.arguments), str_bytes((double)(m.results - m.aliased)),
                str_bytes((double)m.temporary));
    fputs("\n", stderr);
}

// What the device holds while the program runs that needs most, as its compiler and as drover plan
// it. Rows that wait on the host are in neither.
static void print_memory(const counts *c, const programs *p) {
    int64_t most = 0;
    for (int i = 0; i < c->n && i < MAX_MEASURED; i++) {
        backend_memory m;
        if (!c->made[i] || !backend_program_memory(c->b, c->made[i], &m)) return;
        if (backend_memory_total(&m) > most) most = backend_memory_total(&m);
    }
    const memory_plan here = programs_memory(p);
    const int64_t planned = here.total - here.batches - here.messages;
    if (most == 0) return;
    printf("Memory of a device: %s  %lld\n", str_bytes((double)most), (long long)most);
    printf("Planned by drover: %s  %lld (%+.1f %%)\n", str_bytes((double)planned),
            (long long)planned, 100 * ((double)planned / (double)most - 1));
}

// What programs are compiled for: the devices of a target, or those that a run of this process has.
typedef struct compiled_for {
    backend *b;
    device_pool *pool; // closed after it; NULL: none
} compiled_for;

static drv_status open_devices(arena *mem, const cli_args *args, run_config *cfg,
        compiled_for *out) {
    const char *target = cli_get(args, "--target", NULL);
    int64_t n = 0;
    DRV_TRY(cli_get_i64(args, "--devices", 1, 1 << 12, &n));
    if (n) DRV_TRY_CTX(config_set_ranks(cfg, n), "compile: --devices %lld", (long long)n);
    const mesh ranks = programs_mesh(cfg);
    if (!n) n = target ? mesh_ranks(&ranks) : device_count(cfg);
    if (n != mesh_ranks(&ranks))
        DRV_TRY_CTX(config_set_ranks(cfg, n), "%lld devices", (long long)n);
    const mesh m = programs_mesh(cfg);
    if (target)
        DRV_TRY_CTX(device_open_target(mem, cfg, target, (int)n, &out->b), "compile");
    else if (n > 1) {
        DRV_TRY(device_open_pool(mem, cfg, (int)n, &out->pool));
        DRV_TRY(device_open_of(mem, cfg, out->pool, 0, &out->b));
    } else
        DRV_TRY(device_open(mem, cfg, &out->b));
    if (n > 1) backend_join(out->b, NULL, &m);
    return DRV_OK;
}

static drv_status run(arena *mem, const cli_args *args) {
    run_config cfg;
    programs built;
    compiled_for to = {0};
    int n_sets;
    const char **sets = cli_get_all(mem, args, "--set", &n_sets);
    DRV_TRY(config_load(mem, args->positional[0], sets, n_sets, &cfg));
    par_set_threads((int)cfg.threads);
    DRV_TRY(open_devices(mem, args, &cfg, &to));
    backend *device = to.b;
    DRV_TRY(programs_build(mem, &cfg, &built));
    counts c = {.b = device};
    const drv_status status = programs_compile(mem, device, &built, &(compile_report){tell, &c});
    if (status == DRV_OK) print_memory(&c, &built);
    backend_close(device);
    if (to.pool) device_pool_close(to.pool);
    printf("Total graphs: %d\nTotal successful: %d\nTotal failed: %d\n", c.n, c.n - c.n_failed,
            c.n_failed);
    return status == DRV_OK ? DRV_OK
                            : drv_fail(DRV_E_DEVICE, "%d of %d graphs could not be compiled",
                                      c.n_failed, c.n);
}

static const cli_option options[] = {
        CLI_SET,
        {"--target", "GPU",
                "cuda:h200, cuda:h100, cuda:a100 or cuda:b200, which need not be there"},
        {"--devices", "N",
                "for so many, shared as parallel.* says; otherwise as many as it asks for"},
};
const verb verb_compile = {
        .name = "compile",
        .summary = "compile a run's programs, so that it starts at once",
        .usage = "CONFIG [--target GPU] [--devices N] [--set KEY=VALUE]...",
        .help = "Compiles the programs of a run for its back end and keeps them in the compile cache\n"
                "(pjrt.cache), from which `drover train` takes them. A program is found again as long as\n"
                "the model, the shapes, the plugin, its options and the kind of device are the same.\n"
                "`backend: cpu` has nothing to keep: its programs are checked. Ends with how many graphs\n"
                "there are, and how many were compiled and failed; exit status 1 when one failed.\n"
                "\n"
                "A run on several devices has programs of its own: --devices N compiles those of N local\n"
                "devices, or of N of the target.\n"
                "\n"
                "--target compiles for a GPU that this machine has not got, keeps nothing, and prints\n"
                "what the compiler plans beside what `drover plan` says: does the step compile, and does\n"
                "it fit? It needs the CUDA plugin and its ptxas (tools/fetch_pjrt.py cuda).",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .min_positional = 1,
        .max_positional = 1,
        .run = run,
};
