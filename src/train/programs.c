// From config to running programs, fresh weights, and what all of it holds.
#include "train/programs.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/round.h"
#include "ir/op.h"
#include "ir/shard.h"
#include "train/batch.h"
#include "train/lora_state.h"

static drv_status build_step(arena *a, const run_config *cfg, const llama_opts *shape,
        programs *out) {
    llama_opts opts = *shape;
    opts.dropout = cfg->lora.dropout;
    opts.seed = cfg->seed;
    static const recompute_policy policies[] = {[RECOMPUTE_NONE] = KEEP_ALL,
            [RECOMPUTE_SELECTIVE] = KEEP_GEMMS,
            [RECOMPUTE_FULL] = KEEP_STREAM};
    graph *g = llama_build(a, &out->params, LLAMA_LOSS, &opts);
    g->name = "step";
    out->step_graph = g;
    DRV_TRY(graph_verify(g, STAGE_BUILT));
    pass_autodiff(g, "loss");
    DRV_TRY(graph_verify(g, STAGE_DIFFERENTIATED));
    pass_recompute(g, policies[cfg->recompute]);
    return graph_verify(g, STAGE_DIFFERENTIATED);
}

static drv_status build_eval(arena *a, const llama_opts *opts, programs *out) {
    out->eval_graph = llama_build(a, &out->params, LLAMA_LOSS, opts);
    out->eval_graph->name = "eval";
    return graph_verify(out->eval_graph, STAGE_BUILT);
}

// Slots for the binary counter of this rank's lanes.
static drv_status build_lanes(arena *a, const run_config *cfg, tensor *const *weights, int n,
        programs *out) {
    for (int64_t lanes = cfg->n_lanes / cfg->data_ranks; (int64_t)1 << out->n_slots < lanes;) {
        const int slot = out->n_slots++;
        out->aside_graph[slot] = pass_lane(a, weights, n, slot, true);
        out->back_graph[slot] = pass_lane(a, weights, n, slot, false);
        DRV_TRY(graph_verify(out->aside_graph[slot], STAGE_DIFFERENTIATED));
        DRV_TRY(graph_verify(out->back_graph[slot], STAGE_DIFFERENTIATED));
    }
    return DRV_OK;
}

static drv_status build_update(arena *a, const run_config *cfg, programs *out) {
    tensor **weights = ARENA_ARRAY(a, tensor *, out->params.n);
    bool *split = ARENA_ARRAY(a, bool, out->params.n);
    int n = 0;
    for (int i = 0; i < out->params.n; i++) {
        const param *w = &out->params.p[i];
        if (!w->trainable) continue;
        split[n] = w->split != SPLIT_NONE;
        weights[n++] = graph_find(out->step_graph, w->name);
    }
    DRV_TRY(build_lanes(a, cfg, weights, n, out));
    const update_opts opts = {cfg->betas[0], cfg->betas[1], cfg->eps, cfg->weight_decay,
            programs_mesh(cfg), split, out->params.layout.sequence, out->zero};
    out->update_graph = pass_update(a, weights, n, &opts);
    return graph_verify(out->update_graph, STAGE_DIFFERENTIATED);
}

mesh programs_mesh(const run_config *cfg) {
    return (mesh){{(int)cfg->pipeline_parallel, (int)cfg->data_ranks, (int)cfg->context_parallel,
            (int)cfg->tensor_parallel}};
}

// What has no graph yet, and micro-batches that do not divide.
static drv_status check_mesh(const run_config *cfg) {
    const int64_t t = cfg->tensor_parallel, tokens = cfg->micro_batch_size * cfg->sequence_length;
    if (t > 1 && cfg->lora.rank > 0)
        return drv_fail(DRV_E_USAGE, "%s: key \"parallel.tensor\" is %lld, expected 1 with lora",
                config_where(cfg, "parallel.tensor"), (long long)t);
    if (t > 1 && cfg->sequence_parallel && tokens % t != 0)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"parallel.tensor\" is %lld, expected a divisor of the %lld tokens of a "
                "micro-batch, or parallel.sequence: false",
                config_where(cfg, "parallel.tensor"), (long long)t, (long long)tokens);
    return DRV_OK;
}

drv_status programs_build(arena *a, const run_config *cfg, programs *out) {
    *out = (programs){.c = cfg,
            .dt = cfg->precision == PRECISION_BF16 ? DT_BF16 : DT_F32,
            .zero = cfg->zero > 0 && cfg->data_ranks > 1};
    const mesh m = programs_mesh(cfg);
    model_layout layout;
    DRV_TRY(check_mesh(cfg));
    DRV_TRY_CTX(layout_on(&cfg->model, &m, (int)cfg->rank, cfg->sequence_parallel, &layout), "%s",
            config_where(cfg, "parallel.tensor"));
    lora_set branches;
    DRV_TRY(lora_of_run(a, cfg, &layout, &branches));
    out->params = llama_params(a, &layout, &branches);
    const llama_opts opts = {.rows = cfg->micro_batch_size,
            .seq = cfg->sequence_length,
            .dt = out->dt};
    DRV_TRY(build_step(a, cfg, &opts, out));
    DRV_TRY(build_eval(a, &opts, out));
    return build_update(a, cfg, out);
}

drv_status programs_load(arena *a, backend *b, programs *p) {
    p->b = b;
    DRV_TRY(backend_compile(a, b, p->step_graph, &p->step_plan, &p->step));
    DRV_TRY(backend_compile(a, b, p->update_graph, &p->update_plan, &p->update));
    DRV_TRY(backend_compile(a, b, p->eval_graph, &p->eval_plan, &p->eval));
    for (int i = 0; i < p->n_slots; i++) {
        DRV_TRY(backend_compile(a, b, p->aside_graph[i], &p->aside_plan[i], &p->aside[i]));
        DRV_TRY(backend_compile(a, b, p->back_graph[i], NULL, &p->back[i]));
    }
    return backend_prepare(b);
}

// The weight is a rounded copy of a master. What is frozen has no other value than that.
static bool has_master(const programs *p, const param *w) {
    return w->trainable && param_dtype(w, p->dt) != dtype_acc(p->dt);
}

const char *programs_master(arena *a, const programs *p, const param *w) {
    return has_master(p, w) ? arena_printf(a, "master.%s", w->name) : w->name;
}

programs_shard programs_shard_of(const programs *p, const param *w) {
    const int64_t n = param_elements(w);
    const mesh m = programs_mesh(p->c);
    const int ranks = m.size[AXIS_DATA], place = mesh_place(&m, (int)p->c->rank, AXIS_DATA);
    if (!p->zero) return (programs_shard){0, n};
    return (programs_shard){shard_first(n, ranks, place), shard_count(n, ranks, place)};
}

// Those of elements [first, first + n) that this rank's master has.
static drv_status write_master(programs *p, int rank, const param *w, int64_t first, int64_t n,
        const float *values) {
    char master[256];
    const programs_shard shard = programs_shard_of(p, w);
    const int64_t from = first > shard.first ? first : shard.first,
                  end = first + n < shard.first + shard.n ? first + n : shard.first + shard.n;
    snprintf(master, sizeof master, "master.%s", w->name);
    if (from >= end) return DRV_OK;
    return backend_write(p->b, rank, master, 4 * (from - shard.first), 4 * (end - from),
            values + (from - first));
}

// Elements: of a piece of a weight that a thread fills, and that are rounded at a time.
enum { PIECE = 1 << 16, ROUNDED = 2048 };

drv_status programs_write_weight(programs *p, int rank, const param *w, int64_t first, int64_t n,
        const float *values) {
    backend *b = p->b;
    if (param_dtype(w, p->dt) == DT_F32)
        return backend_write(b, rank, w->name, first * 4, n * 4, values);
    if (has_master(p, w)) DRV_TRY(write_master(p, rank, w, first, n, values));
    uint16_t rounded[ROUNDED];
    for (int64_t i = 0; i < n; i += ROUNDED) {
        const int64_t m = n - i < ROUNDED ? n - i : ROUNDED;
        for (int64_t j = 0; j < m; j++)
            rounded[j] = f32_to_bf16(values[i + j]);
        DRV_TRY(backend_write(b, rank, w->name, (first + i) * 2, m * 2, rounded));
    }
    return DRV_OK;
}

typedef struct fill_call { // one part of a weight, filled by all threads
    programs *p;
    int rank;
    const param *w;
    const param_part *part;
    drv_status *status; // by piece
} fill_call;

static int64_t columns_of(const param *w) {
    return w->n_dims == 2 ? w->dim[1] : 1;
}

static int64_t part_elements(const param *w, const param_part *part) {
    return part->rows * columns_of(w);
}

// Element `first` of the Hugging Face parameter and those after it.
static void draw(const fill_call *f, int64_t first, int64_t n, float *x) {
    const run_config *cfg = f->p->c;
    const rng_key key = {(uint64_t)cfg->seed, RNG_INIT, hash_name(f->part->hf_name)};
    const double bound = f->w->n_dims == 2 ? 1 / sqrt((double)f->w->all_columns) : 0;
    switch (f->w->init) {
    case INIT_NORMAL:
        rng_normal_fill(&key, (uint64_t)first, n, cfg->model.initializer_range, x);
        return;
    case INIT_UNIFORM:
        for (int64_t j = 0; j < n; j++)
            x[j] = (float)(bound * (2 * rng_uniform(&key, (uint64_t)(first + j)) - 1));
        return;
    case INIT_ONES:
    case INIT_ZEROS:
        for (int64_t j = 0; j < n; j++)
            x[j] = f->w->init == INIT_ONES;
    }
}

// Elements of this rank's part, row by row: the numbers are those of one rank.
static void draw_part(const fill_call *f, int64_t first, int64_t n, float *x) {
    const param *w = f->w;
    const int64_t columns = columns_of(w), above = f->part->first_row;
    if (columns == w->all_columns) {
        draw(f, above * columns + first, n, x);
        return;
    }
    for (int64_t i = 0; i < n;) {
        const int64_t row = (first + i) / columns, column = (first + i) % columns;
        const int64_t left = columns - column, m = left < n - i ? left : n - i;
        draw(f, (above + row) * w->all_columns + w->first_column + column, m, x + i);
        i += m;
    }
}

static void fill_piece(void *arg, int64_t i, int thread) {
    (void)thread;
    const fill_call *f = arg;
    const int64_t total = part_elements(f->w, f->part), first = i * PIECE,
                  n = total - first < PIECE ? total - first : PIECE;
    float *x = mem_alloc(sizeof *x * PIECE);
    draw_part(f, first, n, x);
    const int64_t above = f->part->row * (total / f->part->rows);
    f->status[i] = programs_write_weight(f->p, f->rank, f->w, above + first, n, x);
    free(x);
}

static drv_status fill_part(programs *p, int rank, const param *w, const param_part *part) {
    const int64_t pieces = div_up(part_elements(w, part), PIECE);
    fill_call f = {p, rank, w, part, mem_alloc(sizeof *f.status * (size_t)pieces)};
    par_for(pieces, fill_piece, &f);
    drv_status status = DRV_OK;
    for (int64_t i = 0; i < pieces && status == DRV_OK; i++)
        status = f.status[i];
    free(f.status);
    return status;
}

static drv_status init_weights(programs *p, bool adapter_alone) {
    for (int rank = 0; rank < p->b->n_local_ranks; rank++)
        for (int i = 0; i < p->params.n; i++) {
            const param *w = &p->params.p[i];
            for (int k = 0; k < w->n_parts; k++)
                if (w->is_adapter || !adapter_alone) DRV_TRY(fill_part(p, rank, w, &w->part[k]));
        }
    return DRV_OK;
}

drv_status programs_init_weights(programs *p) {
    return init_weights(p, false);
}

drv_status programs_init_adapter(programs *p) {
    return init_weights(p, true);
}

double programs_flops_per_token(const programs *p, bool recomputed) {
    const graph *g = p->step_graph;
    double flops = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        if (op_rows[n->op]->flops && (recomputed || !n->recomputed))
            flops += op_rows[n->op]->flops(n);
    }
    return flops * (double)p->c->tensor_parallel /
           (double)(p->c->micro_batch_size * p->c->sequence_length);
}

void programs_wire(const programs *p, double bytes[N_AXES]) {
    const run_config *cfg = p->c;
    const double micro_batches =
            (double)(cfg->global_batch_size / cfg->micro_batch_size / cfg->data_ranks);
    for (int axis = 0; axis < N_AXES; axis++)
        bytes[axis] =
                micro_batches * p->step_plan->wire_bytes[axis] + p->update_plan->wire_bytes[axis];
}

static int64_t max3(int64_t a, int64_t b, int64_t c) {
    const int64_t larger = a > b ? a : b;
    return larger > c ? larger : c;
}

// Scratch of the largest collective; it lies in the arena.
static int64_t largest_exchange(const programs *p) {
    const graph *all[] = {p->step_graph, p->update_graph, p->eval_graph};
    int64_t largest = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int i = 0; i < all[k]->n_nodes; i++) {
            const node *n = all[k]->nodes[i];
            if (!op_rows[n->op]->wire || n->attrs.ranks <= 1) continue; // 0: along no axis
            const int64_t bytes = tensor_bytes(n->in[0]);
            if (bytes > largest) largest = bytes;
        }
    return largest;
}

// Programs run one after the other: one arena serves the largest of them.
memory_plan programs_memory(const programs *p) {
    const int64_t *step = p->step_plan->class_bytes, *update = p->update_plan->class_bytes;
    memory_plan m = {.weights = step[TENSOR_WEIGHT],
            .gradients = step[TENSOR_GRAD],
            .optimizer = update[TENSOR_OPTIMIZER],
            .activations = max3(p->step_plan->arena_bytes, p->update_plan->arena_bytes,
                    p->eval_plan->arena_bytes),
            .batches = batch_reader_bytes(p->c)};
    m.data = step[TENSOR_INPUT] + step[TENSOR_OUTPUT] + update[TENSOR_INPUT] +
             update[TENSOR_OUTPUT] + m.batches;
    for (int i = 0; i < p->n_slots; i++) // each has the gradients and its slot
        m.gradients += p->aside_plan[i]->class_bytes[TENSOR_GRAD] - step[TENSOR_GRAD];
    m.communication = largest_exchange(p);
    m.total = m.weights + m.gradients + m.optimizer + m.activations + m.data;
    return m;
}

drv_status programs_check_held(const programs *p) {
    const memory_plan memory = programs_memory(p);
    const int64_t planned = memory.total - memory.batches, held = backend_held_bytes(p->b);
    if (held > planned)
        return drv_fail(DRV_E_DEVICE,
                "the %s back end holds %lld bytes, expected at most the %lld that were planned; "
                "this is a fault of drover",
                p->b->v->name, (long long)held, (long long)planned);
    if (held != 0 && held < planned) // 0: the null back end
        log_warn("the %s back end holds %lld bytes, fewer than the %lld that were planned",
                p->b->v->name, (long long)held, (long long)planned);
    return DRV_OK;
}
