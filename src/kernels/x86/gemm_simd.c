// Matrix products for one vector level: operands are packed block by block, then tiles that live in
// registers run over the packed words (Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", ACM TOMS 34(3), 2008). Packing turns all forms (NN, NT, TN) and both types into
// the same words, so a bf16 product in fp32 arithmetic costs no more than an fp32 one.
#include <string.h>

#include "kernels/ref/ref.h"
#include "kernels/x86/simd.h"

// A register tile is MR rows by NV vectors; panels of a that cross the rows of storage hold ACROSS
// rows. AHEAD: how many words of the inner dimension packing fetches ahead.
enum { NV = 3, NR = NV * VN, ACROSS = 16, AHEAD = 8 };
#if SIMD_LEVEL >= 3
enum { MR = 8 };
#else
enum { MR = 4 };
#endif

// Begins to load `bytes` that will be written or read soon.
INLINE void fetch(const char *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64)
        _mm_prefetch(p + i, _MM_HINT_T0);
    _mm_prefetch(p + bytes - 1, _MM_HINT_T0);
}

#define BF16_DOT 0
#define PATH(x)  x##_f32
#include "kernels/x86/words.h"
#include "kernels/x86/gemm_blocks.h"
#undef BF16_DOT
#undef PATH
#if SIMD_LEVEL == 4
#define BF16_DOT 1
#define PATH(x)  x##_bf16
#include "kernels/x86/words.h"
#include "kernels/x86/gemm_blocks.h"
#undef BF16_DOT
#undef PATH
#endif

void SIMD_NAME(gemm)(const gemm_shape *s, const void *a, const void *b, void *c, void *scratch) {
    if (s->in == DT_F64) ref_gemm(s, a, b, c, scratch);
#if SIMD_LEVEL == 4
    else if (s->in == DT_BF16)
        gemm_bf16(s, a, b, c, scratch);
#endif
    else
        gemm_f32(s, a, b, c, scratch);
}
