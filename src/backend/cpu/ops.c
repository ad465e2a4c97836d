// One function per op: cuts the work in fixed chunks and calls the kernels.
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_backend.h"
#include "base/parallel.h"
#include "base/round.h"
#include "ir/op.h"

enum { ROWS = 32, ELEMENTS = 1 << 15 }; // of a chunk

static int64_t part(int64_t n, int64_t size, int64_t i) {
    return n - i * size < size ? n - i * size : size;
}
static const instruction *at(void *arg) {
    return arg;
}
static void over(const instruction *i, int64_t n, int64_t size, void (*fn)(void *, int64_t, int)) {
    par_for(div_up(n, size), fn, (void *)(uintptr_t)i);
}
static const char *cin(const instruction *i, int k, int64_t element) {
    return (const char *)i->in[k] + element * dtype_bytes(i->n->in[k]->dt);
}
static char *cout(const instruction *i, int k, int64_t element) {
    return (char *)i->out[k] + element * dtype_bytes(i->n->out[k]->dt);
}

// --- rows
static void embedding_rows(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const tensor *x = i->n->out[0];
    const int32_t *ids = i->in[0];
    const size_t bytes = (size_t)(x->dim[1] * dtype_bytes(x->dt));
    for (int64_t r = c * ROWS; r < c * ROWS + part(x->dim[0], ROWS, c); r++)
        memcpy((char *)i->out[0] + (size_t)r * bytes,
                (const char *)i->in[1] + (size_t)ids[r] * bytes, bytes);
}
static void embedding(const instruction *i) {
    over(i, i->n->out[0]->dim[0], ROWS, embedding_rows);
}

// Each chunk owns a range of columns, so tokens are added in order whatever the threads.
enum { COLUMNS = 64 };
static void embedding_grad_columns(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const tensor *dx = i->n->in[1];
    const int64_t width = dx->dim[1], n = part(width, COLUMNS, c);
    for (int64_t r = 0; r < dx->dim[0]; r++) {
        const int64_t id = ((const int32_t *)i->in[0])[r];
        i->k->accumulate(dx->dt, n, cin(i, 1, r * width + c * COLUMNS),
                cout(i, 0, id * width + c * COLUMNS));
    }
}
static void embedding_grad(const instruction *i) {
    over(i, i->n->in[1]->dim[1], COLUMNS, embedding_grad_columns);
}

static void rmsnorm_rows(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const bool add = i->n->op == OP_add_rmsnorm;
    const tensor *x = i->n->in[0];
    const int64_t r = c * ROWS, e = r * x->dim[1];
    i->k->rmsnorm(x->dt, part(x->dim[0], ROWS, c), x->dim[1], cin(i, 0, e),
            add ? cin(i, 1, e) : NULL, i->in[add ? 2 : 1], i->n->attrs.eps,
            add ? cout(i, 0, e) : NULL, cout(i, add ? 1 : 0, e), cout(i, add ? 2 : 1, r));
}
static void rmsnorm(const instruction *i) {
    over(i, i->n->in[0]->dim[0], ROWS, rmsnorm_rows);
}

// The weight's gradient: NORM_PARTS fixed groups of rows into the workspace, then summed in order.
enum { NORM_PARTS = 16 };
static int64_t norm_rows(const node *n) {
    return div_up(n->in[0]->dim[0], NORM_PARTS);
}
static void rmsnorm_grad_rows(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const node *n = i->n;
    const int64_t width = n->in[0]->dim[1], size = norm_rows(n),
                  rows = part(n->in[0]->dim[0], size, c);
    const dtype dt = n->in[0]->dt;
    char *dw = (char *)i->workspace + c * width * dtype_bytes(dtype_acc(dt));
    memset(dw, 0, (size_t)(width * dtype_bytes(dtype_acc(dt))));
    if (rows <= 0) return;
    const int64_t e = c * size * width;
    const int past = n->attrs.skip_dw ? 4 : 5; // input dh, if it is there
    i->k->rmsnorm_grad(dt, rows, width, cin(i, 0, e), cin(i, 1, e), i->in[2], cin(i, 3, c * size),
            past < n->n_in ? cin(i, past, e) : NULL, cout(i, 0, e), dw);
}
static void rmsnorm_grad(const instruction *i) {
    const int64_t width = i->n->in[0]->dim[1];
    const dtype acc = dtype_acc(i->n->in[0]->dt);
    par_for(NORM_PARTS, rmsnorm_grad_rows, (void *)(uintptr_t)i);
    if (i->n->attrs.skip_dw) return;
    for (int c = 0; c < NORM_PARTS; c++)
        i->k->accumulate(acc, width, (char *)i->workspace + c * width * dtype_bytes(acc),
                i->out[1]);
}

static void rope_table(const instruction *i) {
    const op_attrs *t = &i->n->attrs;
    rope_args a = {t->head_dim, t->theta, t->factor, t->low_freq_factor, t->high_freq_factor,
            t->original_context};
    i->k->rope_table(i->n->out[0]->dt, &a, i->n->in[0]->dim[0], i->in[0], i->out[0]);
}

static void rope_rows(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const tensor *x = i->n->in[0];
    const int64_t r = c * ROWS, e = r * x->dim[1];
    i->k->rope(x->dt, part(x->dim[0], ROWS, c), x->dim[1], i->n->attrs.n_heads,
            i->n->attrs.head_dim, cin(i, 0, e), cin(i, 1, r * i->n->attrs.head_dim),
            i->n->attrs.inverse, cout(i, 0, e));
}
static void rope(const instruction *i) {
    over(i, i->n->in[0]->dim[0], ROWS, rope_rows);
}

static void swiglu_rows(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const tensor *y = i->n->out[0];
    const int64_t e = c * ROWS * y->dim[1];
    i->k->swiglu(y->dt, part(y->dim[0], ROWS, c), y->dim[1], cin(i, 0, 2 * e), cout(i, 0, e));
}
static void swiglu(const instruction *i) {
    over(i, i->n->in[0]->dim[0], ROWS, swiglu_rows);
}

static void swiglu_grad_rows(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const tensor *dy = i->n->in[0];
    const int64_t e = c * ROWS * dy->dim[1];
    i->k->swiglu_grad(dy->dt, part(dy->dim[0], ROWS, c), dy->dim[1], cin(i, 0, e), cin(i, 1, 2 * e),
            cout(i, 0, 2 * e));
}
static void swiglu_grad(const instruction *i) {
    over(i, i->n->in[0]->dim[0], ROWS, swiglu_grad_rows);
}

static void add_elements(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const int64_t e = c * ELEMENTS, n = part(tensor_elements(i->n->out[0]), ELEMENTS, c);
    i->k->add(i->n->out[0]->dt, n, cin(i, 0, e), cin(i, 1, e), cout(i, 0, e));
}
static void add(const instruction *i) {
    over(i, tensor_elements(i->n->out[0]), ELEMENTS, add_elements);
}

// --- matmul
static void matmul(const instruction *i) {
    gemm_run(i->gemm[0], i->in[0], i->in[1], i->out[0], i->workspace);
}

static void one_row_columns(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const tensor *w = i->n->in[1];
    i->k->row_times_matrix(w->dt, part(w->dim[0], COLUMNS, c), w->dim[1], i->in[0],
            cin(i, 1, c * COLUMNS * w->dim[1]), cout(i, 0, c * COLUMNS));
}
static void one_row(const instruction *i) {
    over(i, i->n->in[1]->dim[0], COLUMNS, one_row_columns);
}

static bool is_one_row(const node *n) {
    return n->in[0]->dim[0] == 1 && n->attrs.tb && !n->attrs.ta && n->n_in == 2;
}

static gemm_shape matmul_shape(const node *n) {
    const tensor *x = n->in[0], *w = n->in[1], *y = n->out[0];
    return (gemm_shape){y->dim[0], y->dim[1], x->dim[!n->attrs.ta], n->attrs.ta, n->attrs.tb,
            x->dim[1], w->dim[1], y->dim[1], x->dt, y->dt, n->n_in == 3};
}

static drv_status lower_matmul(arena *a, gemm_machine *m, const node *n, instruction *out) {
    if (is_one_row(n)) {
        out->fn = one_row;
        return DRV_OK;
    }
    out->fn = matmul;
    const gemm_shape s = matmul_shape(n);
    return gemm_new(a, m, &s, &out->gemm[0]);
}

// --- attention
static attention_args attention_shape(const node *n, dtype dt) {
    return (attention_args){.dt = dt,
            .seq = n->attrs.seq,
            .n_heads = n->attrs.n_heads,
            .n_kv_heads = n->attrs.n_kv_heads,
            .head_dim = n->attrs.head_dim};
}

typedef struct attention_call {
    const instruction *i;
    attention_args a;
    int64_t scratch;
    char *workspace;
} attention_call;

static void attention_unit(void *arg, int64_t u, int thread) {
    const attention_call *c = arg;
    c->i->attention->attention(&c->a, u, c->workspace + thread * c->scratch);
}
static void attention(const instruction *i) {
    const node *n = i->n;
    attention_call c = {i, attention_shape(n, n->in[0]->dt), 0, i->workspace};
    c.scratch = attention_scratch_bytes(&c.a);
    const int64_t tokens = n->in[0]->dim[0], width = n->in[0]->dim[1];
    c.a.lse_stride = tokens;
    for (int64_t t = 0; t < tokens; t += n->attrs.seq) {
        c.a.qkv = cin(i, 0, t * width);
        c.a.position = (const int32_t *)i->in[1] + t;
        c.a.o = cout(i, 0, t * n->out[0]->dim[1]);
        c.a.lse = cout(i, 1, t);
        par_for(attention_units(&c.a), attention_unit, &c);
    }
}

static void attention_grad_unit(void *arg, int64_t u, int thread) {
    const attention_call *c = arg;
    c->i->attention->attention_grad(&c->a, u, c->workspace + thread * c->scratch);
}
static void attention_sum_unit(void *arg, int64_t u, int thread) {
    (void)thread;
    const attention_call *c = arg;
    c->i->attention->attention_grad_sum(&c->a, u);
}
static void attention_grad(const instruction *i) {
    const node *n = i->n;
    attention_call c = {i, attention_shape(n, n->in[1]->dt), 0, NULL};
    c.scratch = attention_scratch_bytes(&c.a);
    const int64_t tokens = n->in[1]->dim[0], width = n->in[1]->dim[1], o_width = n->in[0]->dim[1];
    c.a.part = i->workspace;
    c.workspace = (char *)i->workspace + round_up(attention_part_floats(&c.a) * 4, 64);
    c.a.lse_stride = tokens;
    for (int64_t t = 0; t < tokens; t += n->attrs.seq) {
        c.a.d_o = cin(i, 0, t * o_width);
        c.a.qkv = cin(i, 1, t * width);
        c.a.o = (void *)(uintptr_t)cin(i, 2, t * o_width);
        c.a.lse = (void *)(uintptr_t)cin(i, 3, t);
        c.a.position = (const int32_t *)i->in[4] + t;
        c.a.dqkv = cout(i, 0, t * width);
        par_for(attention_grad_units(&c.a), attention_grad_unit, &c);
        par_for(attention_sum_units(&c.a), attention_sum_unit, &c);
    }
}

static void cached_head(void *arg, int64_t h, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const op_attrs *t = &i->n->attrs;
    const tensor *qkv = i->n->in[0], *keys = i->n->in[1];
    const int64_t d = t->head_dim, g = h / (t->n_heads / t->n_kv_heads), cap = keys->dim[1];
    char *scores = (char *)i->workspace + h * cap * dtype_bytes(dtype_acc(qkv->dt));
    for (int64_t r = 0; r < qkv->dim[0]; r++) {
        const int64_t n = ((const int32_t *)i->in[3])[r] + 1;
        i->k->cached_attention(qkv->dt, n, d, cin(i, 0, r * qkv->dim[1] + h * d),
                cin(i, 1, g * cap * d), cin(i, 2, g * cap * d), scores,
                cout(i, 0, (r * t->n_heads + h) * d));
    }
}
static void cached_attention(const instruction *i) {
    const op_attrs *t = &i->n->attrs;
    const tensor *qkv = i->n->in[0], *keys = i->n->in[1];
    const int64_t d = t->head_dim, cap = keys->dim[1];
    for (int64_t r = 0; r < qkv->dim[0]; r++)
        for (int which = 0; which < 2; which++)
            for (int64_t g = 0; g < t->n_kv_heads; g++) {
                const int64_t s = ((const int32_t *)i->in[3])[r];
                const int64_t from = r * qkv->dim[1] + (t->n_heads + which * t->n_kv_heads + g) * d;
                memcpy(cout(i, 1 + which, (g * cap + s) * d), cin(i, 0, from),
                        (size_t)(d * dtype_bytes(keys->dt)));
            }
    par_for(t->n_heads, cached_head, (void *)(uintptr_t)i);
}

// --- update
// Partial sums by chunk of each input, joined in order.
typedef struct squares_call {
    const instruction *i;
    int input;
    double *sums;
} squares_call;

static void squares_chunk(void *arg, int64_t c, int thread) {
    (void)thread;
    const squares_call *s = arg;
    const tensor *t = s->i->n->in[s->input];
    s->sums[c] = s->i->k->sum_squares(t->dt, part(tensor_elements(t), ELEMENTS, c),
            cin(s->i, s->input, c * ELEMENTS));
}
static void sum_squares(const instruction *i) {
    double total = 0;
    squares_call s = {i, 0, i->workspace};
    for (s.input = 0; s.input < i->n->n_in; s.input++) {
        const int64_t n = div_up(tensor_elements(i->n->in[s.input]), ELEMENTS);
        par_for(n, squares_chunk, &s);
        for (int64_t c = 0; c < n; c++)
            total += s.sums[c];
    }
    *(double *)i->out[0] = total;
}

static void adamw_chunk(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *i = at(arg);
    const tensor *p = i->n->in[0];
    const double norm2 = *(const double *)i->in[4], *hyper = i->in[5];
    const int64_t e = c * ELEMENTS, n = part(tensor_elements(p), ELEMENTS, c);
    if (!isfinite(norm2)) {
        memset(cout(i, 3, e), 0, (size_t)(n * dtype_bytes(p->dt)));
        return;
    }
    const op_attrs *t = &i->n->attrs;
    adamw_args a = {hyper[0], t->beta1, t->beta2, t->eps, t->weight_decay, hyper[1], hyper[2], 1};
    if (hyper[3] > 0) a.grad_scale = fmin(1, hyper[3] / (sqrt(norm2) + 1e-6));
    i->k->adamw(p->dt, n, cout(i, 0, e), cout(i, 1, e), cout(i, 2, e), cout(i, 3, e), &a,
            i->n->n_in > 6 ? (uint16_t *)(void *)cout(i, 4, e) : NULL);
}
static void adamw(const instruction *i) {
    over(i, tensor_elements(i->n->in[0]), ELEMENTS, adamw_chunk);
}

// Collectives of one rank.
static void copy(const instruction *i) {
    if (i->in[0] != i->out[0]) memcpy(i->out[0], i->in[0], (size_t)tensor_bytes(i->n->out[0]));
}

static drv_status lower_collective(const node *n, instruction *out) {
    if (n->attrs.ranks != 1)
        return drv_fail(DRV_E_DEVICE, "%s over %d ranks, but this process has one",
                op_rows[n->op]->name, n->attrs.ranks);
    out->fn = copy;
    return DRV_OK;
}

drv_status cpu_lower(arena *a, gemm_machine *m, const node *n, instruction *out) {
    static void (*const simple[N_OPS])(const instruction *) = {
            [OP_embedding] = embedding,
            [OP_embedding_grad] = embedding_grad,
            [OP_rmsnorm] = rmsnorm,
            [OP_add_rmsnorm] = rmsnorm,
            [OP_rmsnorm_grad] = rmsnorm_grad,
            [OP_rope_table] = rope_table,
            [OP_rope] = rope,
            [OP_attention] = attention,
            [OP_attention_grad] = attention_grad,
            [OP_cached_attention] = cached_attention,
            [OP_swiglu] = swiglu,
            [OP_swiglu_grad] = swiglu_grad,
            [OP_add] = add,
            [OP_sum_squares] = sum_squares,
            [OP_adamw] = adamw,
    };
    switch (n->op) {
    case OP_matmul:
        return lower_matmul(a, m, n, out);
    case OP_linear_cross_entropy:
    case OP_linear_cross_entropy_grad:
        return loss_lower(a, m, n, out);
    case OP_all_reduce:
    case OP_all_gather:
    case OP_reduce_scatter:
        return lower_collective(n, out);
    case OP_barrier:
        return DRV_OK; // an alias; nodes run in order
    default:
        break;
    }
    DRV_ASSERT(simple[n->op], "%s has no CPU kernel", op_rows[n->op]->name);
    out->fn = simple[n->op];
    return DRV_OK;
}

int64_t cpu_workspace(const node *n, int threads) {
    switch (n->op) {
    case OP_matmul: {
        const gemm_shape s = matmul_shape(n);
        return is_one_row(n) ? 0 : gemm_workspace(&s, threads);
    }
    case OP_linear_cross_entropy:
    case OP_linear_cross_entropy_grad:
        return loss_workspace(n, threads);
    case OP_rmsnorm_grad:
        return NORM_PARTS * n->in[0]->dim[1] * dtype_bytes(dtype_acc(n->in[0]->dt));
    case OP_attention: {
        attention_args s = attention_shape(n, n->in[0]->dt);
        return threads * attention_scratch_bytes(&s);
    }
    case OP_attention_grad: {
        attention_args s = attention_shape(n, n->in[1]->dt);
        return round_up(attention_part_floats(&s) * 4, 64) + threads * attention_scratch_bytes(&s);
    }
    case OP_cached_attention:
        return n->attrs.n_heads * n->in[1]->dim[1] * dtype_bytes(dtype_acc(n->in[0]->dt));
    case OP_sum_squares: {
        int64_t most = 0;
        for (int k = 0; k < n->n_in; k++)
            if (tensor_elements(n->in[k]) > most) most = tensor_elements(n->in[k]);
        return div_up(most, ELEMENTS) * (int64_t)sizeof(double);
    }
    default:
        return 0;
    }
}
