// Prints products: matmul, matmul_add, and the low-rank branches of LoRA.
#include "backend/pjrt/stablehlo/lower_collective.h"
#include "ir/op.h"
#include "kernels/fp8.h"

// Returns 2^exponent in fp32 for an unsigned scalar, the exponent plus 127.
static hlo_value power_of_2(hlo_text *h, hlo_value biased) {
    return hlo_bitcast(h, hlo_binary(h, "shift_left", biased, hlo_whole(h, HLO_U32, 23)), HLO_F32);
}

// Returns the biased exponent of fp8_scale_exponent() from the bits of the largest number.
static hlo_value scale_exponent(hlo_text *h, const fp8_format *to, hlo_value largest) {
    const hlo_value bits = hlo_bitcast(h, hlo_convert(h, largest, HLO_F32), HLO_U32);
    const hlo_value exponent =
            hlo_binary(h, "shift_right_logical", bits, hlo_whole(h, HLO_U32, 23));
    const hlo_value fraction = hlo_binary(h, "and", bits, hlo_whole(h, HLO_U32, 0x7FFFFF));
    const hlo_value above = hlo_compare(h, "GT", fraction, hlo_whole(h, HLO_U32, 0x600000));
    const hlo_value scale = hlo_binary(h, "subtract",
            hlo_whole(h, HLO_U32, (uint64_t)(127 + 127 + to->max_exponent)),
            hlo_binary(h, "add", exponent, hlo_convert(h, above, HLO_U32)));
    return hlo_binary(h, "minimum", scale, hlo_whole(h, HLO_U32, 127 + FP8_MAX_SCALE_EXPONENT));
}

// Rounds x to fp8 and widens it again. XLA turns a dot into an fp8 product of cuBLASLt if each
// operand is a conversion from fp8 times a scalar (openxla/xla, gemm_rewriter.cc, MatchFp8Param).
static hlo_value in_fp8(lowering *l, hlo_value x, bool gradient, unsigned axes) {
    hlo_text *h = &l->h;
    const fp8_format *to = gradient ? &fp8_e5m2 : &fp8_e4m3;
    const hlo_value here = hlo_reduce_all(h, "maximum", hlo_unary(h, "abs", x));
    const hlo_value largest = lower_max_along(l, here, axes);
    const hlo_value up = scale_exponent(h, to, largest);
    const hlo_value down = hlo_binary(h, "subtract", hlo_whole(h, HLO_U32, 2 * 127), up);
    const hlo_value scale = hlo_convert(h, power_of_2(h, up), x.type),
                    inverse = hlo_convert(h, power_of_2(h, down), x.type);
    const hlo_value rounded = hlo_convert(h, hlo_binary(h, "multiply", x, hlo_spread(h, scale, &x)),
            gradient ? HLO_F8E5M2 : HLO_F8E4M3);
    return hlo_binary(h, "multiply", hlo_convert(h, rounded, x.type), hlo_spread(h, inverse, &x));
}

static hlo_value operand(lowering *l, const node *n, int k) {
    const hlo_value x = lower_in(l, n, k);
    if (!n->attrs.matmul.fp8) return x;
    return in_fp8(l, x, k == 0 && n->attrs.matmul.fp8 == FP8_GRADIENT,
            (unsigned)n->attrs.matmul.fp8_axes);
}

// Prints op(a) op(b) with a result type. A product that is stored in bf16 is printed in bf16: its
// sum is in fp32 anyway, and converting an fp32 result would cost a GPU the memory of both.
static hlo_value product(lowering *l, const node *n, hlo_type type) {
    const hlo_value a = operand(l, n, 0), b = operand(l, n, 1);
    return hlo_dot(&l->h, a, b, !n->attrs.matmul.ta, n->attrs.matmul.tb, type);
}

// Adds the sum over all ranks with other tokens to a gradient.
static hlo_value added_to(lowering *l, const node *n, hlo_value acc, hlo_value added) {
    if (n->attrs.mesh.ranks > 1) added = lower_sum_along(l, added, 1u << n->attrs.mesh.axis);
    return hlo_binary(&l->h, "add", acc, added);
}

static void matmul(lowering *l, const node *n) {
    const hlo_value y = product(l, n, lower_type(l, n->out[0]->dt));
    lower_set(l, n, 0, n->n_in > 2 ? added_to(l, n, lower_in(l, n, 2), y) : y);
}

static void matmul_add(lowering *l, const node *n) {
    const hlo_value c = lower_in_acc(l, n, 2, 0), y = product(l, n, c.type);
    lower_round(l, n, 0, hlo_binary(&l->h, "add", c, y));
}

const lower_op lower_op_matmul = {.lower = matmul};
const lower_op lower_op_matmul_add = {.lower = matmul_add};

// --- low-rank branches
// y[:, c_i .. c_i + O_i] += alpha_i t_i B_i^T
static void lora_up(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value y = lower_in(l, n, 0), t = lower_in(l, n, 1);
    hlo_value part[2 * MAX_BRANCHES + 1];
    int n_parts = 0;
    int64_t end = 0, from = 0;
    for (int i = 0; i < n->n_in - 2; i++) {
        const hlo_value b = lower_in(l, n, 2 + i);
        const int64_t first = n->attrs.low_rank.branches[i].column, width = b.dim[0],
                      rank = b.dim[1];
        if (first > end) part[n_parts++] = hlo_slice(h, y, 1, end, first - end);
        const hlo_value before =
                hlo_convert(h, hlo_slice(h, y, 1, first, width), lower_acc(l, n->in[0]));
        const hlo_value t_i = hlo_slice(h, t, 1, from, rank);
        const hlo_value up = hlo_scale(h, hlo_dot(h, t_i, b, 1, 1, before.type),
                n->attrs.low_rank.branches[i].alpha);
        part[n_parts++] = hlo_convert(h, hlo_binary(h, "add", before, up), y.type);
        end = first + width;
        from += rank;
    }
    if (end < y.dim[1]) part[n_parts++] = hlo_slice(h, y, 1, end, y.dim[1] - end);
    lower_set(l, n, 0, hlo_concat(h, part, n_parts, 1));
}

// dt_i = alpha_i dy[:, c_i .. c_i + O_i] B_i
static void lora_up_grad(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value dy = lower_in(l, n, 0);
    hlo_value part[MAX_BRANCHES];
    for (int i = 0; i < n->n_in - 1; i++) {
        const hlo_value b = lower_in(l, n, 1 + i);
        const hlo_value d = hlo_slice(h, dy, 1, n->attrs.low_rank.branches[i].column, b.dim[0]);
        part[i] = hlo_scale(h, hlo_dot(h, d, b, 1, 0, lower_acc(l, n->in[0])),
                n->attrs.low_rank.branches[i].alpha);
    }
    lower_round(l, n, 0, hlo_concat(h, part, n->n_in - 1, 1));
}

// acc + alpha dy[:, column1 .. + O]^T t[:, from .. + r]
static void lora_up_grad_b(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value acc = lower_in(l, n, 2);
    const hlo_value dy =
            hlo_slice(h, lower_in(l, n, 0), 1, n->attrs.low_rank.branches[0].column, acc.dim[0]);
    const hlo_value t = hlo_slice(h, lower_in(l, n, 1), 1, n->attrs.low_rank.from, acc.dim[1]);
    const hlo_value added =
            hlo_scale(h, hlo_dot(h, dy, t, 0, 0, acc.type), n->attrs.low_rank.branches[0].alpha);
    lower_set(l, n, 0, added_to(l, n, acc, added));
}

const lower_op lower_op_lora_up = {.lower = lora_up};
const lower_op lower_op_lora_up_grad = {.lower = lora_up_grad};
const lower_op lower_op_lora_up_grad_b = {.lower = lora_up_grad_b};
