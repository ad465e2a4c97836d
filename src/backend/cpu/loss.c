// linear_cross_entropy on the CPU: chunk by chunk, logits in fp32, then their gradient in the
// compute type in the same place.
#include "backend/cpu/cpu_backend.h"
#include "base/parallel.h"
#include "base/round.h"

enum { LOGITS, DH, DW, REST }; // GEMMs of a full chunk; those of the last, shorter one follow

typedef struct loss_call {
    const instruction *i;
    char *logits;
    double *loss; // by row
    int64_t first, width;
    dtype dt;
    double scale;
    bool grad;
} loss_call;

static int64_t row_bytes(const node *n) {
    return n->in[1]->dim[0] * dtype_bytes(dtype_acc(n->in[0]->dt));
}

typedef struct loss_shapes { // LOGITS, DH, DW
    gemm_shape s[REST];
} loss_shapes;

static loss_shapes shapes(const node *n, int64_t rows) {
    const int64_t v = n->in[1]->dim[0], width = n->in[1]->dim[1];
    const dtype dt = n->in[0]->dt, acc = dtype_acc(dt);
    const int64_t ld = row_bytes(n) / dtype_bytes(dt); // of the gradient of the logits
    return (loss_shapes){{{rows, v, width, false, true, width, width, v, dt, acc, false},
            {rows, width, v, false, false, ld, width, width, dt, dt, false},
            {v, width, rows, true, false, ld, width, width, dt, acc, true}}};
}

static bool has_product(const node *n, int product) {
    if (product == LOGITS) return true;
    if (n->op == OP_linear_cross_entropy) return false;
    return !(product == DH ? n->attrs.skip_dx : n->attrs.skip_dw);
}

// Of the GEMMs, behind the logits.
static int64_t gemm_bytes(const node *n, int threads) {
    const int64_t rows = n->in[0]->dim[0], chunk = n->attrs.chunk, sizes[] = {chunk, rows % chunk};
    int64_t most = 0;
    for (int i = 0; i < 2; i++) {
        if (sizes[i] == 0 || sizes[i] > rows) continue;
        const loss_shapes s = shapes(n, sizes[i]);
        for (int k = 0; k < REST; k++) {
            if (!has_product(n, k)) continue;
            const int64_t bytes = gemm_workspace(&s.s[k], threads);
            if (bytes > most) most = bytes;
        }
    }
    return most;
}

static int64_t logits_bytes(const node *n) {
    return round_up(n->attrs.chunk * row_bytes(n), 64);
}

int64_t loss_workspace(const node *n, int threads) {
    return logits_bytes(n) + gemm_bytes(n, threads) + n->in[0]->dim[0] * (int64_t)sizeof(double);
}

static drv_status lower_chunk(arena *a, gemm_machine *m, const node *n, int64_t rows, gemm **out) {
    const loss_shapes s = shapes(n, rows);
    for (int k = 0; k < REST; k++)
        if (has_product(n, k)) DRV_TRY(gemm_new(a, m, &s.s[k], &out[k]));
    return DRV_OK;
}

static void row(void *arg, int64_t r, int thread) {
    (void)thread;
    const loss_call *c = arg;
    const int32_t label = ((const int32_t *)c->i->in[2])[c->first + r];
    const int64_t bytes = c->width * dtype_bytes(dtype_acc(c->dt));
    char *logits = c->logits + r * bytes;
    c->loss[c->first + r] = 0;
    if (label >= 0)
        c->loss[c->first + r] = c->i->k->cross_entropy(c->dt, c->width, logits, label, c->scale,
                c->grad ? logits : NULL);
    else if (c->grad)
        memset(logits, 0, (size_t)(c->width * dtype_bytes(c->dt)));
}

static void run(const instruction *i) {
    const node *n = i->n;
    const tensor *h = n->in[0];
    const int64_t rows = h->dim[0], width = h->dim[1], chunk = n->attrs.chunk,
                  es = dtype_bytes(h->dt);
    loss_call c = {.i = i, .logits = i->workspace, .width = n->in[1]->dim[0], .dt = h->dt};
    char *scratch = c.logits + logits_bytes(n);
    c.loss = (double *)(void *)(scratch + gemm_bytes(n, par_threads()));
    c.grad = n->op == OP_linear_cross_entropy_grad;
    if (c.grad) c.scale = *(const double *)i->in[3];
    for (c.first = 0; c.first < rows; c.first += chunk) {
        const int64_t m = rows - c.first < chunk ? rows - c.first : chunk;
        gemm *const *g = i->gemm + (m < chunk ? REST : 0);
        const char *x = (const char *)i->in[0] + c.first * width * es;
        gemm_run(g[LOGITS], x, i->in[1], c.logits, scratch);
        par_for(m, row, &c);
        if (has_product(n, DH))
            gemm_run(g[DH], c.logits, i->in[1], (char *)i->out[1] + c.first * width * es, scratch);
        if (has_product(n, DW)) gemm_run(g[DW], c.logits, x, i->out[n->n_out - 1], scratch);
    }
    double sum = 0;
    for (int64_t r = 0; r < rows; r++)
        sum += c.loss[r];
    *(double *)i->out[0] = sum;
}

drv_status loss_lower(arena *a, gemm_machine *m, const node *n, instruction *out) {
    const int64_t rows = n->in[0]->dim[0], rest = rows % n->attrs.chunk;
    out->fn = run;
    if (rows >= n->attrs.chunk) DRV_TRY(lower_chunk(a, m, n, n->attrs.chunk, out->gemm));
    return rest ? lower_chunk(a, m, n, rest, out->gemm + REST) : DRV_OK;
}
