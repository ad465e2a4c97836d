// A call of cuDNN's fused attention, or of its gradient.
//
// Legend: R rows of S tokens, H query heads, K key-value heads, D of a head, M segments of a row.
#pragma once
#include "backend/pjrt/stablehlo/hlo.h"

typedef struct cudnn_call {
    int64_t rows, seq, heads, kv_heads, d;
    int64_t window;   // the most tokens that a token sees; 0: all before it
    int64_t segments; // the most segments of a row, which do not see each other; 0: a row is one
    bool masked;      // a mask is added to the scores
    bool deterministic;
} cudnn_call;

// Appends the call, and names the n_out values of `out`, whose types and dims the caller has set.
// Operands, row-major:
//   forward   q [R, S, H, D], k and v [R, S, K, D]; the mask [R, 1, S, S] if there is one; of
//   segments
//             the lengths in queries and in keys, s32 [R, M], and where they begin, s32 [R, M + 1]
//   backward  q, k, v, the log-sum-exp of the forward call, the gradient of o, the mask, o, segments
// Results. In memory the dims 1 and 2 of those with four dims are swapped, so swapping them back
// costs nothing:
//   forward   o [R, H, S, D]; log-sum-exp f32 [R, H, S], of segments [R M, H, S]
//   backward  gradients of q [R, H, S, D], of k and v [R, K, S, D]
void cudnn_put_call(hlo_text *h, const cudnn_call *c, bool backward, const hlo_value *in, int n_in,
        hlo_value *out, int n_out);
