// Includes BLOCKS, after words.h, once for each arithmetic that this level has: PATH(x) is x_f32 or
// x_bf16.
#define BF16_DOT 0
#define PATH(x)  x##_f32
#include "kernels/x86/words_old.h"
#include BLOCKS
#undef BF16_DOT
#undef PATH
#if SIMD_LEVEL == 4
#define BF16_DOT 1
#define PATH(x)  x##_bf16
#include "kernels/x86/words_old.h"
#include BLOCKS
#undef BF16_DOT
#undef PATH
#endif
