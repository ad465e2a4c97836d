// config, graph, plan: what a run is, before it runs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "cli/cli.h"
#include "cli/plan_device.h"
#include "cli/plan_elastic.h"
#include "cli/plan_search.h"
#include "cli/plan_stages.h"
#include "config/old_keys.h"
#include "data/set/dataset.h"
#include "programs/fit.h"
#include "search/layout_search.h"
#include "search/step_time.h"
#include "train/run_inputs.h"
#include "translate/translate.h"
#include "weights/lora_state.h"
#include "weights/process_bytes.h"

static drv_status load(arena *a, const cli_args *c, run_config *out) {
    int n;
    const char **sets = cli_get_all(a, c, "--set", &n);
    return config_load(a, c->n_positional ? c->positional[0] : NULL, sets, n, out);
}

static const cli_option config_options[] = {
        CLI_SET,
        {"--from", "KIND", "of another trainer: nxdt, nemo-megatron, args, axolotl"},
        {"--accept", "NAME", "this key may change the result; all: any (repeatable)"},
        {"--ranks", "N", "ranks of the job, where it does not say them"},
        {"--data", "PREFIX", "the data set to train on, of which epochs are counted"},
        {"--var", "NAME=VALUE", "a variable of its script (repeatable)"},
        {"--reference", NULL, "print docs/keys.md: all keys as Markdown, for no particular config"},
};
static const cli_rule config_rules[] = {
        {.option = "--reference", .excludes = "--set --from"},
        {.option = "--accept", .needs = "--from"},
        {.option = "--ranks", .needs = "--from"},
        {.option = "--data", .needs = "--from"},
        {.option = "--var", .needs = "--from"},
};

static drv_status count_data(const char *const *sets, int n_sets, data_counts *out) {
    arena *a = arena_new("data of a translation");
    run_config cfg;
    rows *train = NULL, *valid = NULL;
    drv_status status = config_load(a, NULL, sets, n_sets, &cfg);
    if (status == DRV_OK) status = run_inputs_open(a, &cfg, false, &train, &valid);
    if (status == DRV_OK) {
        *out = (data_counts){.rows = rows_per_epoch(train)};
        for (int i = 0; i < rows_n_sources(train); i++)
            out->tokens += rows_source(train, i)->n_tokens;
    }
    if (train) rows_close(train);
    if (valid) rows_close(valid);
    arena_free(a);
    return status == DRV_OK ? status : drv_context(status, "config: --data");
}

// The config of the translation is loaded as any before it is printed: what comes out reads back.
// The comment on the line of a refused value says where it comes from.
static drv_status check_translation(arena *a, const str *text) {
    run_config cfg;
    const drv_status status = config_load_text(a, "translation", text->p, text->n, &cfg);
    const char *said = status == DRV_OK ? "" : arena_strdup(a, drv_message()),
               *number = "translation:";
    if (!str_starts(said, number)) return status;
    const char *line = arena_strndup(a, text->p, text->n);
    for (long n = strtol(said + strlen(number), NULL, 10); n > 1 && line; n--)
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    const char *end = line ? line + strcspn(line, "\n") : NULL,
               *origin = line ? strstr(line, " # ") : NULL;
    if (!origin || origin > end) return status;
    origin += strlen(" # ");
    return drv_fail(status, "%s (%.*s)", said, (int)(end - origin), origin);
}

static drv_status print_translation(arena *a, const cli_args *args) {
    translate_opts opts = {.kind = cli_get(args, "--from", NULL),
            .files = (const char *const *)args->positional,
            .n_files = args->n_before,
            .words = (const char *const *)args->positional + args->n_before,
            .n_words = args->n_positional - args->n_before,
            .data = cli_get(args, "--data", NULL),
            .count_data = count_data};
    str text = {0}, report = {0};
    opts.sets = cli_get_all(a, args, "--set", &opts.n_sets);
    opts.variables = cli_get_all(a, args, "--var", &opts.n_variables);
    opts.accepts = cli_get_all(a, args, "--accept", &opts.n_accepts);
    DRV_TRY(cli_get_i64(args, "--ranks", 1, 1 << 20, &opts.ranks));
    drv_status status = translate(a, &opts, &text, &report);
    if (report.n) fputs(report.p, stderr);
    if (status == DRV_OK) status = check_translation(a, &text);
    if (status == DRV_OK) fputs(text.p, stdout);
    str_free(&text);
    str_free(&report);
    return status;
}

static drv_status run_config_verb(arena *a, const cli_args *args) {
    run_config cfg;
    str text = {0};
    if (cli_has(args, "--from")) return print_translation(a, args);
    if (args->n_positional > 1)
        return drv_fail(DRV_E_USAGE,
                "config: \"%s\" is one argument too many; see drover help config",
                args->positional[1]);
    if (cli_has(args, "--reference")) {
        if (args->n_positional)
            return drv_fail(DRV_E_USAGE,
                    "config: --reference is of no config in particular, but \"%s\" is given",
                    args->positional[0]);
        config_print_reference(&text);
    } else {
        DRV_TRY(load(a, args, &cfg));
        config_say_old_keys(&cfg);
        config_print(&cfg, true, &text);
    }
    fputs(text.p, stdout);
    str_free(&text);
    return DRV_OK;
}

const verb verb_config = {
        .name = "config",
        .summary = "print the effective options, or translate another trainer's",
        .usage = "[CONFIG|-] [--set KEY=VALUE]...\n"
                 "--from KIND FILE... [--accept NAME]... [-- WORD...]\n"
                 "--reference",
        .help = "Reads the YAML file, applies the overrides, checks everything and prints every key with\n"
                "its value, its meaning and its default. What it prints is itself a valid config.\n"
                "Example: drover config --set model.preset=llama-3.1-8b\n"
                "\n"
                "--from prints another trainer's run as a config. nxdt: a YAML of NxD Training,\n"
                "or its train.sh; nemo-megatron: scripts of neuronx-nemo-megatron; args: a\n"
                "command line of transformers, Optimum Neuron, TRL or NxD's scripts, in a file\n"
                "or after --; axolotl: its YAML. Scripts are read and never run. On standard\n"
                "error it says what became of each key; what would change the result is refused\n"
                "until it is accepted (docs/translate.md).\n"
                "Example: drover config --from nxdt hf_llama3_8B_config.yaml >run.yaml",
        .options = config_options,
        .n_options = sizeof config_options / sizeof *config_options,
        .rules = config_rules,
        .n_rules = sizeof config_rules / sizeof *config_rules,
        .max_positional = 1000,
        .run = run_config_verb,
};

static const cli_option graph_options[] = {
        CLI_SET,
        {"--program", "NAME", "step (default), update or eval; of a pipeline stage0.forward, ..."},
};

static drv_status refuse_program(arena *a, const programs *p, const char *name) {
    const char *names = "";
    for (int i = 0; i < p->held.n_all; i++)
        names = arena_printf(a, "%s%s%s", names, i == 0 ? "" : ", ", p->held.all[i].graph->name);
    return drv_fail(DRV_E_USAGE, "graph: --program is \"%s\", expected one of %s", name, names);
}

static drv_status run_graph(arena *a, const cli_args *args) {
    run_config cfg;
    programs p;
    DRV_TRY(load(a, args, &cfg));
    DRV_TRY(programs_build(a, &cfg, &p));
    const char *name = cli_get(args, "--program", p.held.all[0].graph->name);
    const built_program *found = held_find(&p.held, name);
    if (!found) return refuse_program(a, &p, name);
    str text = {0};
    graph_print(found->graph, &text);
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
// The figures of a plan, beside the programs themselves.
typedef struct plan_report {
    const run_config *cfg;
    const programs *p;
    memory_plan memory;
    int64_t process; // bytes beside them; 0: in another memory than the device's
    memory_limit limit;
    int ranks;
    mesh mesh;
    double wire[N_AXES];           // bytes that a rank sends in a step
    double flops_per_token, again; // of them, and beside them for what is computed again
    double step_s, run_s;          // seconds 0: not known
    bool fits;
    const char *would_fit;     // keys to set; NULL: none would, or it fits
    const stage_plans *stages; // NULL: no pipeline
    inputs_counts inputs;      // the data there is
    double reference_flops;    // to compute the reference's log-probabilities, once; 0: no pairs
    bool is_measured;          // step_s is of micro-batches that were run, not of the GEMM peak
    double share;              // of that peak which a step is expected to reach
    const device_plan *device; // what --device names; NULL: this machine
    const char *refused;       // why `drover train` would not begin; NULL: it would
} plan_report;

static double flops_of_step(const plan_report *r) {
    return r->flops_per_token * (double)(r->cfg->global_batch_size * r->cfg->sequence_length);
}

static void print_memory(const plan_report *report) {
    const memory_plan *m = &report->memory;
    const struct {
        const char *name;
        int64_t bytes;
    } classes[] = {{"weights", m->weights}, {"gradients", m->gradients},
            {"optimizer", m->optimizer}, {"activations", m->activations},
            {"communication", m->communication}, {"data", m->data},
            {"cuDNN", m->masks + m->workspace}, {"cuBLASLt", m->products}, {"total", m->total}};
    printf("memory per rank\n");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (classes[i].bytes || strncmp(classes[i].name, "cu", 2) != 0)
            printf("  %-14s %12s  %lld\n", classes[i].name, str_bytes((double)classes[i].bytes),
                    (long long)classes[i].bytes);
    if (report->process)
        printf("  besides, %s for the process: code and libraries, graphs, %swhat a save holds\n",
                str_bytes((double)report->process), report->ranks > 1 ? "MPI, " : "");
    printf("fits          %s: %s needed, %s %s\n", report->fits ? "yes" : "no",
            str_bytes((double)(m->total + report->process)), str_bytes((double)report->limit.free),
            report->limit.what);
    if (report->would_fit) printf("              would fit: %s\n", report->would_fit);
}

// The reference of a run that learns from pairs: a pass over all rows before the first step, whose
// results lie beside the data.
static int64_t reference_bytes(const plan_report *r) {
    return r->inputs.pairs * 2 * (int64_t)sizeof(double);
}

static void print_reference(const plan_report *r) {
    if (r->reference_flops == 0) return;
    printf("reference     %s FLOP once before the first step, as %.3g steps; %s beside the data\n",
            str_si(r->reference_flops), r->reference_flops / flops_of_step(r),
            str_bytes((double)reference_bytes(r)));
}

static double trainable_share(const plan_report *r) {
    return (double)held_trained(&r->p->held) / (double)model_parameters(&r->cfg->model);
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
    if (!r->is_measured)
        snprintf(how, sizeof how, "at %.0f %% of this machine's GEMM peak", 100 * r->share);
    if (!(r->step_s > 0)) return;
    snprintf(step, sizeof step, "%.3g s", r->step_s);
    if (r->step_s >= 10) snprintf(step, sizeof step, "%s", str_long_duration(r->step_s));
    if (cfg->epochs > 0 && cfg->steps == 0)
        printf("time          %s per step, %s; training.epochs %g are as many steps as data.train gives\n",
                step, how, cfg->epochs);
    else
        printf("time          %s for %lld step%s, %s per step, %s; evaluations and checkpoints not counted\n",
                str_long_duration(r->run_s), (long long)cfg->steps, str_plural(cfg->steps), step,
                how);
}

static void print_plan(const plan_report *report) {
    const run_config *cfg = report->cfg;
    printf("model         %s parameters, %s\n", str_si((double)model_parameters(&cfg->model)),
            precision_name(cfg->precision));
    if (lora_is_on(cfg))
        printf("trainable     %lld in low-rank branches, %.3g %% of the model\n",
                (long long)held_trained(&report->p->held), 100 * trainable_share(report));
    printf("batch         %lld row%s of %lld tokens, %lld per micro-batch, %d rank%s\n",
            (long long)cfg->global_batch_size, str_plural(cfg->global_batch_size),
            (long long)cfg->sequence_length, (long long)cfg->micro_batch_size, report->ranks,
            report->ranks > 1 ? "s" : "");
    char shared[64] = "";
    const bool several = cfg->n_context_blocks > cfg->context_parallel;
    if (several)
        snprintf(shared, sizeof shared, ", context %d with %lld reduction blocks",
                report->mesh.size[AXIS_CONTEXT], (long long)cfg->n_context_blocks);
    else if (report->mesh.size[AXIS_CONTEXT] > 1)
        snprintf(shared, sizeof shared, ", context %d", report->mesh.size[AXIS_CONTEXT]);
    if (report->ranks > 1 || several)
        printf("layout        tensor %d%s%s, data %d, %lld accumulation group%s\n",
                report->mesh.size[AXIS_TENSOR],
                report->p->held.params.layout.sequence ? " with its tokens shared" : "", shared,
                report->mesh.size[AXIS_DATA], (long long)cfg->n_accum_groups,
                str_plural(cfg->n_accum_groups));
    if (report->stages) plan_stages_print(report->stages);
    printf("compute       %s FLOP per token, %s per step\n", str_si(report->flops_per_token),
            str_si(flops_of_step(report)));
    if (programs_update_flops(report->p) > 0)
        printf("              and %s in the update of this rank, %.2g %% of its share of a step\n",
                str_si(programs_update_flops(report->p)),
                100 * programs_update_flops(report->p) * report->ranks / flops_of_step(report));
    if (report->again > 0)
        printf("              and %s per token to compute again what is not kept\n",
                str_si(report->again));
    print_reference(report);
    print_nodes(report->p);
    print_memory(report);
    const char *traffic = "traffic";
    for (int axis = 0; axis < N_AXES; axis++) {
        if (report->wire[axis] == 0) continue;
        const bool update = axis == AXIS_DATA && report->mesh.size[AXIS_CONTEXT] > 1;
        printf("%-13s %12s  sent by a rank in a step over the %s%s axis\n", traffic,
                str_bytes(report->wire[axis]), mesh_axis_name((mesh_axis)axis),
                update ? " and context" : "");
        traffic = "";
    }
    if (report->device) {
        device_plan_print(report->device, report->ranks, cfg->steps);
        return;
    }
    print_time(report);
    if (report->ranks > par_threads())
        printf("              of %d ranks like this machine: --device NAME plans for another one "
               "(drover devices --profiles)\n",
                report->ranks);
}

static json_t *reference_json(const plan_report *r) {
    if (r->reference_flops == 0) return json_null();
    return json_pack("{s:I,s:f,s:I}", "rows", (json_int_t)r->inputs.rows, "flops",
            r->reference_flops, "bytes", (json_int_t)reference_bytes(r));
}

static void print_plan_json(const plan_report *report) {
    const memory_plan *memory = &report->memory;
    json_t *bytes = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "weights",
            (json_int_t)memory->weights, "gradients", (json_int_t)memory->gradients, "optimizer",
            (json_int_t)memory->optimizer, "activations", (json_int_t)memory->activations,
            "communication", (json_int_t)memory->communication, "data", (json_int_t)memory->data,
            "total", (json_int_t)memory->total, "process", (json_int_t)report->process);
    json_object_set_new(bytes, "cudnn", json_integer(memory->masks + memory->workspace));
    json_object_set_new(bytes, "cublaslt", json_integer(memory->products));
    json_t *all = json_pack("{s:I,s:I,s:f,s:f,s:i,s:o,s:f,s:f,s:b,s:I,s:I,s:s?}", "parameters",
            (json_int_t)model_parameters(&report->cfg->model), "trainable_parameters",
            (json_int_t)held_trained(&report->p->held), "flops_per_token", report->flops_per_token,
            "recomputed_flops_per_token", report->again, "ranks", report->ranks, "bytes", bytes,
            "step_seconds", report->step_s, "run_seconds", report->run_s, "fits", report->fits,
            "memory_bytes", (json_int_t)report->limit.machine, "memory_free_bytes",
            (json_int_t)report->limit.free, "would_fit", report->would_fit);
    json_t *wire = json_object();
    for (int axis = 0; axis < N_AXES; axis++)
        json_object_set_new(wire, mesh_axis_name((mesh_axis)axis), json_real(report->wire[axis]));
    json_object_set_new(all, "wire_bytes", wire);
    json_object_set_new(all, "reference", reference_json(report));
    if (report->stages) json_object_set_new(all, "pipeline", plan_stages_json(report->stages));
    json_object_set_new(all, "step_is_measured", json_boolean(report->is_measured));
    if (report->device) {
        const device_plan *d = report->device;
        json_object_set_new(all, "device", json_string(d->device.name));
        json_object_set_new(all, "terms", device_plan_terms(d));
        json_object_set_new(all, "tokens_per_s", json_real(d->tokens_per_s));
        json_object_set_new(all, "mfu", json_real(d->mfu));
    }
    json_object_set_new(all, "steps", json_integer((json_int_t)report->cfg->steps));
    json_object_set_new(all, "refused",
            report->refused ? json_string(report->refused) : json_null());
    char *text = json_dumps(all, 0);
    puts(text);
    free(text);
    json_decref(all);
}

static drv_status measure_time(arena *a, plan_report *r) {
    const run_config *cfg = r->cfg;
    backend *host;
    DRV_TRY(backend_open_host(a, &host));
    double peak;
    const drv_status status = backend_peak_flops(host, &peak);
    r->share = backend_expected_share(host);
    backend_close(host);
    DRV_TRY(status);
    const double tokens = (double)(cfg->global_batch_size * cfg->sequence_length / cfg->data_ranks);
    if (peak > 0)
        r->step_s =
                (r->flops_per_token + r->again) * tokens /
                ((double)(cfg->tensor_parallel * cfg->pipeline_parallel * cfg->context_parallel) *
                        r->share * peak * (1 - (r->stages ? r->stages->result.bubble : 0)));
    r->run_s = r->step_s * (double)cfg->steps;
    return DRV_OK;
}

// A run of one rank is tried; one rank cannot run what several share.
static drv_status time_here(arena *a, plan_report *r) {
    const run_config *cfg = r->cfg;
    DRV_TRY(measure_time(a, r));
    if (cfg->tensor_parallel * cfg->pipeline_parallel * cfg->context_parallel > 1) return DRV_OK;
    return step_rehearse(a, cfg, &r->limit, r->step_s, &r->step_s, &r->is_measured);
}

// The device's memory counts alone: the process has that of its host.
static drv_status plan_for_device(arena *a, const char *device, device_plan *planned,
        plan_report *r) {
    DRV_TRY(device_plan_make(a, device, r->p, r->stages, planned));
    r->device = planned;
    r->process = 0;
    r->limit = (memory_limit){.machine = planned->device.memory,
            .free = planned->device.memory,
            .what = arena_printf(a, "on %s", planned->device.name)};
    r->step_s = planned->cost.seconds;
    return DRV_OK;
}

static drv_status run_plan(arena *a, const cli_args *args) {
    const char *device = cli_get(args, "--device", NULL);
    device_plan planned;
    run_config cfg;
    programs built;
    int64_t ranks = 0;
    DRV_TRY(load(a, args, &cfg));
    DRV_TRY(cli_get_i64(args, "--ranks", 1, 1 << 20, &ranks));
    if (ranks && !cli_has(args, "--search"))
        DRV_TRY_CTX(config_set_ranks(&cfg, ranks), "plan: --ranks %lld", (long long)ranks);
    par_set_threads((int)cfg.threads);
    if (cli_has(args, "--search")) return plan_search(a, args, &cfg, ranks);
    if (cli_has(args, "--elastic")) return plan_elastic(a, args, &cfg);
    inputs_counts counts;
    const drv_status inputs = run_inputs_try(&cfg, &counts);
    const char *refused = inputs == DRV_OK ? NULL : arena_strdup(a, drv_message());
    stage_plans stages;
    if (cfg.pipeline_parallel > 1) DRV_TRY(stage_plans_make(a, false, &cfg, &stages));
    DRV_TRY(programs_plan(a, &cfg, &built));
    plan_report report = {.cfg = &cfg,
            .p = &built,
            .memory = programs_memory(&built),
            .process = process_bytes(&cfg),
            .limit = memory_limit_read(""),
            .mesh = run_mesh(&cfg),
            .refused = refused,
            .inputs = counts,
            .stages = cfg.pipeline_parallel > 1 ? &stages : NULL,
            .flops_per_token = programs_flops_per_token(&built, false)};
    report.ranks = mesh_ranks(&report.mesh);
    if (device) DRV_TRY(plan_for_device(a, device, &planned, &report));
    programs_wire(&built, report.wire);
    if (report.stages) memcpy(report.wire, stages.wire, sizeof report.wire);
    report.again = programs_flops_per_token(&built, true) - report.flops_per_token;
    if (counts.pairs > 0)
        report.reference_flops =
                programs_eval_flops_per_token(&built) * (double)(counts.rows * cfg.sequence_length);
    report.fits = report.memory.total + report.process <= report.limit.free;
    if (!report.fits) DRV_TRY(fit_suggest(a, &cfg, &report.limit, &report.would_fit));
    if (!device) DRV_TRY(time_here(a, &report));
    report.run_s = report.step_s * (double)cfg.steps;
    if (cli_has(args, "--json"))
        print_plan_json(&report);
    else
        print_plan(&report);
    if (inputs == DRV_OK) return DRV_OK;
    // A job of so many ranks runs elsewhere, where its data may lie.
    if (!ranks) return drv_fail(inputs, "train would refuse this run: %s", refused);
    log_warn("train would refuse this run here: %s", refused);
    return DRV_OK;
}

static const cli_option plan_options[] = {
        CLI_SET,
        CLI_JSON,
        {"--ranks", "N", "ranks of the job; those that parallel.tensor leaves share the rows"},
        PLAN_DEVICE_OPTION,
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
                "[CONFIG] [--ranks N] [--device NAME|FILE] [--json] [--set KEY=VALUE]...\n[CONFIG] --ranks N --search [--device NAME|FILE] [--top N] [--pin AXIS=N]\n[CONFIG] --ranks N --search [--memory SIZE] [--gflops X] [--link X[:Y]]\n[CONFIG] --elastic --nodes N [--ranks-per-node N] [--memory SIZE] [--gflops X]",
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
                "--device NAME|FILE plans for a device that need not be here, as one rank has it: memory, time by\n"
                "terms (products, attention, memory, messages, bubble), tokens/s and MFU. drover devices\n"
                "--profiles lists the names; fields after commas replace a profile's own.\n"
                "Example: drover plan run.yaml --ranks 64 --device h100\n"
                "         drover plan run.yaml --ranks 64 --device h100,memory=96GB,price_per_hour=2.5\n"
                "\n"
                "--search tries the layouts of N ranks: tensor x pipeline (schedule, virtual stages) x context x\n"
                "data, with micro-batches, recomputation, tokens and optimizer shared or not; training.* and\n"
                "model.* stay, and parallel.* of the config is not looked at. It lists the fastest variant of\n"
                "each mesh that fits, with the keys to set, by time, tokens/s and MFU, on what --device names. Without\n"
                "it products run at 75 % of --gflops (without that of this machine's peak; 20 % where that is of\n"
                "AMX's registers), bytes go at --link, and nothing else takes time. With --link X:Y\n"
                "--ranks-per-host N messages go at X GB/s inside a host and at Y between hosts: tensor ranks are\n"
                "neighbours, then context, data and pipeline ranks. --pin tensor=8 keeps an axis.\n"
                "Example: drover plan --set model.preset=llama-3-70b --ranks 512 --search --device h100\n"
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
        .run = run_plan,
};
