// plan: what a run needs and how long it takes, before it starts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/plan_elastic.h"
#include "cli/plan_search.h"
#include "cli/plan_stages.h"
#include "programs/fit.h"
#include "search/run_plan.h"
#include "train/run_inputs.h"
#include "weights/lora_state.h"

// A plan with what it is compared with: the memory and the data that are there.
typedef struct plan_report {
    const run_config *cfg;
    const run_plan *plan;
    run_plan_times times;
    memory_limit limit;
    const char *would_fit;  // keys to set; NULL: none would, or it fits
    inputs_counts inputs;   // of the data
    double reference_flops; // for the reference's log-probabilities, once; 0: no pairs
    const char *refused;    // why `drover train` would not begin; NULL: it would
} plan_report;

static bool fits(const plan_report *r) {
    return run_plan_needs(r->plan) <= r->limit.free;
}

static void print_memory(const plan_report *r) {
    const memory_plan *m = &r->plan->memory;
    const struct {
        const char *name;
        int64_t bytes;
    } classes[] = {{"weights", m->weights}, {"gradients", m->gradients},
            {"optimizer", m->optimizer}, {"activations", m->activations},
            {"communication", m->communication}, {"data", m->data},
            {"cuDNN", m->masks + m->workspace}, {"total", m->total}};
    printf("memory per rank\n");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].bytes || strcmp(classes[i].name, "cuDNN") != 0)
            printf("  %-14s %12s  %lld\n", classes[i].name, str_bytes((double)classes[i].bytes),
                    (long long)classes[i].bytes);
    printf("  besides, %s for the process: code and libraries, graphs, %swhat a save holds\n",
            str_bytes((double)r->plan->process), r->plan->n_ranks > 1 ? "MPI, " : "");
    printf("fits          %s: %s needed, %s %s\n", fits(r) ? "yes" : "no",
            str_bytes((double)run_plan_needs(r->plan)), str_bytes((double)r->limit.free),
            r->limit.what);
    if (r->would_fit) printf("              would fit: %s\n", r->would_fit);
}

// The reference of a run that learns from pairs: a pass over all rows before the first step, whose
// results lie beside the data.
static int64_t reference_bytes(const plan_report *r) {
    return r->inputs.pairs * 2 * (int64_t)sizeof(double);
}

static void print_reference(const plan_report *r) {
    if (r->reference_flops == 0) return;
    printf("reference     %s FLOP once before the first step, as %.3g steps; %s beside the data\n",
            str_si(r->reference_flops), r->reference_flops / run_plan_step_flops(r->plan),
            str_bytes((double)reference_bytes(r)));
}

static double trainable_share(const plan_report *r) {
    return (double)held_trained(&r->plan->programs.held) / (double)model_parameters(&r->cfg->model);
}

static void print_nodes(const programs *p) {
    for (int i = 0; i < p->held.n_all; i++)
        printf("%s%d in %s", i == 0 ? "nodes         " : ", ", p->held.all[i].graph->n_nodes,
                p->held.all[i].graph->name);
    printf("\n");
}

static void print_time(const plan_report *r) {
    const run_config *cfg = r->cfg;
    char how[64] = "as micro-batches took just now", step[32];
    if (!r->times.is_measured)
        snprintf(how, sizeof how, "at %.0f %% of this machine's GEMM peak",
                100 * r->times.peak_share);
    if (!(r->times.step_s > 0)) return;
    snprintf(step, sizeof step, "%.3g s", r->times.step_s);
    if (r->times.step_s >= 10)
        snprintf(step, sizeof step, "%s", str_long_duration(r->times.step_s));
    if (cfg->epochs > 0 && cfg->steps == 0)
        printf("time          %s per step, %s; training.epochs %g are as many steps as data.train gives\n",
                step, how, cfg->epochs);
    else
        printf("time          %s for %lld step%s, %s per step, %s; evaluations and checkpoints not counted\n",
                str_long_duration(r->times.run_s), (long long)cfg->steps, str_plural(cfg->steps),
                step, how);
}

static void print_plan(const plan_report *report) {
    const run_config *cfg = report->cfg;
    printf("model         %s parameters, %s\n", str_si((double)model_parameters(&cfg->model)),
            precision_name(cfg->precision));
    if (lora_is_on(cfg))
        printf("trainable     %lld in low-rank branches, %.3g %% of the model\n",
                (long long)held_trained(&report->plan->programs.held),
                100 * trainable_share(report));
    printf("batch         %lld row%s of %lld tokens, %lld per micro-batch, %d rank%s\n",
            (long long)cfg->global_batch_size, str_plural(cfg->global_batch_size),
            (long long)cfg->sequence_length, (long long)cfg->micro_batch_size,
            report->plan->n_ranks, report->plan->n_ranks > 1 ? "s" : "");
    char shared[64] = "";
    const bool blocks = cfg->n_context_blocks > cfg->context_parallel;
    if (blocks)
        snprintf(shared, sizeof shared, ", context %d with %lld reduction blocks",
                report->plan->mesh.size[AXIS_CONTEXT], (long long)cfg->n_context_blocks);
    else if (report->plan->mesh.size[AXIS_CONTEXT] > 1)
        snprintf(shared, sizeof shared, ", context %d", report->plan->mesh.size[AXIS_CONTEXT]);
    if (report->plan->n_ranks > 1 || blocks)
        printf("layout        tensor %d%s%s, data %d, %lld accumulation group%s\n",
                report->plan->mesh.size[AXIS_TENSOR],
                report->plan->programs.held.params.layout.sequence ? " with its tokens shared" : "",
                shared, report->plan->mesh.size[AXIS_DATA], (long long)cfg->n_accum_groups,
                str_plural(cfg->n_accum_groups));
    if (report->plan->is_pipeline) plan_stages_print(&report->plan->stages);
    printf("compute       %s FLOP per token, %s per step\n", str_si(report->plan->flops_per_token),
            str_si(run_plan_step_flops(report->plan)));
    if (programs_update_flops(&report->plan->programs) > 0)
        printf("              and %s in the update of this rank, %.2g %% of its share of a step\n",
                str_si(programs_update_flops(&report->plan->programs)),
                100 * programs_update_flops(&report->plan->programs) * report->plan->n_ranks /
                        run_plan_step_flops(report->plan));
    if (report->plan->recomputed_per_token > 0)
        printf("              and %s per token to compute again what is not kept\n",
                str_si(report->plan->recomputed_per_token));
    print_reference(report);
    print_nodes(&report->plan->programs);
    print_memory(report);
    const char *traffic = "traffic";
    for (int axis = 0; axis < N_AXES; axis++) {
        if (report->plan->wire[axis] == 0) continue;
        const bool update = axis == AXIS_DATA && report->plan->mesh.size[AXIS_CONTEXT] > 1;
        printf("%-13s %12s  sent by a rank in a step over the %s%s axis\n", traffic,
                str_bytes(report->plan->wire[axis]), mesh_axis_name((mesh_axis)axis),
                update ? " and context" : "");
        traffic = "";
    }
    print_time(report);
}

static json_t *reference_json(const plan_report *r) {
    if (r->reference_flops == 0) return json_null();
    return json_pack("{s:I,s:f,s:I}", "rows", (json_int_t)r->inputs.rows, "flops",
            r->reference_flops, "bytes", (json_int_t)reference_bytes(r));
}

static void print_plan_json(const plan_report *report) {
    const memory_plan *memory = &report->plan->memory;
    json_t *bytes = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "weights",
            (json_int_t)memory->weights, "gradients", (json_int_t)memory->gradients, "optimizer",
            (json_int_t)memory->optimizer, "activations", (json_int_t)memory->activations,
            "communication", (json_int_t)memory->communication, "data", (json_int_t)memory->data,
            "total", (json_int_t)memory->total, "process", (json_int_t)report->plan->process);
    json_object_set_new(bytes, "cudnn", json_integer(memory->masks + memory->workspace));
    json_t *all = json_pack("{s:I,s:I,s:f,s:f,s:i,s:o,s:f,s:f,s:b,s:I,s:I,s:s?}", "parameters",
            (json_int_t)model_parameters(&report->cfg->model), "trainable_parameters",
            (json_int_t)held_trained(&report->plan->programs.held), "flops_per_token",
            report->plan->flops_per_token, "recomputed_flops_per_token",
            report->plan->recomputed_per_token, "ranks", report->plan->n_ranks, "bytes", bytes,
            "step_seconds", report->times.step_s, "run_seconds", report->times.run_s, "fits",
            fits(report), "memory_bytes", (json_int_t)report->limit.machine, "memory_free_bytes",
            (json_int_t)report->limit.free, "would_fit", report->would_fit);
    json_t *wire = json_object();
    for (int axis = 0; axis < N_AXES; axis++)
        json_object_set_new(wire, mesh_axis_name((mesh_axis)axis),
                json_real(report->plan->wire[axis]));
    json_object_set_new(all, "wire_bytes", wire);
    json_object_set_new(all, "reference", reference_json(report));
    if (report->plan->is_pipeline)
        json_object_set_new(all, "pipeline", plan_stages_json(&report->plan->stages));
    json_object_set_new(all, "step_is_measured", json_boolean(report->times.is_measured));
    json_object_set_new(all, "steps", json_integer((json_int_t)report->cfg->steps));
    json_object_set_new(all, "refused",
            report->refused ? json_string(report->refused) : json_null());
    char *text = json_dumps(all, 0);
    puts(text);
    free(text);
    json_decref(all);
}

static drv_status run(arena *a, const cli_args *args) {
    run_config cfg;
    run_plan made;
    plan_report report = {.cfg = &cfg, .plan = &made};
    int64_t ranks = 0;
    DRV_TRY(cli_load_config(a, args, &cfg));
    DRV_TRY(cli_get_i64(args, "--ranks", 1, 1 << 20, &ranks));
    if (ranks && !cli_has(args, "--search"))
        DRV_TRY_CTX(config_set_ranks(&cfg, ranks), "plan: --ranks %lld", (long long)ranks);
    par_set_threads((int)cfg.threads);
    if (cli_has(args, "--search")) return plan_search(a, args, &cfg, ranks);
    if (cli_has(args, "--elastic")) return plan_elastic(a, args, &cfg);
    const drv_status inputs = run_inputs_try(&cfg, &report.inputs);
    if (inputs != DRV_OK) report.refused = arena_strdup(a, drv_message());
    DRV_TRY(run_plan_make(a, &cfg, &made));
    report.limit = memory_limit_read(""); // after the threads of a run have been started
    if (report.inputs.pairs > 0)
        report.reference_flops = run_plan_reference_flops(&made, report.inputs.rows);
    if (run_plan_needs(&made) > report.limit.free)
        DRV_TRY(fit_suggest(a, &cfg, &report.limit, &report.would_fit));
    DRV_TRY(run_plan_time(a, &made, &report.limit, &report.times));
    if (cli_has(args, "--json"))
        print_plan_json(&report);
    else
        print_plan(&report);
    if (inputs == DRV_OK) return DRV_OK;
    // A job of so many ranks runs elsewhere, where its data may lie.
    if (!ranks) return drv_fail(inputs, "train would refuse this run: %s", report.refused);
    log_warn("train would refuse this run here: %s", report.refused);
    return DRV_OK;
}

static const cli_option plan_options[] = {
        CLI_SET,
        CLI_JSON,
        {"--ranks", "N", "ranks of the job; those that parallel.tensor leaves share the rows"},
        PLAN_SEARCH_OPTIONS,
        ELASTIC_OPTIONS(
                "for each number of nodes up to --nodes the layout that a job would go on with"),
};
static const cli_rule plan_rules[] = {
        PLAN_SEARCH_RULES,
        {.option = "--elastic", .needs = "--nodes", .excludes = "--ranks"},
        ELASTIC_RULES,
};
const verb verb_plan = {
        .name = "plan",
        .summary = "print memory, FLOPs and time of a run before it runs",
        .usage =
                "[CONFIG] [--ranks N] [--json] [--set KEY=VALUE]...\n[CONFIG] --ranks N --search [--top N] [--memory SIZE] [--gflops X] [--link X[:Y]]\n[CONFIG] --elastic --nodes N [--ranks-per-node N] [--memory SIZE] [--gflops X]",
        .help = "Builds the graphs, differentiates them and places every byte, without allocating a\n"
                "weight. The run stays within what is printed. It says whether that fits into the memory\n"
                "of this machine, its control group and ulimit, or what would; and how long the run\n"
                "takes without evaluations and checkpoints: by the peak of matrix products, or, where a\n"
                "micro-batch takes less than a second, by running some on random tokens. Of a run on pairs\n"
                "(training.objective: dpo) also what their reference takes before the first step. Data and tokenizer\n"
                "that the config names are opened: what train would refuse ends the plan with the same error,\n"
                "after it is printed; with --ranks, which may be of another machine, it is a warning. Leave\n"
                "them out (--set data.train=[] --set tokenizer=) to plan a shape alone. Of a pipeline it\n"
                "tells each rank's layers and memory, the rank that needs most, and the bubble: the share of\n"
                "time in which a rank waits, found by simulating the schedule.\n"
                "\n"
                "--search tries the layouts of N ranks: tensor x pipeline (schedule, virtual stages) x context x\n"
                "data, with micro-batches, recomputation, tokens and optimizer shared or not; training.* and\n"
                "model.* stay, and parallel.* of the config is not looked at. It lists the fastest variant of\n"
                "each mesh that fits, with the keys to set, by time: products at 75 % of --gflops (without\n"
                "it of this machine's peak; 20 % where that is of AMX's registers), bytes at --link,\n"
                "at the same time only what parallel.overlap says; tokens/s, and MFU of --gflops. With\n"
                "--link X:Y --ranks-per-host N messages go at X GB/s inside a host and at Y between hosts:\n"
                "tensor ranks are neighbours, then context, data and pipeline ranks. No cluster is needed: say\n"
                "what a rank of yours is.\n"
                "Example: drover plan --set model.preset=llama-3-70b --ranks 512 --search\n"
                "             --memory 80GB --gflops 990e3 --link 450:50 --ranks-per-host 8\n"
                "             --set training.global_batch_size=1024\n"
                "\n"
                "--elastic lists what drover launch node --min-nodes goes on with when nodes are lost: for each\n"
                "number of nodes the fastest layout that fits, its tokens/s, and whether it has the bits of the\n"
                "whole job, which parallel.accumulation_groups decides; all nodes have the config's own.\n"
                "Example: drover plan run.yaml --elastic --nodes 16 --ranks-per-node 8\n"
                "\n"
                "Example: drover plan --set model.preset=llama-3.1-405b",
        .options = plan_options,
        .n_options = sizeof plan_options / sizeof *plan_options,
        .rules = plan_rules,
        .n_rules = sizeof plan_rules / sizeof *plan_rules,
        .max_positional = 1,
        .run = run,
};
