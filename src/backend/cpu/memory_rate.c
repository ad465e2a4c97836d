// Measures the rate of memory by two loops over more memory than any cache holds, on all threads.
#include "backend/cpu/memory_rate.h"

#include <stdatomic.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "base/str.h"

// Processors have up to 16 MiB of cache a core.
enum { PIECE = 1 << 18, LEAST_BYTES = 128 << 20, BYTES_A_THREAD = 32 << 20 };

typedef uint64_t __attribute__((may_alias)) word; // two floats, not interpreted

typedef struct walk {
    const kernels *by;
    float *x, *sums; // the two halves of the memory
    _Atomic uint64_t seen;
} walk;

static void add_piece(void *arg, int64_t i) {
    const walk *w = arg;
    w->by->accumulate(DT_F32, PIECE, w->x + i * PIECE, w->sums + i * PIECE);
}

// Four sums, so that no load waits for an addition.
static void read_piece(void *arg, int64_t i) {
    walk *w = arg;
    enum { WORDS = PIECE * sizeof(float) / sizeof(word), N = 4 };
    const word *p = (const word *)(const void *)(w->x + i * PIECE);
    uint64_t sum[N] = {0};
    for (int64_t k = 0; k < WORDS; k += N)
        for (int j = 0; j < N; j++)
            sum[j] += p[k + j];
    atomic_fetch_add_explicit(&w->seen, sum[0] + sum[1] + sum[2] + sum[3], memory_order_relaxed);
}

static void raise_rate(double bytes, par_fn *piece, int64_t n_pieces, walk *w, double *best) {
    const double begin = clock_s();
    par_for(n_pieces, piece, w);
    const double rate = bytes / (clock_s() - begin);
    if (rate > *best) *best = rate;
}

drv_status memory_rate_measure(const kernels *by, int tries, double *bytes_per_s) {
    int64_t bytes = (int64_t)par_threads() * BYTES_A_THREAD;
    if (bytes < LEAST_BYTES) bytes = LEAST_BYTES;
    const int64_t n_floats = bytes / (int64_t)sizeof(float), n_pieces = n_floats / PIECE;
    float *memory = pages_alloc((size_t)bytes);
    if (!memory)
        return drv_fail(DRV_E_DEVICE, "out of memory: %s wanted to measure how fast memory is",
                str_bytes((double)bytes));
    walk w = {.by = by, .x = memory, .sums = memory + n_floats / 2};
    par_for(n_pieces / 2, add_piece, &w); // touches all pages
    *bytes_per_s = 0;
    for (int i = 0; i < tries; i++) {
        raise_rate((double)bytes, read_piece, n_pieces, &w, bytes_per_s);
        raise_rate(1.5 * (double)bytes, add_piece, n_pieces / 2, &w, bytes_per_s);
    }
    pages_free(memory, (size_t)bytes);
    return DRV_OK;
}
