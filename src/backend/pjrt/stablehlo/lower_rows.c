// Prints ops on rows or elements: norms, biases, swiglu, add, barrier, moves.
#include "backend/pjrt/stablehlo/lower_collective.h"
#include "ir/op.h"

// --- norms; x is in the accumulation type, r has its row factors
static hlo_value row_sum(hlo_text *h, hlo_value x) {
    return hlo_reduce(h, "add", x, 1, (int64_t[]){1});
}

// Sets y and r, the last two outputs.
static void normalise(lowering *l, const node *n, hlo_value x, hlo_value w) {
    hlo_text *h = &l->h;
    const hlo_value mean =
            hlo_scale(h, row_sum(h, hlo_binary(h, "multiply", x, x)), 1 / (double)x.dim[1]);
    const hlo_value eps = hlo_fill(h, n->attrs.norm.eps, &mean);
    const hlo_value r = hlo_unary(h, "rsqrt", hlo_binary(h, "add", mean, eps));
    const hlo_value scaled = hlo_binary(h, "multiply", x, hlo_along(h, r, &x, 0));
    lower_round(l, n, n->n_out - 2, hlo_binary(h, "multiply", scaled, hlo_along(h, w, &x, 1)));
    lower_set(l, n, n->n_out - 1, r);
}

static void rmsnorm(lowering *l, const node *n) {
    normalise(l, n, lower_in_acc(l, n, 0, 0), lower_in(l, n, 1));
}

static void add_rmsnorm(lowering *l, const node *n) {
    const hlo_value x = lower_in_acc(l, n, 0, 0), d = lower_in_acc(l, n, 1, 0);
    lower_round(l, n, 0, hlo_binary(&l->h, "add", x, d));
    const hlo_value stored = l->values[n->out[0]->id];
    normalise(l, n, hlo_convert(&l->h, stored, x.type), lower_in(l, n, 2));
}

// inputs: dy, x, w, r[, acc][, dh]
static void rmsnorm_grad(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const bool frozen = n->attrs.norm.skip_dw;
    const int past = frozen ? 4 : 5; // the input dh, which bypasses the norm
    const hlo_value dy = lower_in_acc(l, n, 0, 1), x = lower_in_acc(l, n, 1, 1);
    const hlo_value w = hlo_along(h, lower_in(l, n, 2), &x, 1), r = lower_in(l, n, 3);
    const hlo_value r_rows = hlo_along(h, r, &x, 0), g = hlo_binary(h, "multiply", dy, w);
    const hlo_value mean =
            hlo_scale(h, row_sum(h, hlo_binary(h, "multiply", g, x)), 1 / (double)x.dim[1]);
    const hlo_value r2 = hlo_binary(h, "multiply", r, r);
    const hlo_value k = hlo_along(h, hlo_binary(h, "multiply", r2, mean), &x, 0);
    hlo_value dx = hlo_binary(h, "subtract", g, hlo_binary(h, "multiply", x, k));
    dx = hlo_binary(h, "multiply", dx, r_rows);
    if (n->n_in > past) dx = hlo_binary(h, "add", dx, lower_in_acc(l, n, past, 1));
    lower_round(l, n, 0, dx);
    if (frozen) return;
    const hlo_value normed = hlo_binary(h, "multiply", x, r_rows);
    hlo_value dw = hlo_reduce(h, "add", hlo_binary(h, "multiply", dy, normed), 1, (int64_t[]){0});
    if (n->attrs.mesh.ranks > 1) dw = lower_sum_along(l, dw, 1u << n->attrs.mesh.axis);
    lower_set(l, n, 1, hlo_binary(h, "add", lower_in(l, n, 4), dw));
}

const lower_op lower_op_rmsnorm = {.lower = rmsnorm};
const lower_op lower_op_add_rmsnorm = {.lower = add_rmsnorm};
const lower_op lower_op_rmsnorm_grad = {.lower = rmsnorm_grad};

// --- biases
static void add_bias(lowering *l, const node *n) {
    const hlo_value x = lower_in_acc(l, n, 0, 0), b = hlo_along(&l->h, lower_in(l, n, 1), &x, 1);
    lower_round(l, n, 0, hlo_binary(&l->h, "add", x, b));
}

static void bias_grad(lowering *l, const node *n) {
    const hlo_value dy = lower_in_acc(l, n, 0, 0),
                    sum = hlo_reduce(&l->h, "add", dy, 1, (int64_t[]){0});
    lower_set(l, n, 0, hlo_binary(&l->h, "add", lower_in(l, n, 1), sum));
}

const lower_op lower_op_add_bias = {.lower = add_bias};
const lower_op lower_op_bias_grad = {.lower = bias_grad};

// --- swiglu: rows are [gate, up]
static void swiglu(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value gu = lower_in_acc(l, n, 0, 0);
    const int64_t width = gu.dim[1] / 2;
    const hlo_value g = hlo_slice(h, gu, 1, 0, width), u = hlo_slice(h, gu, 1, width, width);
    const hlo_value silu = hlo_binary(h, "multiply", g, hlo_unary(h, "logistic", g));
    lower_round(l, n, 0, hlo_binary(h, "multiply", silu, u));
}

// silu'(g) = s + g s (1 - s), s the logistic of g.
static void swiglu_grad(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value dy = lower_in_acc(l, n, 0, 1), gu = lower_in_acc(l, n, 1, 1);
    const int64_t width = gu.dim[1] / 2;
    const hlo_value g = hlo_slice(h, gu, 1, 0, width), u = hlo_slice(h, gu, 1, width, width);
    const hlo_value s = hlo_unary(h, "logistic", g), gs = hlo_binary(h, "multiply", g, s);
    const hlo_value rest = hlo_binary(h, "subtract", hlo_fill(h, 1, &s), s);
    const hlo_value slope = hlo_binary(h, "add", s, hlo_binary(h, "multiply", gs, rest));
    const hlo_value dg = hlo_binary(h, "multiply", hlo_binary(h, "multiply", dy, u), slope);
    const hlo_value both[] = {dg, hlo_binary(h, "multiply", dy, gs)};
    lower_round(l, n, 0, hlo_concat(h, both, 2, 1));
}

const lower_op lower_op_swiglu = {.lower = swiglu};
const lower_op lower_op_swiglu_grad = {.lower = swiglu_grad};

// --- sums of two values, rounded once
static void add(lowering *l, const node *n) {
    lower_round(l, n, 0,
            hlo_binary(&l->h, "add", lower_in_acc(l, n, 0, 0), lower_in_acc(l, n, 1, 0)));
}

const lower_op lower_op_add = {.lower = add};

static void narrow(lowering *l, const node *n) {
    const hlo_value x = lower_in(l, n, 0);
    if (n->n_in == 1)
        lower_round(l, n, 0, x);
    else
        lower_round(l, n, 0, hlo_binary(&l->h, "add", x, lower_in_acc(l, n, 1, 1)));
}

const lower_op lower_op_narrow = {.lower = narrow};

// --- order
static void barrier(lowering *l, const node *n) {
    lower_set(l, n, 0, hlo_barrier(&l->h, lower_in(l, n, 0), lower_in(l, n, 1)));
}

const lower_op lower_op_barrier = {.lower = barrier};

// --- moves to host memory and back, which are in a graph only if the device has such memory
static void to_host(lowering *l, const node *n) {
    lower_set(l, n, 0, hlo_in_memory(&l->h, lower_in(l, n, 0), HLO_MEMORY_OF_HOST));
}

static void from_host(lowering *l, const node *n) {
    const hlo_value x = hlo_barrier(&l->h, lower_in(l, n, 0), lower_in(l, n, 1));
    lower_set(l, n, 0, hlo_in_memory(&l->h, x, "device"));
}

const lower_op lower_op_to_host = {.lower = to_host};
const lower_op lower_op_from_host = {.lower = from_host};
