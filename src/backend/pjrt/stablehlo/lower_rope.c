// Prints rope_table and rope.
#include <math.h>

#include "backend/pjrt/stablehlo/lower.h"
#include "kernels/kernels.h"

#define TWO_PI 6.283185307179586476925

// An angle p f is p times a share of a turn, of which only the fraction counts; in fp32 it would be
// lost at large positions (at 131,072 to 4e-3 rad). So the fraction is computed in whole numbers of
// 2^-32 turns, which wrap as turns do: f / 2 pi = high 2^-32 + low 2^-(32 + LOW_BITS), and for
// p < 2^20, p low stays below 2^32. What is cut off is below p 2^-(33 + LOW_BITS) + 2^-32 turns:
// at most 2e-7 rad, as much as fp32 rounds an angle of half a turn. No f64 is needed.
enum { LOW_BITS = 12 };

static void split_turns(const node *n, int64_t *high, int64_t *low) {
    const op_attrs *attrs = &n->attrs;
    const rope_args args = {.head_dim = attrs->heads.head_dim,
            .theta = attrs->rope.theta,
            .factor = attrs->rope.factor,
            .low_freq_factor = attrs->rope.low_freq_factor,
            .high_freq_factor = attrs->rope.high_freq_factor,
            .original_context = attrs->rope.original_context};
    for (int j = 0; j < attrs->heads.head_dim / 2; j++) {
        const double turns = rope_frequency(&args, j) / TWO_PI, whole = floor(turns);
        const double units = (turns - whole) * 0x1p32;
        high[j] = (int64_t)floor(units);
        low[j] = (int64_t)((units - floor(units)) * (1 << LOW_BITS));
    }
}

static void rope_table(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const int half = n->attrs.heads.head_dim / 2;
    int64_t *high = ARENA_ARRAY(l->g->a, int64_t, half), *low = ARENA_ARRAY(l->g->a, int64_t, half);
    split_turns(n, high, low);
    const hlo_value like = {.type = HLO_U32, .n_dims = 2, .dim = {n->in[0]->dim[0], half}};
    const hlo_value p = hlo_along(h, hlo_convert(h, lower_in(l, n, 0), HLO_U32), &like, 0);
    const hlo_value f_high = hlo_along(h, hlo_table(h, HLO_U32, half, high), &like, 1),
                    f_low = hlo_along(h, hlo_table(h, HLO_U32, half, low), &like, 1);
    const hlo_value rest = hlo_binary(h, "shift_right_logical", hlo_binary(h, "multiply", p, f_low),
            hlo_fill(h, LOW_BITS, &like));
    const hlo_value turns = hlo_binary(h, "add", hlo_binary(h, "multiply", p, f_high), rest);
    // As signed numbers the angles are between minus and plus half a turn.
    const hlo_value angle = hlo_scale(h,
            hlo_convert(h, hlo_bitcast(h, turns, HLO_I32),
                    lower_type(l, n->attrs.rope.table_dtype)),
            TWO_PI * 0x1p-32);
    const hlo_value both[] = {hlo_unary(h, "cosine", angle), hlo_unary(h, "sine", angle)};
    lower_set(l, n, 0, hlo_concat(h, both, 2, 1));
}

// Pairs (a, b) of columns [first, first + width) become (a cos - b sin, b cos + a sin).
static hlo_value rotated(lowering *l, const node *n, int64_t first, int64_t width) {
    hlo_text *h = &l->h;
    const hlo_value x = lower_in(l, n, 0), table = lower_in(l, n, 1);
    const int64_t rows = x.dim[0], d = n->attrs.heads.head_dim, half = d / 2;
    const hlo_value heads = hlo_convert(h,
            hlo_reshape(h, hlo_slice(h, x, 1, first, width), HLO_DIMS(rows, width / d, d)),
            table.type);
    const hlo_value a = hlo_slice(h, heads, 2, 0, half), b = hlo_slice(h, heads, 2, half, half);
    static const int64_t dims[] = {0, 2};
    const hlo_value c = hlo_broadcast(h, hlo_slice(h, table, 1, 0, half), a.n_dims, a.dim, dims);
    hlo_value s = hlo_broadcast(h, hlo_slice(h, table, 1, half, half), a.n_dims, a.dim, dims);
    if (n->attrs.rope.inverse) s = hlo_unary(h, "negate", s);
    const hlo_value turned[] = {hlo_binary(h, "subtract", hlo_binary(h, "multiply", a, c),
                                        hlo_binary(h, "multiply", b, s)),
            hlo_binary(h, "add", hlo_binary(h, "multiply", b, c), hlo_binary(h, "multiply", a, s))};
    return hlo_reshape(h, hlo_convert(h, hlo_concat(h, turned, 2, 2), x.type),
            HLO_DIMS(rows, width));
}

// Rotates the first n_heads heads and copies the others. The queries, the keys and the values
// become one matrix each, and the result joins them: each is computed once for both passes, and
// attention reads them without slicing. Without the barrier XLA would rotate the heads again for
// each reader. The heads that are copied are the values; the keys are as many heads before them.
static void rope(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value x = lower_in(l, n, 0);
    const int64_t width = (int64_t)n->attrs.heads.n_heads * n->attrs.heads.head_dim,
                  values = x.dim[1] - width, queries = width - values;
    hlo_value matrix[HLO_MAX_JOINED];
    int n_matrices = 0;
    if (n->attrs.rope.inverse || queries <= 0 || values == 0) {
        matrix[n_matrices++] = rotated(l, n, 0, width);
    } else {
        matrix[n_matrices++] = rotated(l, n, 0, queries);
        matrix[n_matrices++] = rotated(l, n, queries, values);
    }
    if (values) matrix[n_matrices++] = hlo_slice(h, x, 1, width, values);
    if (n->attrs.rope.inverse) {
        lower_set(l, n, 0, hlo_concat(h, matrix, n_matrices, 1));
        return;
    }
    hlo_barrier_all(h, matrix, n_matrices);
    lower_set(l, n, 0, hlo_join(h, matrix, n_matrices));
}

const lower_op lower_op_rope_table = {.lower = rope_table};
const lower_op lower_op_rope = {.lower = rope};
