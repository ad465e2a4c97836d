// Prints linear_cross_entropy and its gradient in chunks of rows, as on the CPU, so that no tokens
// x vocabulary matrix is stored.
// Legend: e exponentials of a chunk of logits.
#include "backend/pjrt/stablehlo/lower_collective.h"
#include "base/round.h"

#include <string.h>

// The values that a chunk passes to the next, in the order of the outputs: the loss, then the loss
// of each token or the wanted gradients.
enum { LOSS, TOKENS, MAX_CARRIED = 3 };

typedef struct loss_call {
    lowering *l;
    const node *n;
    hlo_value h, w, labels; // padded to whole chunks; padding has the label -1
    hlo_value scale; // of the gradient: dloss in the accumulation type, a scalar, or of each token
    bool grad;
    int dh, dw; // indices among the carried values; 0: not wanted
    int n_carried;
} loss_call;

// Returns the gradient of the logits of rows from `first` on: scale (softmax - onehot), zero in
// rows that do not count.
static hlo_value logits_grad(const loss_call *c, hlo_index first, hlo_value logits, hlo_value lse,
        hlo_value hit, hlo_value counts) {
    hlo_text *h = &c->l->h;
    const hlo_value softmax = hlo_unary(h, "exponential",
            hlo_binary(h, "subtract", logits, hlo_along(h, lse, &logits, 0)));
    const hlo_value off = hlo_binary(h, "subtract", softmax, hlo_convert(h, hit, logits.type));
    const hlo_value scale = c->scale.n_dims ? hlo_take(h, c->scale, 0, first, lse.dim[0])
                                            : hlo_spread(h, c->scale, &lse);
    const hlo_value row_scale = hlo_select(h, counts, scale, hlo_fill(h, 0, &lse));
    return hlo_convert(h, hlo_binary(h, "multiply", off, hlo_along(h, row_scale, &logits, 0)),
            c->h.type);
}

// Returns the loss of each row, 0 for rows that do not count.
static hlo_value row_losses(hlo_text *h, hlo_value lse, hlo_value own, hlo_value counts,
        hlo_type type) {
    const hlo_value row =
            hlo_select(h, counts, hlo_binary(h, "subtract", lse, own), hlo_fill(h, 0, &lse));
    return hlo_convert(h, row, type);
}

// --- a vocabulary that is split over ranks: `w` is this rank's part of its rows
static hlo_value over_ranks(const loss_call *c, hlo_value x, bool max) {
    const unsigned axes = 1u << c->n->attrs.mesh.axis;
    if (c->n->attrs.mesh.ranks <= 1) return x;
    return max ? lower_max_along(c->l, x, axes) : lower_sum_along(c->l, x, axes);
}

// Returns the columns of labels in this rank's part; labels of other ranks are outside it.
static hlo_value column_of(const loss_call *c, hlo_value labels) {
    hlo_value is_here;
    if (c->n->attrs.mesh.ranks <= 1) return labels;
    return lower_rows_here(c->l, c->n, labels, c->w.dim[0], &is_here);
}

static int64_t rows_of_chunk(const node *n) {
    const int64_t rows = n->in[0]->dim[0];
    return n->attrs.vocabulary.chunk < rows ? n->attrs.vocabulary.chunk : rows;
}

// Makes the rows of a chunk wait for the results of the previous one. Chunks that are not a loop
// have nothing else that keeps a compiler from computing all logits first.
static hlo_value rows_after(const loss_call *c, hlo_index iteration, hlo_value x,
        hlo_value *carried) {
    hlo_value all[1 + MAX_CARRIED] = {x};
    if (iteration.moves || iteration.fixed == 0) return x;
    memcpy(all + 1, carried, sizeof *carried * (size_t)c->n_carried);
    hlo_barrier_all(&c->l->h, all, 1 + c->n_carried);
    memcpy(carried, all + 1, sizeof *carried * (size_t)c->n_carried);
    return all[0];
}

static void chunk(hlo_text *h, void *ctx, hlo_index iteration, hlo_value *carried) {
    const loss_call *c = ctx;
    static const int64_t columns[] = {1};
    const int64_t rows = rows_of_chunk(c->n);
    const hlo_index first = hlo_index_times(h, iteration, rows);
    const hlo_value x = rows_after(c, iteration, hlo_take(h, c->h, 0, first, rows), carried),
                    label = hlo_take(h, c->labels, 0, first, rows);
    const hlo_value logits = hlo_dot(h, x, c->w, 1, 1, lower_acc(c->l, c->n->in[0]));
    const hlo_value max = over_ranks(c, hlo_reduce(h, "maximum", logits, 1, columns), true);
    const hlo_value e = hlo_unary(h, "exponential",
            hlo_binary(h, "subtract", logits, hlo_along(h, max, &logits, 0)));
    const hlo_value column = hlo_iota(h, HLO_I32, 2, logits.dim, 1);
    const hlo_value hit =
            hlo_compare(h, "EQ", column, hlo_along(h, column_of(c, label), &column, 0));
    // Each row's sum of exponentials, and the logit of its label, which one rank has.
    const hlo_value sums[] = {hlo_reduce(h, "add", e, 1, columns),
            hlo_reduce(h, "add", hlo_select(h, hit, logits, hlo_fill(h, 0, &logits)), 1, columns)};
    const hlo_value both = over_ranks(c, hlo_concat(h, sums, 2, 0), false);
    const hlo_value lse =
            hlo_binary(h, "add", max, hlo_unary(h, "log", hlo_slice(h, both, 0, 0, rows)));
    const hlo_value own = hlo_slice(h, both, 0, rows, rows);
    const hlo_value counts = hlo_compare(h, "GE", label, hlo_fill(h, 0, &label));
    const hlo_value row = row_losses(h, lse, own, counts, carried[LOSS].type);
    carried[LOSS] = hlo_binary(h, "add", carried[LOSS], hlo_reduce_all(h, "add", row));
    if (!c->grad) {
        carried[TOKENS] = hlo_put(h, carried[TOKENS], row, 0, first);
        return;
    }
    const hlo_value d = logits_grad(c, first, logits, lse, hit, counts);
    if (c->dh)
        carried[c->dh] = hlo_put(h, carried[c->dh], hlo_dot(h, d, c->w, 1, 0, carried[c->dh].type),
                0, first);
    if (c->dw)
        carried[c->dw] =
                hlo_binary(h, "add", carried[c->dw], hlo_dot(h, d, x, 0, 0, carried[c->dw].type));
}

// Returns the bytes of a chunk of logits, and of their gradient in the compute type.
int64_t lowered_workspace(const node *n) {
    const bool grad = n->op == OP_linear_cross_entropy_grad;
    if (!grad && n->op != OP_linear_cross_entropy) return 0;
    const dtype dt = n->in[0]->dt;
    return rows_of_chunk(n) * n->in[1]->dim[0] *
           (dtype_bytes(dtype_acc(dt)) + (grad ? dtype_bytes(dt) : 0));
}

// inputs: h, w, labels[, dloss[, acc]]; outputs: loss[, dh][, acc']
static void loss(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const bool grad = n->op == OP_linear_cross_entropy_grad;
    hlo_value carried[MAX_CARRIED], x = lower_in(l, n, 0), labels = lower_in(l, n, 2);
    const int64_t rows = x.dim[0], size = rows_of_chunk(n), n_chunks = div_up(rows, size);
    loss_call c = {.l = l, .n = n, .w = lower_in(l, n, 1), .grad = grad};
    int n_carried = 0;
    c.h = hlo_pad(h, x, 0, n_chunks * size);
    // Padding gets the label -1: labels are padded with 0 after 1 is added to them.
    if (rows < n_chunks * size) {
        const hlo_value up = hlo_binary(h, "add", labels, hlo_fill(h, 1, &labels));
        labels = hlo_pad(h, up, 0, n_chunks * size);
        labels = hlo_binary(h, "subtract", labels, hlo_fill(h, 1, &labels));
    }
    c.labels = labels;
    carried[n_carried++] = hlo_scalar(h, lower_type(l, DT_F64), 0);
    if (grad) {
        const hlo_value dloss = hlo_convert(h, lower_in(l, n, 3), lower_acc(l, n->in[0]));
        const bool of_tokens = n->in[3]->dim[0] == rows && rows > 1;
        c.scale =
                of_tokens ? hlo_pad(h, dloss, 0, n_chunks * size) : hlo_reshape(h, dloss, 0, NULL);
        hlo_value like = c.h;
        if (n->attrs.sum.dx_wide) like.type = lower_acc(l, n->in[0]);
        if (!n->attrs.vocabulary.skip_dx) carried[c.dh = n_carried++] = hlo_fill(h, 0, &like);
        if (!n->attrs.vocabulary.skip_dw) carried[c.dw = n_carried++] = lower_in(l, n, 4);
    }
    if (!grad) {
        const hlo_value like = {.type = carried[LOSS].type, .n_dims = 1, .dim = {c.h.dim[0]}};
        carried[n_carried++] = hlo_fill(h, 0, &like);
    }
    c.n_carried = n_carried;
    hlo_repeat(h, (int)n_chunks, carried, n_carried, chunk, &c);
    if (!grad) carried[TOKENS] = hlo_slice(h, carried[TOKENS], 0, 0, rows);
    if (c.dh) carried[c.dh] = hlo_slice(h, carried[c.dh], 0, 0, rows);
    carried[LOSS] = hlo_reshape(h, carried[LOSS], HLO_DIMS(1));
    for (int o = 0; o < n_carried; o++)
        lower_set(l, n, o, carried[o]);
}

const lower_op lower_op_linear_cross_entropy = {.lower = loss, .vocabulary = 2};
const lower_op lower_op_linear_cross_entropy_grad = {.lower = loss};
