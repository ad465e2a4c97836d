// Trees of sums and maxima over parts, block by block so that partial results stay in the cache.
#include "comm/join.h"

#include <math.h>

#include "base/parallel.h"
#include "base/round.h"

enum { BLOCK = 512, CHUNK = 64 * BLOCK }; // elements: of a partial result, of a thread's chunk

typedef struct call {
    dtype dt;
    comm_join join;
    const void *const *part;
    int n_parts, run;
    int64_t n;
    void *out;
} call;

// A block of values in the type of the reduction.
typedef union block {
    float f32[BLOCK];
    double f64[BLOCK];
    int32_t i32[BLOCK];
    int64_t i64[BLOCK];
} block;

static double max_real(double a, double b) {
    if (isnan(a) || isnan(b)) return (double)NAN;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

#define JOIN(type, larger)                                                                         \
    for (int i = 0; i < n; i++)                                                                    \
    a->type[i] = join == COMM_SUM ? a->type[i] + b->type[i] : larger

static void join_blocks(dtype dt, comm_join join, int n, block *a, const block *b) {
    switch (dt) {
    case DT_F32:
    case DT_BF16:
        JOIN(f32, (float)max_real((double)a->f32[i], (double)b->f32[i]));
        break;
    case DT_F64:
        JOIN(f64, max_real(a->f64[i], b->f64[i]));
        break;
    case DT_I32:
        JOIN(i32, a->i32[i] > b->i32[i] ? a->i32[i] : b->i32[i]);
        break;
    case DT_I64:
        JOIN(i64, a->i64[i] > b->i64[i] ? a->i64[i] : b->i64[i]);
        break;
    }
}

static void load(const call *c, int part, int64_t first, int n, block *out) {
    const char *p = (const char *)c->part[part] + first * dtype_bytes(c->dt);
    if (c->dt != DT_BF16) {
        memcpy(out, p, (size_t)(n * dtype_bytes(c->dt)));
        return;
    }
    for (int i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, p + 2 * i, 2);
        out->f32[i] = bf16_to_f32(x);
    }
}

static void store(const call *c, int64_t first, int n, const block *in) {
    char *p = (char *)c->out + first * dtype_bytes(c->dt);
    if (c->dt != DT_BF16) {
        memcpy(p, in, (size_t)(n * dtype_bytes(c->dt)));
        return;
    }
    for (int i = 0; i < n; i++) {
        const uint16_t x = f32_to_bf16(in->f32[i]);
        memcpy(p + 2 * i, &x, 2);
    }
}

// Parts [low, high) of one block, in runs of `run`.
static void join_range(const call *c, int low, int high, int run, int64_t first, int n,
        block *out) {
    if (high - low == 1) {
        load(c, low, first, n, out);
        return;
    }
    if (high - low == run) run = 1;
    int half = run;
    while (2 * half < high - low)
        half *= 2;
    block right;
    join_range(c, low, low + half, run, first, n, out);
    join_range(c, low + half, high, run, first, n, &right);
    join_blocks(c->dt, c->join, n, out, &right);
}

static void join_chunk(void *arg, int64_t index) {
    const call *c = arg;
    const int64_t end = (index + 1) * CHUNK < c->n ? (index + 1) * CHUNK : c->n;
    block sum;
    for (int64_t first = index * CHUNK; first < end; first += BLOCK) {
        const int n = (int)(end - first < BLOCK ? end - first : BLOCK);
        join_range(c, 0, c->n_parts, c->run, first, n, &sum);
        store(c, first, n, &sum);
    }
}

void join_runs(dtype dt, comm_join join, const void *const *part, int n_parts, int run, int64_t n,
        void *out) {
    call c = {.dt = dt,
            .join = join,
            .part = part,
            .n_parts = n_parts,
            .run = run,
            .n = n,
            .out = out};
    par_for(div_up(n, CHUNK), join_chunk, &c);
}

void join_parts(dtype dt, comm_join join, const void *const *part, int n_parts, int64_t n,
        void *out) {
    join_runs(dt, join, part, n_parts, 1, n, out);
}
