// Builds the graphs of a config and has the back end load them.
#include "programs/programs.h"

#include "ir/program_inputs.h"
#include "programs/stages.h"
#include "weights/base_blocks.h"
#include "weights/lora_state.h"
#include "setup/run_layout.h"

static drv_status build_step(arena *a, programs *p) {
    llama_opts opts = stages_step_opts(p);
    p->step_graph = llama_build(a, &p->held.params, LLAMA_LOSS, &opts);
    p->step_graph->name = "step";
    held_add(a, &p->held, p->step_graph, &p->step, true);
    DRV_TRY(stages_differentiate(p, p->step_graph, "loss", INPUT_ALONE, 1));
    stages_shard_weights(p, p->step_graph);
    return graph_verify(p->step_graph, STAGE_DIFFERENTIATED);
}

static dtype kept_dtype(precision p) {
    return p == PRECISION_BF16 ? DT_BF16 : DT_F32;
}

// Slots for the binary counter of this rank's accumulation groups. `of`: the program that adds to
// the gradients.
static drv_status build_accum_groups(arena *a, tensor *const *weights, int n, const graph *of,
        accum_group_programs *accum_groups, programs *p) {
    tensor **added = ARENA_ARRAY(a, tensor *, n);
    const dtype grads = kept_dtype(p->held.config->grad_dtype);
    int n_added = 0;
    const int blocks = p->layout.zigzag.blocks_here;
    for (int i = 0; i < n; i++)
        if (graph_find(of, arena_printf(a, "grad.%s", weights[i]->name)))
            added[n_added++] = weights[i];
    for (int slot = 0; slot < p->n_accum_slots && n_added; slot++) {
        graph *aside = pass_accum_group(a, added, n_added, slot, blocks, true, grads),
              *back = pass_accum_group(a, added, n_added, slot, blocks, false, grads);
        if (p->n_stages) aside->name = arena_printf(a, "%s.%s", of->name, aside->name);
        if (p->n_stages) back->name = arena_printf(a, "%s.%s", of->name, back->name);
        held_add(a, &p->held, aside, &accum_groups->aside[slot], false);
        held_add(a, &p->held, back, &accum_groups->back[slot], false);
        DRV_TRY(graph_verify(aside, STAGE_DIFFERENTIATED));
        DRV_TRY(graph_verify(back, STAGE_DIFFERENTIATED));
    }
    return DRV_OK;
}

// The weights of the update, with their attributes.
typedef struct update_weights {
    tensor **w; // n trained ones, then second uses
    bool *split, *tied, *copy;
    muon_weight *muon;
    int n, n_second;
} update_weights;

// Each part of a fused weight is a matrix of its own, as in the model's files.
static muon_weight muon_of(const held_model *held, const param *w) {
    return (muon_weight){.is = held_by_muon(held, w),
            .by_columns = w->split == SPLIT_COLUMNS,
            .second_row = w->n_parts > 1 ? (int)w->part[1].row : 0,
            .third_row = w->n_parts > 2 ? (int)w->part[2].row : 0};
}

static update_weights list_weights(arena *a, const programs *p) {
    const param_list *params = &p->held.params;
    graph *apart = graph_new(a, "weights");
    update_weights list = {.w = ARENA_ARRAY(a, tensor *, params->n + 1),
            .split = ARENA_ARRAY(a, bool, params->n),
            .tied = ARENA_ARRAY(a, bool, params->n),
            .copy = ARENA_ARRAY(a, bool, params->n),
            .muon = ARENA_ARRAY(a, muon_weight, params->n)};
    for (int i = 0; i < params->n; i++) {
        const param *w = &params->p[i];
        if (!w->trainable) continue;
        const bool table = w == params->embedding || w == params->head;
        list.split[list.n] = w->split != SPLIT_NONE;
        list.tied[list.n] = table && p->held.config->model.tie_word_embeddings;
        list.copy[list.n] = w->is_copy;
        list.muon[list.n] = muon_of(&p->held, w);
        list.w[list.n++] = graph_state(apart, TENSOR_WEIGHT, w->name, param_dtype(w, p->held.dt),
                w->n_dims, w->dim);
    }
    const param *head = params->head;
    if (head && head == params->embedding && head->trainable)
        list.w[list.n + list.n_second++] =
                graph_state(apart, TENSOR_WEIGHT, arena_printf(a, "%s.second", head->name),
                        param_dtype(head, p->held.dt), head->n_dims, head->dim);
    return list;
}

static drv_status build_update(arena *a, const run_config *cfg, programs *p) {
    const update_weights list = list_weights(a, p);
    const int n_all = list.n + list.n_second;
    for (int64_t accum_groups = p->layout.accum_groups_here;
            (int64_t)1 << p->n_accum_slots < accum_groups;)
        p->n_accum_slots++;
    if (!p->n_stages)
        DRV_TRY(build_accum_groups(a, list.w, n_all, p->step_graph, &p->accum_groups, p));
    for (int v = 0; v < p->n_stages; v++)
        for (int part = CUT_BACKWARD; part < N_CUTS; part++) {
            const graph *of = p->stage[v].graph[part];
            if (of)
                DRV_TRY(build_accum_groups(a, list.w, n_all, of, &p->stage[v].accum_groups[part],
                        p));
        }
    const run_layout *layout = &p->layout;
    const update_opts opts = {.beta1 = cfg->betas[0],
            .beta2 = cfg->betas[1],
            .eps = cfg->eps,
            .weight_decay = cfg->weight_decay,
            .mesh = mesh_of_update(&layout->mesh),
            .split = list.split,
            .tied = list.tied,
            .copy = list.copy,
            .row_blocks = layout->zigzag.blocks_here,
            .data_ranks = (int)cfg->data_ranks,
            .zero = p->held.zero > 0,
            .moments = kept_dtype(cfg->state_dtype),
            .grads = kept_dtype(cfg->grad_dtype),
            .no_masters = !config_has_masters(cfg),
            .shards = layout->shards,
            .weight_shards = layout->weights.ranks > 0,
            .summed = layout->sums.ranks > 0,
            .gathers_async = layout->gathers_async,
            .keep_gradients = cfg->hash_every > 0,
            .decay_norms = cfg->decay_norms,
            .muon = cfg->optimizer == OPTIMIZER_ADAMW ? NULL : list.muon,
            .muon_momentum = cfg->muon_momentum,
            .ns_steps = (int)cfg->muon_ns_steps,
            .normuon_beta2 = cfg->optimizer == OPTIMIZER_NORMUON ? cfg->normuon_beta2 : 0,
            .muon_owners = held_has_owners(&p->held),
            .place = mesh_shard_of(&layout->mesh, (int)cfg->rank)};
    p->update_graph = pass_update(a, list.w, list.n, &opts);
    p->update_graph->between_steps = true;
    held_add(a, &p->held, p->update_graph, &p->update, false);
    return graph_verify(p->update_graph, STAGE_DIFFERENTIATED);
}

// Refuses sizes that do not divide, and settings that the back end does not support.
static drv_status check_mesh(const run_config *cfg, const run_layout *layout) {
    const int64_t t = cfg->tensor_parallel, tokens = cfg->micro_batch_size * layout->row_tokens;
    if (t > 1 && cfg->sequence_parallel && tokens % t != 0)
        return config_refuse(cfg, "parallel.tensor",
                "is %lld, expected a divisor of the %lld tokens of a micro-batch%s, or parallel.sequence: false",
                (long long)t, (long long)tokens,
                cfg->context_parallel > 1 ? " on a context rank" : "");
    if (!config_backend(cfg)->orders_sums && layout->zigzag.blocks_here > 1)
        return config_refuse(cfg, "parallel.context_blocks",
                "is %lld, expected %lld, a reduction block of the row for each context rank: backend %s joins no "
                "reduction blocks of one rank",
                (long long)cfg->n_context_blocks, (long long)cfg->context_parallel, cfg->backend);
    return DRV_OK;
}

static drv_status build(arena *a, const run_config *cfg, bool is_outline, programs *p) {
    *p = (programs){.layout = run_layout_of(cfg), .is_outline = is_outline};
    p->held = (held_model){.config = cfg,
            .dt = cfg->precision != PRECISION_F32 ? DT_BF16 : DT_F32,
            .zero = p->layout.zero};
    model_layout layout;
    if (cfg->grad_dtype == PRECISION_BF16 && p->layout.zigzag.blocks_here > 1)
        return drv_fail(DRV_E_USAGE,
                "%s: training.grad_dtype is bf16, but each rank has %d reduction blocks of a row, whose gradients "
                "are fp32: expected as many context ranks as reduction blocks",
                config_where(cfg, "training.grad_dtype"), p->layout.zigzag.blocks_here);
    DRV_TRY(run_layout_check(cfg));
    DRV_TRY(check_mesh(cfg, &p->layout));
    DRV_TRY_CTX(run_layout_model(cfg, &layout), "%s", config_where(cfg, "parallel.tensor"));
    if (cfg->pipeline_parallel > 1)
        DRV_TRY_CTX(layout_cut_layers(&layout, (int)cfg->rank, (int)cfg->virtual_stages), "%s",
                config_where(cfg, "parallel.pipeline"));
    DRV_TRY(lora_of_run(a, cfg, &p->held.lora));
    p->held.params = llama_params(a, &layout, &p->held.lora);
    DRV_TRY(base_blocks_choose(a, cfg, p->held.dt, &p->held.params));
    if (cfg->pipeline_parallel > 1) {
        DRV_TRY(stages_build(a, cfg, p));
    } else {
        DRV_TRY(build_step(a, p));
        DRV_TRY(stages_build_eval(a, p, 0, 0, "eval", &p->eval_graph, &p->eval));
    }
    return build_update(a, cfg, p);
}

drv_status programs_build(arena *a, const run_config *cfg, programs *p) {
    return build(a, cfg, false, p);
}

drv_status programs_outline(arena *a, const run_config *cfg, programs *p) {
    return build(a, cfg, true, p);
}

bool programs_is_last(const programs *p, int chunk) {
    return p->held.params.layout.has_head && chunk == p->held.params.layout.n_chunks - 1;
}

drv_status programs_write_dloss(programs *p, double dloss) {
    const int n = p->layout.zigzag.blocks_here * p->layout.partial_sums;
    for (int i = 0; i < n; i++)
        DRV_TRY(backend_write(p->held.b, program_inputs[INPUT_DLOSS].name,
                i * (int64_t)sizeof dloss, sizeof dloss, &dloss));
    return DRV_OK;
}

bool programs_has_loss(const programs *p) {
    return p->held.params.layout.has_head;
}

// Pairs have figures beside their loss, which are read after every micro-batch.
static bool allows_whole_step(const programs *p) {
    return !p->n_stages && p->n_accum_slots == 0 && mesh_ranks(&p->layout.mesh) == 1 &&
           p->held.config->objective != OBJECTIVE_DPO;
}

bool programs_makes_gradients_once(const programs *p) {
    return config_backend(p->held.config)->has_devices && allows_whole_step(p) &&
           p->layout.all_micro_batches == 1;
}

// Programs to be loaded, with the number of nodes of each.
typedef struct request_list {
    load_request *r;
    const char **name;
    int *n_nodes;
    int n;
} request_list;

// Lists the programs to load: all graphs, with one program in the place of the step's and the
// update's where whole steps are one.
static request_list list_requests(arena *a, backend *device, programs *p) {
    request_list list = {ARENA_ARRAY(a, load_request, p->held.n_all),
            ARENA_ARRAY(a, const char *, p->held.n_all), ARENA_ARRAY(a, int, p->held.n_all), 0};
    const bool whole = backend_has_steps(device) && allows_whole_step(p);
    for (int i = 0; i < p->held.n_all; i++) {
        built_program *one = &p->held.all[i];
        load_request *r = &list.r[list.n];
        one->plan = backend_plan(a, device, one->graph);
        if (whole && one->graph == p->update_graph) continue;
        *r = (load_request){.plan = one->plan, .out = one->run};
        list.n_nodes[list.n] = one->graph->n_nodes;
        list.name[list.n++] = one->graph->name;
        if (!whole || one->graph != p->step_graph) continue;
        step_parts *parts = ARENA_NEW(a, step_parts);
        *parts = (step_parts){"whole_step", p->step_graph, p->update_graph,
                (int)p->layout.all_micro_batches};
        r->parts = parts;
        r->out = &p->whole_step;
        list.name[list.n - 1] = parts->name;
    }
    return list;
}

drv_status programs_compile(arena *a, backend *b, programs *p, const compile_report *report) {
    const request_list list = list_requests(a, b, p);
    const load_request *failed = NULL;
    p->held.b = b;
    if (p->n_stages) DRV_TRY(backend_check_pipeline(b));
    DRV_TRY(backend_load_all(a, b, list.r, list.n));
    for (int i = 0; i < list.n; i++) {
        if (list.r[i].status != DRV_OK && !failed) failed = &list.r[i];
        if (report) report->tell(report->ctx, list.name[i], list.n_nodes[i], &list.r[i]);
    }
    return failed ? drv_fail(failed->status, "%s", failed->message) : DRV_OK;
}

drv_status programs_load(arena *a, backend *b, programs *p) {
    DRV_TRY(programs_compile(a, b, p, NULL));
    DRV_TRY(programs_check_fit(p));
    DRV_TRY(held_write_extents(&p->held));
    return backend_prepare(b);
}

static drv_status load_planner(arena *a, programs *p) {
    return programs_load(a, backend_open_planner(a, config_backend(p->held.config)->has_devices),
            p);
}

drv_status programs_plan(arena *a, const run_config *cfg, programs *p) {
    DRV_TRY(programs_build(a, cfg, p));
    return load_planner(a, p);
}

drv_status programs_plan_outline(arena *a, const run_config *cfg, programs *p) {
    DRV_TRY(programs_outline(a, cfg, p));
    return load_planner(a, p);
}

drv_status programs_finish_accum_group(programs *p, const accum_group_programs *accum_groups,
        int64_t accum_group, int64_t n_accum_groups) {
    const bool last = accum_group + 1 == n_accum_groups;
    for (int slot = 0; slot < p->n_accum_slots; slot++) {
        const bool taken = accum_group >> slot & 1;
        if (!taken && !last)
            return accum_groups->aside[slot] ? backend_run(p->held.b, accum_groups->aside[slot])
                                             : DRV_OK;
        if (taken && accum_groups->back[slot])
            DRV_TRY(backend_run(p->held.b, accum_groups->back[slot]));
    }
    return DRV_OK;
}
