// Arrays for tests of kernels: random contents from a seed, guard bytes on both sides, comparison
// element by element; and the levels of kernels that this processor has.
#pragma once
#include "harness.h"

#include <math.h>

#include "backend/cpu/gemm.h"
#include "kernels/kernels.h"

enum { GUARD_BYTES = 64, GUARD = 0xA5 };

typedef struct array {
    dtype dt;
    int64_t n;
    unsigned char *block; // guard, elements, guard
    void *p;              // the elements
} array;

static inline void array_put(array *x, int64_t i, double value) {
    if (x->dt == DT_BF16)
        ((uint16_t *)x->p)[i] = f32_to_bf16((float)value);
    else
        ((float *)x->p)[i] = (float)value;
}

static inline double array_at(const array *x, int64_t i) {
    return x->dt == DT_BF16 ? (double)bf16_to_f32(((uint16_t *)x->p)[i])
                            : (double)((float *)x->p)[i];
}

// Uniform in [-scale, scale), a function of the seed. unit > 0: rounded to its multiples, so that
// sums of a few of them are exact.
static inline array array_new(dtype dt, int64_t n, uint64_t seed, double scale, double unit) {
    const size_t bytes = (size_t)(n * dtype_bytes(dt));
    array x = {dt, n, mem_alloc(bytes + 2 * GUARD_BYTES), NULL};
    memset(x.block, GUARD, bytes + 2 * GUARD_BYTES);
    x.p = x.block + GUARD_BYTES;
    for (int64_t i = 0; i < n; i++) {
        const double value = scale * noise(seed, (uint64_t)i);
        array_put(&x, i, unit > 0 ? unit * round(value / unit) : value);
    }
    return x;
}

static inline array array_copy(const array *x) {
    array copy = array_new(x->dt, x->n, 0, 0, 0);
    memcpy(copy.p, x->p, (size_t)(x->n * dtype_bytes(x->dt)));
    return copy;
}

static inline void array_free(array *x) {
    free(x->block);
}

static inline void array_guarded(const char *what, const array *x) {
    const unsigned char *after = x->block + GUARD_BYTES + x->n * dtype_bytes(x->dt);
    for (int i = 0; i < GUARD_BYTES; i++)
        if (x->block[i] != GUARD || after[i] != GUARD)
            fail_msg("%s: wrote %s its array of %lld", what,
                    x->block[i] != GUARD ? "before" : "after", (long long)x->n);
}

// got is want within bound * max(1, |want|), and nothing was written beside it.
static inline void array_expect(const char *what, const array *got, const array *want,
        double bound) {
    array_guarded(what, got);
    for (int64_t i = 0; i < got->n; i++) {
        const double a = array_at(got, i), b = array_at(want, i);
        if (!(fabs(a - b) <= bound * fmax(1, fabs(b))))
            fail_msg("%s: [%lld] of %lld is %.9g, expected %.9g within %.2g", what, (long long)i,
                    (long long)got->n, a, b, bound);
    }
}

// The levels above the reference; returns how many. That of plain C, which is slow where fma is a
// call, only where it is the highest: else test_portable holds it against those.
static inline int vector_levels(const kernels *levels[3]) {
    const int lowest = cpu_detect() == CPU_PLAIN ? CPU_PLAIN : CPU_AVX2;
    int n = 0;
    for (int level = lowest; level <= (int)cpu_detect(); level++)
        levels[n++] = kernels_for((cpu_level)level);
    return n;
}

// The same with what attention of bf16 may go by: tile registers in plain C, and by the
// instructions of AMX where the processor has them. They have attention alone.
enum { MAX_ATTENTION_LEVELS = 5 };
static inline int attention_levels(dtype dt, const kernels *levels[MAX_ATTENTION_LEVELS]) {
    static kernels by_tiles[2];
    const tile_kernels *tiles[] = {&tiles_amx_emulated, gemm_amx(cpu_detect())};
    int n = vector_levels(levels);
    for (int i = 0; i < 2 && dt == DT_BF16; i++) {
        if (!tiles[i]) continue;
        by_tiles[i] = (kernels){.name = tiles[i]->name,
                .attention = tiles[i]->attention,
                .attention_grad = tiles[i]->attention_grad,
                .attention_grad_sum = tiles[i]->attention_grad_sum};
        levels[n++] = &by_tiles[i];
    }
    return n;
}
