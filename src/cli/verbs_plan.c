// drover plan: prints the memory, the arithmetic and the time of a run before it starts.
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/plan_parts.h"
#include "programs/fit.h"
#include "search/rank_memory.h"
#include "search/run_plan.h"
#include "search/step_terms.h"
#include "train/run_inputs.h"
#include "weights/lora_state.h"

// A plan, and the memory and data with which it is compared.
typedef struct plan_report {
    const run_config *cfg;
    const run_plan *plan;
    run_plan_times times;
    memory_limit limit;
    const char *would_fit;     // keys to set; NULL: none would, or it fits
    inputs_counts inputs;      // the rows and pairs of the data
    double reference_flops;    // for the reference's log-probabilities, once; 0: no pairs
    const device_plan *device; // that --device names; NULL: this machine
    const char *zero;          // why parallel.zero: auto is what it is; NULL: it is not auto
    const char *refused;       // why `drover train` would not start; NULL: it would
    double price;              // money for an hour of the whole run; 0: not given
} plan_report;

static bool fits(const plan_report *r) {
    return run_plan_needs(r->plan) <= r->limit.free;
}

// Prints the bytes that a micro-batch stores on the host, and, on a device whose time is known, the
// rate at which that takes no longer than the forward pass, a third of the FLOP that count.
static void print_offloaded(const plan_report *r) {
    const run_plan *made = r->plan;
    const double bytes = (double)made->memory.offloaded,
                 all = made->flops_per_token + made->recomputed_per_token,
                 forward_s = r->times.step_s * made->flops_per_token / 3 / all;
    if (!(bytes > 0)) return;
    printf("  %-14s %12s  %lld, in the host's memory\n", "offloaded", str_bytes(bytes),
            (long long)made->memory.offloaded);
    if (r->device)
        printf("  %-14s %12s  a second to the host store them beside the forward pass\n", "",
                str_bytes(bytes * (double)made->programs.layout.micro_batches / forward_s));
}

static void print_memory(const plan_report *report) {
    const memory_plan *of = &report->plan->memory;
    const struct {
        const char *name;
        int64_t bytes;
    } classes[] = {{"weights", of->weights}, {"gradients", of->gradients},
            {"optimizer", of->optimizer}, {"activations", of->activations},
            {"communication", of->communication}, {"data", of->data},
            {"cuDNN", of->masks + of->workspace}, {"cuBLASLt", of->products}, {"total", of->total}};
    printf("memory per rank\n");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].bytes || strncmp(classes[i].name, "cu", 2) != 0)
            printf("  %-14s %12s  %lld\n", classes[i].name, str_bytes((double)classes[i].bytes),
                    (long long)classes[i].bytes);
    print_offloaded(report);
    if (report->plan->process)
        printf("  plus %s for the process: code and libraries, graphs, %sthe buffers of a save\n",
                str_bytes((double)report->plan->process), report->plan->n_ranks > 1 ? "MPI, " : "");
    printf("fits          %s: %s needed, %s %s\n", fits(report) ? "yes" : "no",
            str_bytes((double)run_plan_needs(report->plan)), str_bytes((double)report->limit.free),
            report->limit.what);
    if (report->would_fit) printf("              would fit: %s\n", report->would_fit);
}

// The reference of a run on preference pairs: a pass over all rows before the first step, whose
// results are saved with the data.
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
    char step[32];
    const char *how = r->times.is_measured ? "from micro-batches timed just now"
                                           : "from a profile of this machine measured just now";
    if (!(r->times.step_s > 0)) return;
    snprintf(step, sizeof step, "%.3g s", r->times.step_s);
    if (r->times.step_s >= 10)
        snprintf(step, sizeof step, "%s", str_long_duration(r->times.step_s));
    if (cfg->epochs > 0 && cfg->steps == 0)
        printf("time          %s per step, %s; the number of steps for training.epochs %g depends on data.train\n",
                step, how, cfg->epochs);
    else
        printf("time          %s for %lld step%s, %s per step, %s; without evaluations and checkpoints\n",
                str_long_duration(r->times.run_s), (long long)cfg->steps, str_plural(cfg->steps),
                step, how);
    if (!r->times.is_measured) step_terms_print(&r->times.cost);
}

// The cost of the whole run, without its evaluations and checkpoints; 0: its price or time is not
// known.
static double cost_of(const plan_report *r) {
    return r->cfg->steps > 0 ? r->price * r->times.run_s / 3600 : 0;
}

static void print_traffic(const run_plan *planned) {
    const char *traffic = "traffic";
    for (int axis = 0; axis < N_AXES; axis++) {
        if (planned->wire[axis] == 0) continue;
        const bool update = axis == AXIS_DATA && planned->mesh.size[AXIS_CONTEXT] > 1;
        printf("%-13s %12s  sent by a rank in a step over the %s%s axis\n", traffic,
                str_bytes(planned->wire[axis]), mesh_axis_name((mesh_axis)axis),
                update ? " and context" : "");
        traffic = "";
    }
    if (planned->mesh.groups)
        printf("%-13s %12s  of it between the %d groups of %lld data ranks, in the update\n", "",
                str_bytes(planned->between_groups), planned->mesh.groups,
                (long long)planned->cfg->zero_group);
}

static void print_plan(const plan_report *report) {
    const run_config *cfg = report->cfg;
    printf("model         %s parameters, %s\n", str_si((double)model_parameters(&cfg->model)),
            precision_name(cfg->precision));
    if (lora_is_on(cfg))
        printf("trainable     %lld in LoRA adapters, %.3g %% of the model\n",
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
        printf("              and %s per token for recomputation\n",
                str_si(report->plan->recomputed_per_token));
    print_reference(report);
    print_nodes(&report->plan->programs);
    print_memory(report);
    if (report->zero) printf("%-13s %s\n", "ZeRO", report->zero);
    print_traffic(report->plan);
    if (report->device)
        device_plan_print(report->device, report->plan->n_ranks, cfg->steps);
    else
        print_time(report);
    if (!report->device && report->plan->n_ranks > par_threads())
        printf("              of %d ranks like this machine: --device NAME plans for another one "
               "(drover devices --profiles)\n",
                report->plan->n_ranks);
    if (cost_of(report) > 0)
        printf("cost          %.2f, at %g an hour\n", cost_of(report), report->price);
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
    json_object_set_new(bytes, "offloaded", json_integer(memory->offloaded));
    json_object_set_new(bytes, "cublaslt", json_integer(memory->products));
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
    json_object_set_new(all, "zero", json_integer((json_int_t)report->cfg->zero));
    json_object_set_new(all, "reference", reference_json(report));
    if (report->plan->is_pipeline)
        json_object_set_new(all, "pipeline", plan_stages_json(&report->plan->stages));
    json_object_set_new(all, "step_is_measured", json_boolean(report->times.is_measured));
    json_object_set_new(all, "terms",
            step_terms_json(report->device ? &report->device->cost : &report->times.cost));
    if (report->device) {
        const device_plan *d = report->device;
        json_object_set_new(all, "device", json_string(d->device.name));
        json_object_set_new(all, "tokens_per_s", json_real(d->tokens_per_s));
        json_object_set_new(all, "mfu", json_real(d->mfu));
    }
    if (cost_of(report) > 0) json_object_set_new(all, "cost", json_real(cost_of(report)));
    json_object_set_new(all, "steps", json_integer((json_int_t)report->cfg->steps));
    json_object_set_new(all, "refused", json_of_text(report->refused));
    cli_puts_json(all, json_dumps(all, 0));
}

// Plans for a named device. Only the device's memory counts: the process has that of its host.
static drv_status plan_for_device(arena *a, const char *device, run_plan *planned,
        device_plan *named, plan_report *report) {
    DRV_TRY(device_plan_make(a, device, planned, named));
    planned->process = 0;
    report->device = named;
    report->limit = (memory_limit){.machine = named->device.memory,
            .free = named->device.memory,
            .what = arena_printf(a, "on %s", named->device.name)};
    report->times.step_s = named->cost.seconds;
    report->times.run_s = named->cost.seconds * (double)report->cfg->steps;
    return DRV_OK;
}

static drv_status run(arena *a, const cli_args *args) {
    run_config cfg;
    run_plan made;
    plan_report report = {.cfg = &cfg, .plan = &made};
    device_plan named;
    const char *device = cli_get(args, "--device", NULL);
    int64_t ranks = 0, process;
    DRV_TRY(cli_load_config(a, args, &cfg));
    DRV_TRY(cli_get_i64(args, "--ranks", 1, 1 << 20, &ranks));
    DRV_TRY(cli_get_f64(args, "--price", 0, 1e9, &report.price));
    if (ranks && !cli_has(args, "--search"))
        DRV_TRY_CTX(config_set_ranks(&cfg, ranks), "plan: --ranks %lld", (long long)ranks);
    par_set_threads((int)cfg.threads);
    if (cli_has(args, "--search")) return plan_search(a, args, &cfg, ranks);
    if (cli_has(args, "--elastic")) return plan_elastic(a, args, &cfg);
    const drv_status inputs = run_inputs_try(&cfg, &report.inputs);
    if (inputs != DRV_OK) report.refused = arena_strdup(a, drv_message());
    DRV_TRY(rank_memory(a, &cfg, device, 1, &report.limit, &process));
    DRV_TRY(fit_choose_zero(a, &cfg, &report.limit, process, &report.zero));
    DRV_TRY(run_plan_make(a, &cfg, &made));
    if (device) DRV_TRY(plan_for_device(a, device, &made, &named, &report));
    if (!device)
        report.limit = memory_limit_read(""); // after the threads of a run have been started
    if (report.inputs.pairs > 0)
        report.reference_flops = run_plan_reference_flops(&made, report.inputs.rows);
    if (run_plan_needs(&made) > report.limit.free)
        DRV_TRY(fit_suggest(a, &cfg, &report.limit, &report.would_fit));
    if (!device) DRV_TRY(run_plan_time(a, &made, &report.limit, &report.times));
    if (device && !cli_has(args, "--json")) device_plan_advise(a, &made, &named);
    if (cli_has(args, "--json"))
        print_plan_json(&report);
    else
        print_plan(&report);
    if (inputs == DRV_OK) return DRV_OK;
    // With --ranks the job runs elsewhere, and its data may be there.
    if (!ranks) return drv_fail(inputs, "train would refuse this run: %s", report.refused);
    log_warn("train would refuse this run here: %s", report.refused);
    return DRV_OK;
}

static const cli_option plan_options[] = {
        CLI_SET,
        CLI_JSON,
        {"--ranks", "N", "ranks of the job; parallel.data follows from it"},
        {"--device", "NAME|FILE",
                "the device of a rank, as h100 or a file; fields after commas replace its own"},
        {"--price", "MONEY", "price of an hour of the whole run; adds the cost to the plan"},
        PLAN_SEARCH_OPTIONS,
        ELASTIC_OPTIONS(
                "for each number of nodes up to --nodes, list the layout with which a job would continue"),
};
static const cli_rule plan_rules[] = {
        {.option = "--price", .excludes = "--search --elastic"},
        PLAN_SEARCH_RULES,
        {.option = "--elastic", .needs = "--nodes", .excludes = "--ranks"},
        ELASTIC_RULES,
};
const verb verb_plan = {
        .name = "plan",
        .summary = "print the memory, FLOPs and time of a run before it starts",
        .usage =
                "[CONFIG] [--ranks N] [--device NAME|FILE] [--price MONEY] [--json] [--set KEY=VALUE]...\n[CONFIG] --ranks N --search [--device NAME|FILE] [--top N] [--pin AXIS=N]\n[CONFIG] --ranks N --search [--memory SIZE] [--gflops X] [--link X[:Y]]\n[CONFIG] --elastic --nodes N [--ranks-per-node N] [--memory SIZE] [--gflops X]",
        .help = "Builds the graphs, differentiates them and assigns every byte of memory, without allocating a\n"
                "single weight. It prints the memory by class, which a run never exceeds; whether that fits on\n"
                "this machine (within the limits of its control group and of ulimit), and if not, what would fit;\n"
                "and how long the run takes, not counting evaluations and checkpoints. drover derives the time\n"
                "from a short step on this machine; if a micro-batch takes less than a second, it times several\n"
                "on random tokens. For preference pairs (training.objective: dpo) it adds the time to score the\n"
                "reference before the first step.\n"
                "\n"
                "It opens the data and the tokenizer of the config. If `drover train` would refuse them, it\n"
                "reports the same error after the plan; with --ranks, since the job may run elsewhere, it only\n"
                "warns. To plan without data and tokenizer, leave them out: --set data.train=[] --set tokenizer=.\n"
                "For a pipeline the plan lists the layers and the memory of each rank, the rank that needs most,\n"
                "and the bubble: the share of time in which a rank waits, found by simulating the schedule.\n"
                "Example: drover plan --set model.preset=llama-3.1-405b\n"
                "\n"
                "--device NAME|FILE plans for ranks on another device, which need not be present: its memory, the\n"
                "time of a step by terms (products, attention, memory, messages, bubble), tokens/s and MFU. It\n"
                "tries changes of single settings, such as the batch or fp8, and lists up to three that speed up\n"
                "the run most. `drover devices --profiles` lists the names; fields after commas replace those of\n"
                "the profile.\n"
                "Example: drover plan run.yaml --ranks 64 --device h100\n"
                "         drover plan run.yaml --ranks 64 --device h100 --price 160\n"
                "\n"
                "--search looks for the best layouts of N ranks. It tries tensor x pipeline (schedule, virtual\n"
                "stages) x context x data parallelism with micro-batches, recomputation, sequence parallelism and\n"
                "ZeRO; the model and training.* stay as they are, and parallel.* of the config is ignored. --pin\n"
                "tensor=8 fixes one axis. It lists the fastest variant of each mesh that fits, with its keys,\n"
                "time, tokens/s and MFU on the device that --device names. Without --device a rank has the speed\n"
                "of a short step on this machine; with --gflops it reaches typical shares of that peak. --link X\n"
                "gives the bandwidth between ranks. With --link X:Y --ranks-per-host N it is X GB/s inside a host\n"
                "and Y between hosts; tensor ranks are nearest to each other, then context, data and pipeline\n"
                "ranks.\n"
                "Example: drover plan --set model.preset=llama-3-70b --ranks 512 --search\n"
                "             --device h100 --set training.global_batch_size=1024\n"
                "\n"
                "--elastic lists how a job of `drover launch node --min-nodes` would continue after losing nodes:\n"
                "for each number of nodes the fastest layout that fits, its tokens/s, and whether its result is\n"
                "bit-identical to that of the whole job, which parallel.accumulation_groups determines. With all\n"
                "nodes it is the layout of the config.\n"
                "Example: drover plan run.yaml --elastic --nodes 16 --ranks-per-node 8",
        CLI_OPTIONS(plan_options),
        CLI_RULES(plan_rules),
        .max_positional = 1,
        .run = run,
};
