// From config to running programs, fresh weights, and what all of it holds.
#include "train/programs.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/round.h"

static drv_status build_step(arena *a, const run_config *c, const llama_opts *o, programs *out) {
    static const recompute_policy policy[] = {KEEP_ALL, KEEP_GEMMS, KEEP_STREAM};
    graph *g = llama_build(a, &out->params, LLAMA_LOSS, o);
    g->name = "step";
    DRV_TRY(graph_verify(g, STAGE_BUILT));
    pass_autodiff(g, "loss");
    DRV_TRY(graph_verify(g, STAGE_DIFFERENTIATED));
    pass_recompute(g, policy[c->recompute]);
    DRV_TRY(graph_verify(g, STAGE_DIFFERENTIATED));
    out->step_graph = g;
    return DRV_OK;
}

drv_status programs_build(arena *a, const run_config *c, programs *out) {
    *out = (programs){.c = c, .dt = c->precision == PRECISION_BF16 ? DT_BF16 : DT_F32};
    const model_layout l = layout_of(&c->model);
    out->params = llama_params(a, &l);
    const llama_opts o = {.rows = c->micro_batch_size, .seq = c->sequence_length, .dt = out->dt};
    DRV_TRY(build_step(a, c, &o, out));
    out->eval_graph = llama_build(a, &out->params, LLAMA_LOSS, &o);
    out->eval_graph->name = "eval";
    DRV_TRY(graph_verify(out->eval_graph, STAGE_BUILT));
    tensor **weights = ARENA_ARRAY(a, tensor *, out->params.n);
    int n_weights = 0;
    for (int i = 0; i < out->params.n; i++)
        if (out->params.p[i].trainable)
            weights[n_weights++] = graph_find(out->step_graph, out->params.p[i].name);
    update_opts u = {c->betas[0], c->betas[1], c->eps, c->weight_decay, mesh_single()};
    u.mesh.size[AXIS_DATA] = (int)c->data_parallel;
    out->update_graph = pass_update(a, weights, n_weights, &u);
    return graph_verify(out->update_graph, STAGE_DIFFERENTIATED);
}

drv_status programs_load(arena *a, backend *b, programs *p) {
    p->b = b;
    DRV_TRY(backend_compile(a, b, p->step_graph, &p->step_plan, &p->step));
    DRV_TRY(backend_compile(a, b, p->update_graph, &p->update_plan, &p->update));
    DRV_TRY(backend_compile(a, b, p->eval_graph, &p->eval_plan, &p->eval));
    return backend_prepare(b);
}

const char *programs_master(arena *a, const programs *p, const param *w) {
    bool copy = param_dtype(w, p->dt) != dtype_acc(p->dt);
    return copy ? arena_printf(a, "master.%s", w->name) : w->name;
}

enum { PIECE = 1 << 16 };

drv_status programs_write_weight(programs *p, int rank, const param *w, int64_t first, int64_t n,
        const float *values) {
    char master[256];
    backend *b = p->b;
    if (param_dtype(w, p->dt) == DT_F32)
        return backend_write(b, rank, w->name, first * 4, n * 4, values);
    snprintf(master, sizeof master, "master.%s", w->name);
    DRV_TRY(backend_write(b, rank, master, first * 4, n * 4, values));
    uint16_t rounded[2048];
    for (int64_t i = 0; i < n; i += 2048) {
        int64_t m = n - i < 2048 ? n - i : 2048;
        for (int64_t j = 0; j < m; j++)
            rounded[j] = f32_to_bf16(values[i + j]);
        DRV_TRY(backend_write(b, rank, w->name, (first + i) * 2, m * 2, rounded));
    }
    return DRV_OK;
}

typedef struct fill_call {
    programs *p;
    int rank;
    const param *w;
    const param_part *part;
    drv_status *status; // by piece
} fill_call;

static void fill_piece(void *arg, int64_t i, int thread) {
    (void)thread;
    const fill_call *f = arg;
    const int64_t cols = f->w->n_dims == 2 ? f->w->dim[1] : 1, total = f->part->rows * cols;
    const int64_t first = i * PIECE, n = total - first < PIECE ? total - first : PIECE;
    float *x = mem_alloc(sizeof *x * PIECE);
    const rng_key key = {(uint64_t)f->p->c->seed, RNG_INIT, hash_name(f->part->hf_name)};
    if (f->w->n_dims == 1)
        for (int64_t j = 0; j < n; j++)
            x[j] = 1;
    else
        rng_normal_fill(&key, (uint64_t)first, n, f->p->c->model.initializer_range, x);
    f->status[i] = programs_write_weight(f->p, f->rank, f->w, f->part->row * cols + first, n, x);
    free(x);
}

drv_status programs_init_weights(programs *p) {
    for (int rank = 0; rank < p->b->n_local_ranks; rank++)
        for (int i = 0; i < p->params.n; i++)
            for (int k = 0; k < p->params.p[i].n_parts; k++) {
                const param *w = &p->params.p[i];
                fill_call f = {p, rank, w, &w->part[k], NULL};
                int64_t n = w->part[k].rows * (w->n_dims == 2 ? w->dim[1] : 1);
                int64_t pieces = div_up(n, PIECE);
                f.status = calloc((size_t)pieces, sizeof *f.status);
                par_for(pieces, fill_piece, &f);
                drv_status s = DRV_OK;
                for (int64_t j = 0; j < pieces && s == DRV_OK; j++)
                    s = f.status[j];
                free(f.status);
                DRV_TRY(s);
            }
    return DRV_OK;
}

static int64_t max3(int64_t a, int64_t b, int64_t c) {
    const int64_t larger = a > b ? a : b;
    return larger > c ? larger : c;
}

// Programs run one after the other: one arena serves the largest of them.
memory_plan programs_memory(const programs *p) {
    const int64_t *step = p->step_plan->class_bytes, *update = p->update_plan->class_bytes;
    memory_plan m = {.weights = step[TENSOR_WEIGHT],
            .gradients = step[TENSOR_GRAD],
            .optimizer = update[TENSOR_OPTIMIZER],
            .activations = max3(p->step_plan->arena_bytes, p->update_plan->arena_bytes,
                    p->eval_plan->arena_bytes),
            .data = step[TENSOR_INPUT] + step[TENSOR_OUTPUT] + update[TENSOR_INPUT] +
                    update[TENSOR_OUTPUT]};
    for (int i = 0; i < p->update_graph->n_nodes; i++)
        if (p->update_graph->nodes[i]->op == OP_all_reduce)
            m.communication += tensor_bytes(p->update_graph->nodes[i]->out[0]);
    m.total = m.weights + m.gradients + m.optimizer + m.activations + m.data;
    return m;
}

drv_status programs_check_held(const programs *p) {
    const int64_t planned = programs_memory(p).total, held = backend_held_bytes(p->b);
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
