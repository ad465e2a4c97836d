// Stages: built and differentiated as one graph each, then cut into the programs that the schedule
// runs.
#include "programs/stages.h"

#include <stdio.h>
#include <string.h>

#include "backend/devices.h"
#include "ir/program_inputs.h"

#include "setup/run_layout.h"

preference_loss stages_preference(const run_config *cfg) {
    if (cfg->objective != OBJECTIVE_DPO) return (preference_loss){0};
    return (preference_loss){cfg->dpo.beta, cfg->dpo.label_smoothing};
}

bool stages_on_cuda(const run_config *cfg) {
    if (!config_backend(cfg)->has_devices) return false;
    arena *a = arena_new("the plugin");
    const bool cuda = strstr(plugin_name_of(a, cfg->pjrt.plugin), "cuda") != NULL;
    arena_free(a);
    return cuda;
}

// A GPU reads and writes the sum of the head's gradient once for each piece of the logits: four
// pieces of a row of 8,192 tokens instead of the 16 of a CPU. 1 GiB is an eightieth of the memory
// of an A100 or H100, so that a plan need not know which GPU it is for.
int64_t stages_logit_bytes(const run_config *cfg) {
    enum { GPU_MIB = 1024 };
    if (!config_backend(cfg)->has_devices) return 0;
    if (cfg->pjrt.logit_mib > 0) return (int64_t)(cfg->pjrt.logit_mib * (1 << 20));
    return stages_on_cuda(cfg) ? (int64_t)GPU_MIB << 20 : 0;
}

static const recompute_policy policies[] = {[RECOMPUTE_NONE] = KEEP_ALL,
        [RECOMPUTE_GATHERS] = KEEP_SHARDS,
        [RECOMPUTE_SELECTIVE] = KEEP_GEMMS,
        [RECOMPUTE_FULL] = KEEP_STREAM};

llama_opts stages_step_opts(const programs *p) {
    const run_config *cfg = p->held.config;
    const run_layout *layout = &p->layout;
    return (llama_opts){.rows = cfg->micro_batch_size,
            .seq = layout->row_tokens,
            .row_blocks = layout->zigzag.blocks_here,
            .dt = p->held.dt,
            .fp8 = cfg->precision == PRECISION_F8,
            .partial_sum_rows = config_partial_sum_rows(cfg),
            .adds_up = layout->in_accum_group > 1 && cfg->grad_dtype != PRECISION_BF16 &&
                       layout->zero < 2,
            .dropout = cfg->lora.dropout,
            .seed = cfg->seed,
            .causal = cfg->pack == PACK_STREAM,
            .documents = (int)cfg->row_documents,
            .preference = stages_preference(cfg),
            .logit_bytes = stages_logit_bytes(cfg)};
}

drv_status stages_differentiate(const programs *p, graph *g, const char *name, int chunk,
        int n_slots) {
    const run_config *cfg = p->held.config;
    DRV_TRY(graph_verify(g, STAGE_BUILT));
    pass_autodiff(g, name);
    DRV_TRY(graph_verify(g, STAGE_DIFFERENTIATED));
    pass_recompute(g, policies[cfg->recompute]);
    if (cfg->offload == OFFLOAD_ACTIVATIONS) pass_offload(g);
    const gradient_shards *shards = &p->layout.shards;
    if (shards->ranks) pass_shard_gradients(g, shards, chunk, n_slots);
    if (cfg->grad_dtype == PRECISION_BF16) pass_round_gradients(g, chunk, n_slots);
    const gradient_sums *sums = &p->layout.sums;
    if (sums->ranks) pass_overlapped_sums(g, sums, chunk, n_slots);
    return graph_verify(g, STAGE_DIFFERENTIATED);
}

void stages_shard_weights(const programs *p, graph *g) {
    if (p->layout.weights.ranks) pass_shard_weights(g, &p->layout.weights);
}

// --- the schedule
pipeline_kind stages_kind(stage_schedule schedule) {
    static const pipeline_kind kinds[] = {[SCHEDULE_1F1B] = PIPELINE_1F1B,
            [SCHEDULE_GPIPE] = PIPELINE_GPIPE,
            [SCHEDULE_INTERLEAVED] = PIPELINE_INTERLEAVED,
            [SCHEDULE_ZB_H1] = PIPELINE_ZB_H1};
    return kinds[schedule];
}

pipeline_shape stages_shape(const run_config *cfg) {
    return (pipeline_shape){.kind = stages_kind(config_pipeline_schedule(cfg)),
            .ranks = (int)cfg->pipeline_parallel,
            .chunks = (int)cfg->virtual_stages,
            .micro_batches = (int)run_layout_of(cfg).micro_batches};
}

drv_status stages_find_shape(const run_config *cfg, pipeline_shape *out) {
    *out = stages_shape(cfg);
    DRV_TRY_CTX(pipeline_find_group(out), "%s: parallel.schedule",
            config_where(cfg, "parallel.schedule"));
    return DRV_OK;
}

drv_status stages_time(arena *a, const run_config *cfg, pipeline_result *out) {
    pipeline_shape shape;
    DRV_TRY(stages_find_shape(cfg, &shape));
    const int n = shape.ranks * shape.chunks;
    int *layers = ARENA_ARRAY(a, int, n);
    double *forward = ARENA_ARRAY(a, double, n), *input_grad = ARENA_ARRAY(a, double, n);
    layout_share_layers(&cfg->model, n, layers);
    for (int i = 0; i < n; i++) {
        const double again = cfg->recompute == RECOMPUTE_FULL ? layers[i] : 0,
                     head = i == n - 1 ? layout_head_in_layers(&cfg->model) : 0;
        forward[i] = layers[i] + head;
        input_grad[i] = forward[i] + again;
    }
    const pipeline_cost cost = {forward, input_grad, forward, 0};
    return pipeline_time(a, &shape, &cost, out);
}

static drv_status build_schedule(arena *a, const run_config *cfg, programs *p) {
    const int place = mesh_place(&p->layout.mesh, (int)cfg->rank, AXIS_PIPELINE);
    pipeline_shape shape;
    DRV_TRY(stages_find_shape(cfg, &shape));
    if (p->is_outline) {
        shape = pipeline_shortened(&shape, PIPELINE_SHORT);
        DRV_TRY(pipeline_build_rank(a, &shape, place, &p->schedule));
    } else {
        DRV_TRY(pipeline_build(a, &shape, &p->schedule));
        DRV_TRY(pipeline_check(&p->schedule));
        p->round = pipeline_rounds(a, &p->schedule, place, &p->n_rounds);
    }
    p->slots = pipeline_find_slots(a, &p->schedule, place);
    return DRV_OK;
}

// --- programs
static int64_t bytes_between(const run_config *cfg, const programs *p) {
    const model_layout *l = &p->held.params.layout;
    const int64_t tokens = cfg->micro_batch_size * p->layout.row_tokens;
    return (l->sequence ? tokens / l->mesh.size[AXIS_TENSOR] : tokens) * l->hidden *
           dtype_bytes(p->held.dt);
}

drv_status stages_build_eval(arena *a, programs *p, int chunk, int n_slots, const char *name,
        graph **out, executable **run) {
    const run_config *cfg = p->held.config;
    const llama_opts opts = {.rows = cfg->micro_batch_size,
            .seq = p->layout.row_tokens,
            .row_blocks = p->layout.zigzag.blocks_here,
            .partial_sum_rows = config_partial_sum_rows(cfg),
            .dt = p->held.dt,
            .fp8 = cfg->precision == PRECISION_F8,
            .chunk = chunk,
            .n_slots = n_slots,
            .preference = stages_preference(cfg),
            .logit_bytes = stages_logit_bytes(cfg)};
    graph *g = *out = llama_build(a, &p->held.params, LLAMA_LOSS, &opts);
    g->name = name;
    stages_shard_weights(p, g);
    held_add(a, &p->held, g, run, false);
    return graph_verify(g, STAGE_BUILT);
}

// Returns whether something is trained in n layers, or in the tables.
static bool trains(const programs *p, int64_t first, int64_t n) {
    return p->held.lora.n == 0 ||
           lora_parameters_of(&p->held.lora, &p->held.config->model, first, n) > 0;
}

// The whole graph of a stage. One before all low-rank branches has no backward pass, and one right
// after them none for its input: nobody needs it.
static drv_status build_whole(arena *a, programs *p, int chunk, graph **out) {
    stage_programs *stage = &p->stage[chunk];
    const layer_chunk *layers = &p->held.params.layout.chunk[chunk];
    llama_opts opts = stages_step_opts(p);
    stage->trains_before = layers->first > 0 && trains(p, 0, layers->first);
    stage->trains_here = trains(p, layers->first, layers->n);
    opts.chunk = chunk;
    opts.n_slots = stage->n_slots;
    opts.frozen_before = !stage->trains_before;
    graph *whole = *out = llama_build(a, &p->held.params, LLAMA_LOSS, &opts);
    const char *end = programs_is_last(p, chunk) ? "loss" : arena_printf(a, STAGE_OUTPUT, chunk);
    stage->drops = graph_find(whole, input_name_of(INPUT_ORIGIN, chunk).text) != NULL;
    if (stage_trains(stage)) return stages_differentiate(p, whole, end, chunk, stage->n_slots);
    whole->stage = STAGE_DIFFERENTIATED;
    return graph_verify(whole, STAGE_DIFFERENTIATED);
}

static drv_status build_stage(arena *a, const run_config *cfg, programs *p, int chunk) {
    graph *whole;
    const pipeline_task item = {.chunk = chunk};
    const char *prefix = arena_printf(a, "stage%d.",
            pipeline_stage(&p->schedule.shape,
                    mesh_place(&p->layout.mesh, (int)cfg->rank, AXIS_PIPELINE), &item));
    stage_programs *stage = &p->stage[chunk];
    stage->n_slots = p->slots.n[chunk];
    DRV_TRY(build_whole(a, p, chunk, &whole));
    whole->name = arena_printf(a, "%sstep", prefix);
    // split: weight gradients are a program of their own, which reads the received gradient again.
    const bool last = programs_is_last(p, chunk), split = p->schedule.shape.kind == PIPELINE_ZB_H1;
    if (!last && split && stage_trains(stage))
        graph_find(whole, input_name_of(INPUT_STREAM_GRAD, chunk).text)->n_slots = stage->n_slots;
    pass_cut(a, whole, &(cut_opts){prefix, stage->n_slots, split}, stage->graph);
    for (int part = 0; part < N_CUTS; part++) {
        if (!stage->graph[part]) continue;
        stages_shard_weights(p, stage->graph[part]);
        held_add(a, &p->held, stage->graph[part], &stage->run[part], true);
        DRV_TRY(graph_verify(stage->graph[part], STAGE_DIFFERENTIATED));
    }
    return stages_build_eval(a, p, chunk, stage->n_slots, arena_printf(a, "%seval", prefix),
            &stage->eval_graph, &stage->eval);
}

drv_status stages_build(arena *a, const run_config *cfg, programs *p) {
    if (cfg->offload == OFFLOAD_ACTIVATIONS)
        return config_refuse(cfg, "training.offload",
                "is activations and parallel.pipeline is %lld, expected 1, or offload none (training.recompute full needs "
                "less memory)",
                (long long)cfg->pipeline_parallel);
    p->n_stages = p->held.params.layout.n_chunks;
    p->stage = ARENA_ARRAY(a, stage_programs, p->n_stages);
    p->message_bytes = bytes_between(cfg, p);
    DRV_TRY(build_schedule(a, cfg, p));
    for (int v = 0; v < p->n_stages; v++)
        DRV_TRY(build_stage(a, cfg, p, v));
    stages_place(a, p);
    return DRV_OK;
}

double stages_sent(const programs *p) {
    const model_layout *l = &p->held.params.layout;
    int n = 0;
    for (int v = 0; v < p->n_stages; v++)
        n += !programs_is_last(p, v) + !(l->embeds && v == 0);
    return (double)n * (double)p->message_bytes;
}

drv_status stages_put(programs *p, const pipeline_task *item, const void *message) {
    const bool forward = item->work == WORK_FORWARD;
    if (!forward && !stage_trains(&p->stage[item->chunk])) return DRV_OK;
    const input_name name = input_name_of(forward ? INPUT_STREAM : INPUT_STREAM_GRAD, item->chunk);
    return backend_write(p->held.b, name.text, 0, p->message_bytes, message);
}

// A stage with only frozen stages before it sends empty messages nevertheless, since all stages
// follow one schedule.
drv_status stages_get(const programs *p, const pipeline_task *item, void *message) {
    char name[32];
    if (item->work != WORK_FORWARD && !p->stage[item->chunk].trains_before) {
        memset(message, 0, (size_t)p->message_bytes);
        return DRV_OK;
    }
    snprintf(name, sizeof name, item->work == WORK_FORWARD ? STAGE_OUTPUT : STAGE_STREAM_GRAD,
            item->chunk);
    return backend_read(p->held.b, name, 0, p->message_bytes, message);
}
