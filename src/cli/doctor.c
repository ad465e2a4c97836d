// drover doctor: describes this machine and how drover uses it.
#include <stdio.h>
#include <sys/sysinfo.h>

#include "backend/backend.h"
#include "backend/environment.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/str.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/plugin_report.h"

typedef struct machine {
    const char *device;
    backend_info info;
    const char *libraries;
    double f32, bf16; // peaks, FLOP/s
    double memory, free_now;
    plugin_report plugins[MAX_PLUGINS];
    int n_plugins;
    need *needs;
    int n_needs;
} machine;

static const char *const need_words[] =
        {[NEED_MET] = "there", [NEED_UNMET] = "missing", [NEED_TOLD] = "note"};

static drv_status look(arena *a, machine *out) {
    backend *b;
    struct sysinfo system;
    out->n_plugins = plugins_look(a, NULL, out->plugins);
    out->n_needs = environment_look(a, "", NULL, &out->needs);
    DRV_TRY(backend_open_host(a, &b));
    out->device = backend_device(b);
    out->info = backend_describe(b);
    out->libraries = arena_printf(a, "jansson %s", jansson_version_str());
    drv_status status = backend_peak(b, DT_F32, 4, &out->f32);
    if (status == DRV_OK) status = backend_peak(b, DT_BF16, 4, &out->bf16);
    backend_close(b);
    sysinfo(&system);
    out->memory = (double)system.totalram * system.mem_unit;
    out->free_now = (double)system.freeram * system.mem_unit;
    return status;
}

static json_t *needs_json(const need *list, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(array, json_pack("{ss ss ss}", "platform", list[i].platform, "state",
                                             need_words[list[i].state], "text", list[i].text));
    return array;
}

static void print_needs(const need *list, int n) {
    for (int i = 0; i < n; i++)
        printf("%-12s%-8s %s\n", list[i].platform, need_words[list[i].state], list[i].text);
}

static void print_json(const machine *m) {
    const backend_info *info = &m->info;
    json_t *o = json_pack("{ss ss ss ss ss si sI ss sf sf ss so so}", "version", drover_number(),
            "commit", drover_commit(), "cpu", m->device, "level", info->kernels, "features",
            info->features, "threads", par_threads(), "memory_bytes", (json_int_t)m->memory,
            "libraries", m->libraries, "gemm_peak_fp32", m->f32, "gemm_peak_bf16", m->bf16,
            "bf16_arithmetic", info->bf16_by, "pjrt", plugin_reports_json(m->plugins, m->n_plugins),
            "needs", needs_json(m->needs, m->n_needs));
    cli_puts_json(o, json_dumps(o, JSON_REAL_PRECISION(5)));
}

#ifdef __clang__ // clang's version contains its name
static const char compiler[] = __VERSION__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

// Prints a line for each plugin that is here, and how to get the others.
static void print_plugins(arena *a, const machine *m) {
    int there = 0;
    for (int i = 0; i < m->n_plugins; i++) {
        const plugin_report *r = &m->plugins[i];
        if (!r->path) continue;
        there++;
        printf("PJRT        %s: %s\n", r->name, plugin_report_text(a, r));
    }
    if (there < m->n_plugins) {
        printf("PJRT        not there:");
        for (int i = 0; i < m->n_plugins; i++)
            if (!m->plugins[i].path) printf(" %s", m->plugins[i].name);
        printf(" (drover devices says how to get one)\n");
    }
}

static void print_text(arena *a, const machine *m) {
    const backend_info *info = &m->info;
    printf("drover      %s, commit %s, compiled with %s\n", drover_number(), drover_commit(),
            compiler);
    printf("processor   %s\n", m->device);
    printf("kernels     %s (highest here: %s)%s%s\n", info->kernels, info->best_kernels,
            *info->features ? ", " : "", info->features);
    printf("threads     %d\n", par_threads());
    printf("memory      %s, %s free\n", str_bytes(m->memory), str_bytes(m->free_now));
    printf("libraries   %s\n", m->libraries);
    printf("GEMM peak   fp32 %.1f GFLOP/s, bf16 %.1f GFLOP/s\n", m->f32 / 1e9, m->bf16 / 1e9);
    printf("bf16 mode   multiplies by %s\n", info->bf16_by);
    print_plugins(a, m);
    print_needs(m->needs, m->n_needs);
    const bool widens = info->bf16_peak == DT_F32;
    const double chosen = widens ? m->f32 : m->bf16, other = widens ? m->bf16 : m->f32;
    if (other > 1.1 * chosen)
        printf("warning     the other arithmetic is %.1f times as fast here; set %s\n",
                other / chosen, info->other_way);
}

// Prints everything that a platform needs, and whether it is here.
static drv_status run_platform(arena *a, const char *platform, bool as_json) {
    need *needs;
    int n_unmet = 0;
    if (!STR_ONE_OF(platform, "cuda", "rocm", "tpu", "neuron"))
        return drv_fail(DRV_E_USAGE, "doctor: platform \"%s\", expected cuda, rocm, tpu or neuron",
                platform);
    const int n = environment_look(a, "", platform, &needs);
    for (int i = 0; i < n; i++)
        n_unmet += needs[i].state == NEED_UNMET;
    json_t *list = as_json ? needs_json(needs, n) : NULL;
    if (as_json)
        cli_puts_json(list, json_dumps(list, JSON_INDENT(2)));
    else
        print_needs(needs, n);
    if (n_unmet == 0) return DRV_OK;
    return drv_fail(DRV_E_DEVICE, "%s: %d of its needs are missing", platform, n_unmet);
}

static drv_status run(arena *a, const cli_args *args) {
    if (cli_has(args, "--node")) return doctor_node(a, args);
    if (args->n_positional) return run_platform(a, args->positional[0], cli_has(args, "--json"));
    machine m = {.f32 = 0};
    par_set_threads(0);
    DRV_TRY(look(a, &m));
    if (cli_has(args, "--json"))
        print_json(&m);
    else
        print_text(a, &m);
    return DRV_OK;
}

static const cli_option options[] = {
        CLI_JSON,
        {"--node", NULL, "measure this node; under mpirun or srun, all nodes"},
        {"--seconds", "N", "about how long --node measures (default 10)"},
        {"--hosts", NULL, "print only the hosts that stand out, one per line"},
};
static const cli_rule rules[] = {
        {.option = "--seconds", .needs = "--node"},
        {.option = "--hosts", .needs = "--node", .excludes = "--json"},
};
const verb verb_doctor = {
        .name = "doctor",
        .summary = "describe this machine and how drover uses it",
        .usage = "[PLATFORM] [--json]\n"
                 "--node [DIR] [--seconds N] [--json|--hosts]",
        .help = "Prints the processor, the kernels and arithmetic chosen for it, threads, memory, libraries, the\n"
                "measured peaks of matrix products, the PJRT plugins for accelerators, and what these have or\n"
                "lack: devices, drivers, libraries, compilers, variables.\n"
                "\n"
                "PLATFORM is cuda, rocm, tpu or neuron: prints its requirements and how to get missing ones. The\n"
                "exit status is 1 if something is missing.\n"
                "\n"
                "--node measures this node before a run: matrix products, memory, the run directory DIR (write,\n"
                "fsync, read), free memory. With several nodes and one rank on each (mpirun --map-by ppr:1:node,\n"
                "srun --ntasks-per-node=1), it also measures links between pairs of nodes, clocks, versions, and\n"
                "whether each node sees node 0's locks and renames in DIR. A node below 0.8 of the median is\n"
                "named with its figure, and the exit status is then 1. docs/launch.md has the details.",
        CLI_OPTIONS(options),
        CLI_RULES(rules),
        .max_positional = 1,
        .run = run,
};
