// Matrix products for one vector level: operands are packed block by block, then tiles that live in
// registers run over the packed words (Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", ACM TOMS 34(3), 2008). Packing turns all forms (NN, NT, TN) and both types into
// the same words, so a bf16 product in fp32 arithmetic costs no more than an fp32 one.
#include <string.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/simd.h"

// A register tile is MR rows by NV vectors; panels of a that cross the rows of storage hold ACROSS
// rows. Packing fetches AHEAD words of the inner dimension ahead; tiles fetch every STEP words.
enum { NV = 3, NR = NV * VN, ACROSS = 16, AHEAD = 8, STEP = 8 };
#if SIMD_LEVEL >= 3
enum { MR = 8 };
#else
enum { MR = 4 };
#endif

// Begins to load what will be read soon.
INLINE void fetch(const char *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64)
        _mm_prefetch(p + i, _MM_HINT_T0);
    _mm_prefetch(p + bytes - 1, _MM_HINT_T0);
}

// Rows of memory to be fetched, some cache lines at a time between multiplications: all at once
// would fill the processor's miss buffers and stall it.
typedef struct lines {
    const char *row, *next;
    int64_t ld, bytes, rows, per_step;
} lines;

INLINE lines lines_of(const char *p, int64_t ld, int64_t bytes, int64_t rows, int64_t steps) {
    const int64_t all = rows * (bytes / 64 + 1);
    return (lines){p, p, ld, bytes, rows, (all + steps - 1) / steps};
}

INLINE void fetch_some(lines *l) {
    for (int64_t i = 0; i < l->per_step && l->rows > 0; i++) {
        _mm_prefetch(l->next, _MM_HINT_T0);
        l->next += 64;
        if (l->next < l->row + l->bytes + 63) continue;
        l->row += l->ld;
        l->next = l->row;
        l->rows--;
    }
}

typedef struct place { // where the sums of a register tile begin and end
    const float *from; // NULL: at 0
    int64_t ld_from;
    dtype dt;
    void *to;
    int64_t ld_to;
} place;

#define BLOCKS "kernels/x86/gemm_blocks.h"
#include "kernels/x86/each_arithmetic.h"

void SIMD_NAME(gemm)(const gemm_shape *s, const void *a, const void *b, void *c, void *scratch) {
    if (s->in == DT_F64) ref_gemm(s, a, b, c, scratch);
#if SIMD_LEVEL == 4
    else if (s->in == DT_BF16)
        gemm_bf16(s, a, b, c, scratch);
#endif
    else
        gemm_f32(s, a, b, c, scratch);
}
