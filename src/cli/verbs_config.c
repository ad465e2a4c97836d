// config, graph, plan: what a run is, before it runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "train/programs.h"

static drv_status load(arena *a, const cli_args *c, run_config *out) {
    int n;
    const char **sets = cli_get_all(a, c, "--set", &n);
    const char *file =
            c->n_positional && strcmp(c->positional[0], "-") != 0 ? c->positional[0] : NULL;
    return config_load(a, file, sets, n, out);
}

static const cli_option config_options[] = {CLI_SET};

static drv_status run_config_verb(arena *a, const cli_args *args) {
    run_config cfg;
    str text = {0};
    DRV_TRY(load(a, args, &cfg));
    config_print(&cfg, true, &text);
    fputs(text.p, stdout);
    str_free(&text);
    return DRV_OK;
}

const verb verb_config = {
        .name = "config",
        .summary = "print the effective options, with what each means",
        .usage = "[CONFIG] [--set KEY=VALUE]...",
        .help = "Reads the YAML file, applies the overrides, checks everything and prints the whole\n"
                "config, which is itself a valid config.\n"
                "Example: drover config --set model.preset=llama-3.1-8b",
        .options = config_options,
        .n_options = sizeof config_options / sizeof *config_options,
        .max_positional = 1,
        .run = run_config_verb,
};

static const cli_option graph_options[] = {CLI_SET,
        {"--program", "NAME", "step (default), update or eval"}};

static drv_status run_graph(arena *a, const cli_args *args) {
    run_config cfg;
    programs p;
    DRV_TRY(load(a, args, &cfg));
    DRV_TRY(programs_build(a, &cfg, &p));
    const char *name = cli_get(args, "--program", "step");
    const graph *g = strcmp(name, "step") == 0     ? p.step_graph
                     : strcmp(name, "update") == 0 ? p.update_graph
                     : strcmp(name, "eval") == 0   ? p.eval_graph
                                                   : NULL;
    if (!g)
        return drv_fail(DRV_E_USAGE, "graph: --program is \"%s\", expected step, update or eval",
                name);
    str text = {0};
    graph_print(g, &text);
    fwrite(text.p, 1, text.n, stdout);
    str_free(&text);
    return DRV_OK;
}

const verb verb_graph = {
        .name = "graph",
        .summary = "print a program of the run as text",
        .usage = "[CONFIG] [--program NAME] [--set KEY=VALUE]...",
        .help = "One line per node: outputs with types, op, inputs, attributes. Nothing is allocated: all\n"
                "presets up to llama-3.1-405b print on a laptop.",
        .options = graph_options,
        .n_options = sizeof graph_options / sizeof *graph_options,
        .max_positional = 1,
        .run = run_graph,
};

// --- plan
// What the process holds beside the planned bytes: code and libraries, the measurement of the GEMM
// peak, thread stacks (measured on Zen 4: 78 to 92 MiB).
#define PROCESS_BYTES (110LL << 20)

static void print_plan(const programs *p, const memory_plan *m, const mesh *layout,
        double flops_token, double step_s) {
    const run_config *c = p->c;
    printf("model         %s parameters, %s\n", str_si((double)model_parameters(&c->model)),
            dtype_name(p->dt));
    printf("batch         %lld rows of %lld tokens, %lld a micro-batch, %d rank%s\n",
            (long long)c->global_batch_size, (long long)c->sequence_length,
            (long long)c->micro_batch_size, mesh_ranks(layout), mesh_ranks(layout) > 1 ? "s" : "");
    printf("compute       %s FLOP a token, %s a step\n", str_si(flops_token),
            str_si(flops_token * (double)(c->global_batch_size * c->sequence_length)));
    printf("nodes         %d in step, %d in update, %d in eval\n", p->step_graph->n_nodes,
            p->update_graph->n_nodes, p->eval_graph->n_nodes);
    printf("memory a rank\n");
    const struct {
        const char *name;
        int64_t bytes;
    } rows[] = {{"weights", m->weights}, {"gradients", m->gradients}, {"optimizer", m->optimizer},
            {"activations", m->activations}, {"communication", m->communication}, {"data", m->data},
            {"total", m->total}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("  %-14s %12s  %lld\n", rows[i].name, str_bytes((double)rows[i].bytes),
                (long long)rows[i].bytes);
    printf("  process beside it: at most %s; saving and resuming need no more\n",
            str_bytes((double)PROCESS_BYTES));
    if (step_s > 0)
        printf("time          %.3g s a step at 75 %% of this machine's GEMM peak\n", step_s);
}

static int print_plan_json(const programs *p, const memory_plan *m, const mesh *layout,
        double flops_token, double step_s) {
    json_t *bytes = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "weights",
            (json_int_t)m->weights, "gradients", (json_int_t)m->gradients, "optimizer",
            (json_int_t)m->optimizer, "activations", (json_int_t)m->activations, "communication",
            (json_int_t)m->communication, "data", (json_int_t)m->data, "total",
            (json_int_t)m->total, "process", (json_int_t)PROCESS_BYTES);
    const json_int_t n = model_parameters(&p->c->model);
    json_t *o = json_pack("{s:I,s:I,s:f,s:i,s:o,s:f}", "parameters", n, "trainable_parameters", n,
            "flops_per_token", flops_token, "ranks", mesh_ranks(layout), "bytes", bytes,
            "step_seconds", step_s);
    char *text = json_dumps(o, 0);
    puts(text);
    free(text);
    json_decref(o);
    return 0;
}

static drv_status run_plan(arena *a, const cli_args *args) {
    run_config cfg;
    programs p;
    int64_t ranks = 0;
    DRV_TRY(load(a, args, &cfg));
    DRV_TRY(cli_get_i64(args, "--ranks", 1, 1 << 20, &ranks));
    if (ranks) cfg.data_parallel = ranks;
    if (cfg.global_batch_size % (cfg.micro_batch_size * cfg.data_parallel) != 0)
        return drv_fail(DRV_E_USAGE,
                "training.global_batch_size is %lld, expected a multiple of micro_batch_size %lld "
                "x ranks %lld",
                (long long)cfg.global_batch_size, (long long)cfg.micro_batch_size,
                (long long)cfg.data_parallel);
    par_set_threads((int)cfg.threads);
    backend *null, *cpu;
    DRV_TRY(backend_open(a, "null", &null));
    DRV_TRY(programs_build(a, &cfg, &p));
    DRV_TRY(programs_load(a, null, &p));
    DRV_TRY(backend_open(a, "cpu", &cpu));
    const double flops = model_flops_per_token(&cfg.model, cfg.sequence_length),
                 peak = backend_peak_flops(cpu);
    const double tokens = (double)(cfg.global_batch_size * cfg.sequence_length / cfg.data_parallel);
    const double step_s = peak > 0 ? flops * tokens / (0.75 * peak) : 0;
    mesh layout = mesh_single();
    layout.size[AXIS_DATA] = (int)cfg.data_parallel;
    memory_plan m = programs_memory(&p);
    if (cli_has(args, "--json"))
        print_plan_json(&p, &m, &layout, flops, step_s);
    else
        print_plan(&p, &m, &layout, flops, step_s);
    backend_close(cpu);
    return DRV_OK;
}

static const cli_option plan_options[] = {CLI_SET, CLI_JSON,
        {"--ranks", "N", "data-parallel ranks that share the global batch"}};
const verb verb_plan = {
        .name = "plan",
        .summary = "print memory, FLOPs and time of a run before it runs",
        .usage = "[CONFIG] [--ranks N] [--json] [--set KEY=VALUE]...",
        .help = "Builds the graphs, differentiates them and places every byte, without allocating a\n"
                "weight. The run stays within what is printed.\n"
                "Example: drover plan --set model.preset=llama-3.1-405b",
        .options = plan_options,
        .n_options = sizeof plan_options / sizeof *plan_options,
        .max_positional = 1,
        .run = run_plan,
};
