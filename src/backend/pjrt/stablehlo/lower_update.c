// Prints norms, AdamW and accumulation groups.
// Legend: p weight; g gradient; m, v moments; s numbers of the step.
#include "backend/pjrt/stablehlo/lower_adamw.h"
#include "backend/pjrt/stablehlo/lower_collective.h"
#include "ir/hyper.h"

// --- sum_squares: in f64 if the device has it; else first each row in fp32, so that no sum is
// longer than a row or a column
static hlo_value squares_of(lowering *l, hlo_value x) {
    hlo_text *h = &l->h;
    const hlo_type sum = lower_type(l, DT_F64);
    x = hlo_convert(h, x, l->options.has_f64 ? HLO_F64 : HLO_F32);
    x = hlo_binary(h, "multiply", x, x);
    if (!l->options.has_f64 && x.n_dims == 2) x = hlo_reduce(h, "add", x, 1, (int64_t[]){1});
    return hlo_reduce_all(h, "add", hlo_convert(h, x, sum));
}

// Counts values that all tensor ranks have only on the first of them.
static hlo_value on_first_rank(lowering *l, hlo_value x) {
    hlo_text *h = &l->h;
    const hlo_value place = lower_place(l, AXIS_TENSOR);
    const hlo_value is_first = hlo_compare(h, "EQ", place, hlo_fill(h, 0, &place));
    return hlo_select(h, is_first, x, hlo_fill(h, 0, &x));
}

// The squares of a weight's new value are summed behind a barrier. Without it XLA fuses the sum
// with the rounding of the bf16 copy, in a kernel that reads the weight again, instead of rounding
// it in the update.
static hlo_value summed_value(lowering *l, const node *n, int k) {
    hlo_value x = lower_in(l, n, k);
    if (n->in[k]->alias && tensor_root(n->in[k])->cls != TENSOR_GRAD) hlo_barrier_all(&l->h, &x, 1);
    return x;
}

static void sum_squares(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const unsigned axes = (unsigned)n->attrs.mesh.axes;
    hlo_value total = hlo_scalar(h, lower_type(l, DT_F64), 0);
    for (int k = 0; k < n->n_in; k++) {
        total = hlo_binary(h, "add", total, squares_of(l, summed_value(l, n, k)));
        if (k + 1 == n->attrs.mesh.n_alike && axes >> AXIS_TENSOR & 1)
            total = on_first_rank(l, total);
    }
    lower_set(l, n, 0, hlo_reshape(h, lower_sum_along(l, total, axes), HLO_DIMS(1)));
}

const lower_op lower_op_sum_squares = {.lower = sum_squares};

// --- numbers of the step
static hlo_value hyper_number(lowering *l, const node *n, int norm2_at, int i) {
    return hlo_element(&l->h, lower_in(l, n, norm2_at + 1), i);
}

// Computes in f64 if the device has it, and converts the results to the type of the elements.
static step_numbers make_numbers(lowering *l, const node *n, int input) {
    hlo_text *h = &l->h;
    const hlo_type type = lower_acc(l, n->in[0]);
    const hlo_value norm2 = hlo_element(h, lower_in(l, n, input), 0),
                    clip = hyper_number(l, n, input, HYPER_CLIP), one = hlo_fill(h, 1, &norm2),
                    norm = hlo_unary(h, "sqrt", norm2);
    const hlo_value scale = hlo_binary(h, "minimum", one,
            hlo_binary(h, "divide", clip, hlo_binary(h, "add", norm, hlo_fill(h, 1e-6, &norm))));
    const hlo_value clips = hlo_compare(h, "GT", clip, hlo_fill(h, 0, &clip));
    return (step_numbers){.grad_scale = hlo_convert(h, hlo_select(h, clips, scale, one), type),
            .lr = hlo_convert(h, hyper_number(l, n, input, HYPER_LR), type),
            .c1 = hlo_convert(h, hyper_number(l, n, input, HYPER_C1), type),
            .c2 = hlo_convert(h, hyper_number(l, n, input, HYPER_C2), type),
            .finite = hlo_compare(h, "LT", norm2, hlo_fill(h, __builtin_inf(), &norm2)),
            .zero = hlo_scalar(h, type, 0)};
}

// Computed once for all weights, behind a barrier: otherwise a compiler fuses a copy with each
// weight's update, and XLA keeps fused values in memory (bench/results/2026-11-23-pjrt.md). Weights
// wait for each other, since a compiler may update several at once, into new memory.
step_numbers lower_numbers(lowering *l, const node *n, int norm2_at) {
    if (l->norm2 != n->in[norm2_at]) {
        step_numbers s = make_numbers(l, n, norm2_at);
        hlo_value all[] = {s.grad_scale, s.lr, s.c1, s.c2, s.finite, s.zero};
        hlo_barrier_all(&l->h, all, 6);
        l->numbers = (step_numbers){.grad_scale = all[0],
                .lr = all[1],
                .c1 = all[2],
                .c2 = all[3],
                .finite = all[4],
                .zero = all[5]};
        l->norm2 = n->in[norm2_at];
    }
    step_numbers s = l->numbers;
    if (l->has_updated) s.grad_scale = hlo_barrier(&l->h, s.grad_scale, l->updated);
    return s;
}

hlo_value lower_truths(hlo_text *h, hlo_value truth, const hlo_value *like) {
    hlo_value truths = *like;
    truths.type = HLO_BOOL;
    return hlo_spread(h, truth, &truths);
}

hlo_value lower_sum_cleared(hlo_text *h, const step_numbers *s, hlo_value sum) {
    const hlo_value never = hlo_compare(h, "GT", s->zero, hlo_fill(h, 0, &s->zero));
    return hlo_select(h, lower_truths(h, never, &sum), sum,
            hlo_spread(h, hlo_convert(h, s->zero, sum.type), &sum));
}

// --- adamw(p, m, v, g, norm2, hyper[, w])
// Computes b old + (1 - b) x.
static hlo_value moment(hlo_text *h, double b, hlo_value old, hlo_value x) {
    return hlo_binary(h, "add", hlo_scale(h, old, b), hlo_scale(h, x, 1 - b));
}

adamw_values lower_adamw(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const op_attrs *attrs = &n->attrs;
    const hlo_value p = lower_in_acc(l, n, 0, 0), m = lower_in_acc(l, n, 1, 0),
                    v = lower_in_acc(l, n, 2, 0);
    const step_numbers s = lower_numbers(l, n, 4);
    const hlo_value g =
            hlo_binary(h, "multiply", lower_in_acc(l, n, 3, 0), hlo_spread(h, s.grad_scale, &p));
    const hlo_value new_m = moment(h, attrs->update.beta1, m, g),
                    new_v = moment(h, attrs->update.beta2, v, hlo_binary(h, "multiply", g, g));
    const hlo_value m_hat = hlo_binary(h, "divide", new_m, hlo_spread(h, s.c1, &p)),
                    v_hat = hlo_binary(h, "divide", new_v, hlo_spread(h, s.c2, &p));
    const hlo_value below =
            hlo_binary(h, "add", hlo_unary(h, "sqrt", v_hat), hlo_fill(h, attrs->update.eps, &p));
    const hlo_value step = hlo_binary(h, "add", hlo_binary(h, "divide", m_hat, below),
            hlo_scale(h, p, attrs->update.weight_decay));
    const hlo_value new_p =
            hlo_binary(h, "subtract", p, hlo_binary(h, "multiply", hlo_spread(h, s.lr, &p), step));
    return (adamw_values){.p = new_p,
            .m = new_m,
            .v = new_v,
            .finite = lower_truths(h, s.finite, &p),
            .g = lower_sum_cleared(h, &s, lower_in(l, n, 3))};
}

void lower_updated(lowering *l, const node *n, hlo_value p) {
    l->has_updated = true;
    l->updated = p;
    lower_set(l, n, 0, p);
    str_puts(&l->h.s, "// updates a weight"); // runtime/optimised.c counts these lines
    hlo_end_line(&l->h);
}

static void adamw(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const adamw_values made = lower_adamw(l, n);
    const hlo_value new_p = hlo_select(h, made.finite, made.p, lower_in(l, n, 0));
    lower_updated(l, n, new_p);
    lower_set(l, n, 1, hlo_select(h, made.finite, made.m, lower_in(l, n, 1)));
    lower_set(l, n, 2, hlo_select(h, made.finite, made.v, lower_in(l, n, 2)));
    lower_set(l, n, 3, made.g);
    if (n->n_in == 7) lower_round(l, n, 4, new_p);
}

const lower_op lower_op_adamw = {.lower = adamw};

// --- accumulation groups
static void put_aside(lowering *l, const node *n) {
    const hlo_value g = lower_in(l, n, 0);
    lower_set(l, n, 0, hlo_cleared(&l->h, g, g));
    lower_set(l, n, 1, g);
}

static void take_back(lowering *l, const node *n) {
    const hlo_value slot = lower_in(l, n, 1);
    const hlo_value sum = hlo_binary(&l->h, "add", slot, lower_in(l, n, 0));
    lower_set(l, n, 0, sum);
    lower_set(l, n, 1, hlo_cleared(&l->h, slot, sum));
}

// These have no rules: lower.c refuses graphs with reduction blocks of the row, and nothing is
// asynchronous.
const lower_op lower_op_join_blocks = {.lower = NULL};
const lower_op lower_op_sum_shard = {.lower = NULL};
const lower_op lower_op_put_aside = {.lower = put_aside};
const lower_op lower_op_take_back = {.lower = take_back};
