// drover compile: compiles the programs of a run without running them.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/parallel.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/plan_parts.h"
#include "config/config.h"
#include "programs/fit.h"
#include "search/rank_memory.h"
#include "train/run_inputs.h"
#include "setup/device.h"

enum { MAX_MESSAGE = 512 };

// The devices that programs are compiled for: those of a target, or those that a run of this
// process has.
typedef struct compiled_for {
    device_pool *pool; // NULL: one device, opened for itself
    mesh ranks;
} compiled_for;

typedef struct counts {
    int n, n_failed, n_kept; // for all ranks; n_kept: taken from the cache
    const char *target;      // which is not present; NULL: a device
    const char *plugin;      // the config's, by whose path the target may be compiled for
    int64_t memory;          // of the target's profile; 0: not given
    // For the current rank:
    backend *device;
    bool explains;
    char rank[32]; // beginning of each line: "pipeline rank 1  "; "": there is only one
    char too_large[MAX_MESSAGE]; // about the first rank whose programs do not fit; "": all fit
} counts;

static void tell_facts(const counts *tally, const char *name, const executable *e) {
    program_facts f;
    bool matters;
    const bool known = backend_program_facts(tally->device, e, &f, &matters);
    if (known && tally->explains) program_facts_print(stderr, &f);
    if (!known && tally->explains)
        fputs("  the compiler does not say what it made of it\n", stderr);
    if (known && matters) program_facts_warn(name, &f);
}

static void tell(void *ctx, const char *name, int n_nodes, const load_request *made) {
    counts *c = ctx;
    backend_memory m = {0};
    c->n++;
    c->n_failed += made->status != DRV_OK;
    c->n_kept += made->from_cache;
    fprintf(stderr, "%s%-11s ", c->rank, name);
    if (made->status != DRV_OK) {
        fprintf(stderr, "%s\n", made->message);
        return;
    }
    fprintf(stderr, "%d nodes, %.1f s%s", n_nodes, made->seconds,
            made->from_cache ? " from the cache" : "");
    if (backend_program_memory(c->device, *made->out, &m))
        fprintf(stderr, "; arguments %s, results beside them %s, temporary %s",
                str_bytes((double)m.arguments), str_bytes((double)(m.results - m.aliased)),
                str_bytes((double)m.temporary));
    if (m.on_host) fprintf(stderr, "; in the host's memory %s", str_bytes((double)m.on_host));
    fputs("\n", stderr);
    tell_facts(c, name, *made->out);
}

// Returns the bytes of cuDNN that the compiler did not count, since no device was present.
static int64_t not_compiled(const counts *c, const memory_plan *planned) {
    return c->target ? planned->workspace : 0;
}

// Prints the memory of the device while the largest program runs, as the compiler and as drover
// plan it. Neither includes rows that wait on the host.
static void print_memory(const counts *c, const programs *p) {
    const char *name;
    const int64_t most = programs_compiled_bytes(p, &name);
    const memory_plan here = programs_memory(p);
    const int64_t more = not_compiled(c, &here),
                  planned = here.total - here.batches - here.messages - more;
    if (most == 0) return;
    printf("%sMemory of a device: %s  %lld\n", c->rank, str_bytes((double)most), (long long)most);
    printf("%sPlanned by drover: %s  %lld (%+.1f %%)\n", c->rank, str_bytes((double)planned),
            (long long)planned, 100 * ((double)planned / (double)most - 1));
    if (more)
        printf("%scuDNN besides: %s  %lld, which it tells the compiler on a device alone\n",
                c->rank, str_bytes((double)more), (long long)more);
}

// Checks that the largest program fits together with cuDNN's memory.
static drv_status check_fit(const counts *c, const programs *p) {
    const char *name = "";
    const memory_plan here = programs_memory(p);
    const int64_t most = programs_compiled_bytes(p, &name), more = not_compiled(c, &here);
    DRV_TRY(programs_check_fit(p));
    if (c->memory && most + more > c->memory)
        return drv_fail(DRV_E_DEVICE, "program \"%s\" needs %s, and the profile of %s has %s", name,
                str_bytes((double)(most + more)), c->target, str_bytes((double)c->memory));
    return backend_check_fit(c->device, name, most + more,
            "cuDNN's scratch is in it: expected training.deterministic: false, a smaller micro-batch or shorter rows");
}

// Opens *n devices; 0: as many as parallel.* needs.
static drv_status set_devices(const cli_args *args, const char *target, run_config *cfg,
        int64_t *n) {
    DRV_TRY(cli_get_i64(args, "--devices", 1, 1 << 12, n));
    if (*n) DRV_TRY_CTX(config_set_ranks(cfg, *n), "compile: --devices %lld", (long long)*n);
    const mesh ranks = run_mesh(cfg);
    if (!*n) *n = target ? mesh_ranks(&ranks) : device_count(cfg);
    if (*n == mesh_ranks(&ranks)) return DRV_OK;
    DRV_TRY_CTX(config_set_ranks(cfg, *n), "%lld devices", (long long)*n);
    return DRV_OK;
}

// Reads --target: a target of the compiler, or a device profile that names one.
static drv_status read_target(arena *a, const cli_args *args, counts *c) {
    const char *text = cli_get(args, "--target", NULL);
    device_profile device;
    c->target = text;
    if (!text || strchr(text, ':')) return DRV_OK;
    DRV_TRY_CTX(device_profile_read(a, text, &device), "compile: --target");
    if (!device.target)
        return drv_fail(DRV_E_USAGE,
                "compile: --target %s: its compiler needs the device, expected an NVIDIA GPU",
                text);
    c->target = device.target;
    c->memory = device.memory;
    return DRV_OK;
}

// Chooses parallel.zero: auto as a run on the device does.
static drv_status choose_zero(arena *a, const cli_args *args, run_config *cfg) {
    const char *target = cli_get(args, "--target", NULL), *why;
    const bool is_profile = target && !strchr(target, ':');
    memory_limit limit;
    int64_t process;
    DRV_TRY(rank_memory(a, cfg, is_profile ? target : NULL, 1, &limit, &process));
    DRV_TRY(fit_choose_zero(a, cfg, &limit, process, &why));
    if (why) log_info("%s", why);
    return DRV_OK;
}

// n: devices; 0: from the options and the config.
static drv_status open_devices(arena *a, const cli_args *args, const counts *c, run_config *cfg,
        int64_t n, compiled_for *out) {
    DRV_TRY(set_devices(args, c->target, cfg, &n));
    DRV_TRY(choose_zero(a, args, cfg));
    out->ranks = run_mesh(cfg);
    if (c->target) {
        run_config named = *cfg;
        named.pjrt.plugin = c->plugin;
        DRV_TRY_CTX(device_open_targets(a, &named, c->target, (int)n, &out->pool), "compile");
        return DRV_OK;
    }
    if (n > 1 && !config_backend(cfg)->has_devices)
        return drv_fail(DRV_E_USAGE,
                "compile: --devices %lld, but `backend: %s` has one, expected backend pjrt or --target",
                (long long)n, cfg->backend);
    if (n > 1) DRV_TRY(device_open_pool(a, cfg, (int)n, &out->pool));
    return DRV_OK;
}

static drv_status open_rank(arena *a, const run_config *cfg, const compiled_for *to,
        backend **out) {
    if (!to->pool) return device_open(a, cfg, out);
    DRV_TRY(device_open_of(a, cfg, to->pool, (int)cfg->rank, out));
    if (mesh_ranks(&to->ranks) > 1) backend_join(*out, NULL, &to->ranks);
    return DRV_OK;
}

static drv_status compile_programs(arena *a, const run_config *cfg, counts *c) {
    programs built;
    const int n_failed = c->n_failed;
    DRV_TRY(programs_build(a, cfg, &built));
    const drv_status status = programs_compile(a, c->device, &built, &(compile_report){tell, c});
    if (status == DRV_OK) {
        print_memory(c, &built);
        if (check_fit(c, &built) != DRV_OK && !*c->too_large)
            snprintf(c->too_large, sizeof c->too_large, "%s%s", c->rank, drv_message());
    }
    return c->n_failed > n_failed ? DRV_OK : status; // the failure has been counted
}

// Compiles the programs of one pipeline rank; ranks along other axes have the same ones.
static drv_status compile_rank(run_config *cfg, const compiled_for *to, int place, counts *c) {
    arena *a = arena_new("a rank");
    cfg->rank = place * mesh_stride(&to->ranks, AXIS_PIPELINE);
    if (to->ranks.size[AXIS_PIPELINE] > 1)
        snprintf(c->rank, sizeof c->rank, "pipeline rank %d  ", place);
    drv_status status = open_rank(a, cfg, to, &c->device);
    if (status == DRV_OK) {
        status = compile_programs(a, cfg, c);
        backend_close(c->device);
    }
    arena_free(a);
    return status;
}

static drv_status set_bounds(const cli_args *args, run_config *cfg) {
    int64_t bytes = 0;
    DRV_TRY(cli_get_i64(args, "--jobs", 1, 1 << 10, &cfg->pjrt.compile_jobs));
    DRV_TRY(cli_get_bytes(args, "--memory", 1, &bytes));
    if (bytes) cfg->pjrt.compile_gib = (double)bytes / (double)(1 << 30);
    return DRV_OK;
}

// Compiles all programs of one layout. n: as in open_devices.
static drv_status compile_layout(arena *a, const cli_args *args, run_config *cfg, int64_t n,
        counts *c) {
    compiled_for to = {0};
    drv_status status = DRV_OK;
    DRV_TRY(set_bounds(args, cfg));
    DRV_TRY(open_devices(a, args, c, cfg, n, &to));
    if (run_inputs_bound(cfg) != DRV_OK)
        log_warn("%s: a step for rows of any number of documents, another one than that of a run",
                drv_message());
    for (int place = 0; place < to.ranks.size[AXIS_PIPELINE] && status == DRV_OK; place++)
        status = compile_rank(cfg, &to, place, c);
    if (to.pool) device_pool_close(to.pool);
    return status;
}

// Loads the config with the keys of a layout after those of the command line. A target decides the
// programs and their plans, whatever back end and plugin the config names for runs here.
static drv_status load_config(arena *a, const cli_args *args, const elastic_layout *layout,
        counts *c, run_config *cfg) {
    int n;
    const char **sets = cli_get_all(a, args, "--set", &n);
    const char **all = ARENA_ARRAY(a, const char *, n + layout->n_sets + 1);
    for (int i = 0; i < n + layout->n_sets; i++)
        all[i] = i < n ? sets[i] : layout->sets[i - n];
    DRV_TRY(config_load(a, args->positional[0], all, n + layout->n_sets, cfg));
    if (!c->target) return DRV_OK;
    c->plugin = cfg->pjrt.plugin;
    cfg->backend = backend_caps_pjrt.name;
    cfg->pjrt.plugin = "cuda";
    return DRV_OK;
}

// Compiles for every number of nodes that the job may be left with.
static drv_status compile_elastic(arena *a, const cli_args *args, const run_config *cfg,
        counts *tally) {
    elastic_job job;
    DRV_TRY(elastic_job_read(args, cfg, &job));
    if (!config_backend(cfg)->has_devices)
        return drv_fail(DRV_E_USAGE,
                "compile: --elastic, but `backend: %s` keeps no programs, expected backend pjrt or --target",
                cfg->backend);
    DRV_TRY(elastic_device(cfg, job.ranks, &job.device));
    job.on_host = true;
    for (int n = job.n_nodes; n > 0; n--) {
        elastic_layout found;
        run_config smaller;
        if (elastic_on(a, &job, n, &found) != DRV_OK) {
            log_info("%d node%s: %s", n, str_plural(n), drv_message());
            continue;
        }
        log_info("%d node%s: %s", n, str_plural(n), found.words);
        DRV_TRY(load_config(a, args, &found, tally, &smaller));
        DRV_TRY(compile_layout(a, args, &smaller, (int64_t)n * job.ranks, tally));
    }
    return DRV_OK;
}

static drv_status compile(arena *a, const cli_args *args) {
    static const elastic_layout own;
    run_config cfg;
    counts c = {0};
    DRV_TRY(read_target(a, args, &c));
    DRV_TRY(load_config(a, args, &own, &c, &cfg));
    par_set_threads((int)cfg.threads);
    c.explains = cli_has(args, "--explain");
    if (cli_has(args, "--elastic"))
        DRV_TRY(compile_elastic(a, args, &cfg, &c));
    else
        DRV_TRY(compile_layout(a, args, &cfg, 0, &c));
    if (c.n_kept) fprintf(stderr, "%d of %d from the cache\n", c.n_kept, c.n);
    printf("Total graphs: %d\nTotal successful: %d\nTotal failed: %d\n", c.n, c.n - c.n_failed,
            c.n_failed);
    if (!c.n_failed && *c.too_large) return drv_fail(DRV_E_DEVICE, "%s", c.too_large);
    return c.n_failed ? drv_fail(DRV_E_DEVICE, "%d of %d graphs could not be compiled", c.n_failed,
                                c.n)
                      : DRV_OK;
}

static drv_status run(arena *a, const cli_args *args) {
    if (cli_has(args, "--list")) return kept_list(a, args);
    if (cli_has(args, "--evict")) return kept_evict(a, args);
    if (!args->n_positional)
        return drv_fail(DRV_E_USAGE, "compile: CONFIG is missing, expected the config of a run, "
                                     "--list or --evict");
    return compile(a, args);
}

static const cli_option options[] = {
        CLI_SET,
        {"--target", "DEVICE",
                "compile for a GPU that need not be present: cuda:h200, h100, a100 or b200, or a profile"},
        {"--devices", "N",
                "compile for N devices, divided as parallel.* says (default: as in the config)"},
        ELASTIC_OPTIONS(
                "compile for every number of nodes up to --nodes, as drover plan --elastic lists them"),
        {"--jobs", "N", "compile N programs at a time (default: pjrt.compile_jobs)"},
        {"--memory", "SIZE", "host memory for all compilations (default: pjrt.compile_gib)"},
        {"--explain", NULL, "report what may be slow in each program"},
        {"--list", NULL, "list the programs in the cache"},
        {"--evict", NULL, "remove programs that are damaged, too old or too many"},
        {"--max-size", "SIZE",
                "keep at most this much, the most recently used first (default: pjrt.cache_gib)"},
        {"--max-age", "DAYS", "keep programs used in the last DAYS (default: of any age)"},
        {"--cache", "DIR", "folder of the cache (default: pjrt.cache)"},
        CLI_JSON,
};
static const cli_rule rules[] = {
        {"--list", NULL, "--evict --target --devices --elastic --jobs --memory --explain", false},
        {"--evict", NULL, "--target --devices --elastic --jobs --memory --json --explain", false},
        {"--elastic", "--nodes", "--devices", false},
        ELASTIC_RULES,
        {"--max-size", "--evict", NULL, false},
        {"--max-age", "--evict", NULL, false},
        {"--cache", "--list --evict", NULL, false},
        {"--json", "--list", NULL, false},
};
const verb verb_compile = {
        .name = "compile",
        .summary = "compile the programs of a run, so that it starts at once",
        .usage = "CONFIG [--target DEVICE] [--devices N] [--set KEY=VALUE]...\n"
                 "CONFIG --elastic --nodes N [--ranks-per-node N] [--target DEVICE]\n"
                 "--list [CONFIG] [--cache DIR] [--json]\n"
                 "--evict [CONFIG] [--max-size SIZE] [--max-age DAYS] [--cache DIR]",
        .help = "Compiles the programs of a run and keeps them in the compile cache (pjrt.cache), where `drover\n"
                "train` finds them as long as the model, the shapes, the plugin, its options and the kind of\n"
                "device stay the same. `backend: cpu` has nothing to keep; its programs are only checked. At the\n"
                "end it prints the number of graphs, and how many of them were compiled and how many failed. The\n"
                "exit status is 1 if one failed or needs more memory than the device has.\n"
                "\n"
                "Programs are compiled in parallel: as many as there are cores (--jobs), within the memory of the\n"
                "host (--memory), estimated from the length of their text.\n"
                "\n"
                "A run on several devices has different programs from one on a single device: --devices N\n"
                "compiles those of N local devices, or of N devices of the target; for a pipeline those of each\n"
                "of its ranks.\n"
                "\n"
                "--elastic also compiles for all smaller numbers of nodes, so that a job of `drover launch node`\n"
                "that has lost nodes continues at once.\n"
                "\n"
                "--target compiles for a GPU that this machine does not have, and saves nothing. It prints the\n"
                "memory that the compiler plans next to that of `drover plan`, so you see whether the step\n"
                "compiles and fits. It needs the CUDA plugin and its ptxas (tools/fetch_pjrt.py cuda). A device\n"
                "profile (h100,memory=64GB, or a file; see drover devices --profiles) sets its memory.\n"
                "\n"
                "--explain reports what the compiler made of each program: its calls of fused attention,\n"
                "gradients of weights that are not matrix products, fp32 products in a bf16 run, and copies of\n"
                "whole weights. On a device other than a CPU, drover also warns without --explain about what is\n"
                "likely to be slow.\n"
                "\n"
                "--list lists the programs in the cache with their purpose, size and last use. When the folder\n"
                "grows beyond pjrt.cache_gib, the least recently used ones are removed; --evict does so at once,\n"
                "by size or by age, and removes damaged ones.",
        CLI_OPTIONS(options),
        CLI_RULES(rules),
        .max_positional = 1,
        .run = run,
};
