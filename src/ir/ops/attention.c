// Causal attention with grouped query heads, by blocks with an online softmax (FlashAttention-2,
// arXiv:2307.08691, algorithms 1 and 2): only the output and the log-sum-exp are kept.
// qkv_NC holds, for each token, n_heads query heads, n_kv_heads key heads, n_kv_heads value heads.
// N = rows * seq; token t of a row sees tokens t - position[t] .. t of the same row, so position
// (counted from the start of the document) is also the document mask. Scale: 1/sqrt(head_dim).
// `causal` says that every row is one document, so position[t] is t and a back end need not look.
// `documents`: the largest number of documents in a row. `window`: the largest number of tokens
// that a token sees, the last ones up to itself. `hidden` (i32 [2 N], optional, excludes `causal`)
// is for rows in which several continuations of one beginning follow each other: tokens hidden[2 t]
// .. hidden[2 t + 1] of the row belong to other continuations, so token t does not see them, and
// position does not count them.
//
// With `ranks` each rank has seq tokens of rows of ranks * seq tokens, divided in zigzag
// (ir/zigzag.h): keys and values go around a ring (arXiv:2310.01889), and their gradients return to
// their owner in the backward pass. position still counts from the start of the document, wherever
// that lies.
//
// `blocks`: the number of equal reduction blocks into which sums over the query heads of a group
// are divided; a tree adds them. `wide`: other ranks have more of these blocks, so dqkv is in the
// accumulation type (ir/ops/kv_heads.c). `replicas`, of rows that ranks share: the number of tensor
// ranks that have reduction blocks of the one key-value head that is here. The op itself adds these
// blocks, because the sum over the row comes after them.
#include "ir/grad.h"
#include "ir/wire.h"
#include "ir/zigzag.h"

// Returns input k; NULL: it was left out.
static tensor *hidden_of(const node *n, int k) {
    return n->n_in > k ? n->in[k] : NULL;
}

static const char *check_hidden(const tensor *qkv, const tensor *hidden, const op_attrs *attrs) {
    if (!hidden) return NULL;
    if (attrs->attention.causal) return "rows of one document hide nothing";
    return is_i32(hidden, 2 * qkv->dim[0]) ? NULL : "hidden must be i32[2 N]";
}

static const char *check(const tensor *qkv, const tensor *position, const tensor *hidden,
        const op_attrs *attrs) {
    if (!is_matrix(qkv)) return "qkv must be a matrix";
    if (attrs->heads.n_kv_heads < 1 || attrs->heads.n_heads % attrs->heads.n_kv_heads)
        return "kv_heads must divide heads";
    if (qkv->dim[1] !=
            (int64_t)(attrs->heads.n_heads + 2 * attrs->heads.n_kv_heads) * attrs->heads.head_dim)
        return "qkv has not (heads + 2 kv_heads) * head_dim columns";
    if (attrs->attention.window < 0) return "a window must not be negative";
    if (attrs->attention.seq < 1 || qkv->dim[0] % attrs->attention.seq)
        return "seq must divide the tokens";
    const bool cut = attrs->mesh.ranks > 1 || attrs->sum.row_blocks > 1;
    const int row_blocks = attrs->sum.row_blocks > 1 ? attrs->sum.row_blocks : 1;
    if (cut && qkv->dt == DT_F64) return "rows that are cut are f32 or bf16";
    if (row_blocks & (row_blocks - 1)) return "row_blocks must be a power of two";
    if (cut && attrs->attention.seq % (ZIGZAG_HALVES * row_blocks))
        return "seq must divide into chunks";
    if (attrs->mesh.replicas > 1 &&
            (!cut || attrs->heads.n_kv_heads != 1 || attrs->heads.head_dim % attrs->mesh.replicas))
        return "replicas must divide the one key-value head of rows that are cut";
    if (!is_i32(position, qkv->dim[0])) return "position must be i32[N]";
    if (attrs->sum.blocks < 0 ||
            (attrs->sum.blocks &&
                    attrs->heads.n_heads / attrs->heads.n_kv_heads % attrs->sum.blocks))
        return "reduction blocks must divide the query heads of a group";
    return check_hidden(qkv, hidden, attrs);
}

static const char *shape(const node *n, tensor_spec *out) {
    const tensor *qkv = n->in[0];
    out[0] = spec_2d(qkv->dt, qkv->dim[0],
            (int64_t)n->attrs.heads.n_heads * n->attrs.heads.head_dim);
    out[1] = spec_2d(dtype_acc(qkv->dt), n->attrs.heads.n_heads, qkv->dim[0]);
    return check(qkv, n->in[1], hidden_of(n, 2), &n->attrs);
}

static int ranks_of(const node *n) {
    return n->attrs.mesh.ranks > 1 ? n->attrs.mesh.ranks : 1;
}

static int replicas_of(const node *n) {
    return n->attrs.mesh.replicas > 1 ? n->attrs.mesh.replicas : 1;
}

// Returns how many tokens of its row a token sees on average: with a window of w, they see 1, 2, ..
// w, w, .. tokens.
static double seen(const node *n) {
    const double row = (double)n->attrs.attention.seq * ranks_of(n), w = n->attrs.attention.window;
    return w == 0 || w >= row ? (row + 1) / 2 : w * (1 - (w - 1) / (2 * row));
}

// Two products.
static double flops(const node *n) {
    return 4.0 * (double)n->in[0]->dim[0] * n->attrs.heads.n_heads * n->attrs.heads.head_dim *
           seen(n);
}

// Returns the number of elements of keys and values.
static double kv_numbers(const node *n, const tensor *qkv) {
    return 2.0 * (double)qkv->dim[0] * n->attrs.heads.n_kv_heads * n->attrs.heads.head_dim;
}

static double wire(const node *n) {
    return wire_gather(kv_numbers(n, n->in[0]) * (double)dtype_bytes(n->in[0]->dt), ranks_of(n));
}

static void grad(grad_ctx *ctx, node *n) {
    tensor *in[] = {grad_of(ctx, n->out[0]), n->in[0], n->out[0], n->out[1], n->in[1],
            hidden_of(n, 2)};
    node *made = graph_add(ctx->g, OP_attention_grad, in[5] ? 6 : 5, in, &n->attrs);
    grad_add(ctx, n->in[0], made->out[0]);
}

static const int32_t example_positions[10] = {0, 1, 2, 0, 1, 0, 1, 2, 0, 1};
// A row of two tokens and three continuations; one of a continuation alone, then a document.
static const int32_t continued_positions[14] = {0, 1, 2, 3, 2, 2, 3, 0, 1, 1, 2, 0, 1, 2};
static const int32_t continued_hidden[28] = {[8] = 2, 4, 2, 5, 2, 5, [18] = 1, 2, 1, 2};

static const op_attr row_attrs[] = {ATTR(heads, n_heads), ATTR(heads, n_kv_heads),
        ATTR(heads, head_dim), ATTR(attention, seq), ATTR(attention, causal),
        ATTR(attention, documents), ATTR(attention, window), ATTR(attention, all_heads), ATTR_RANKS,
        ATTR(mesh, replicas), ATTR(sum, row_blocks), ATTR(sum, blocks), ATTR(sum, wide), {0}};

#define EXAMPLE_HEADS .heads = {4, 2, 6}
#define IN_ROWS(in)   in("qkv", 10, 48), IN_INTEGERS("position", 10, example_positions)
#define IN_CONTINUATIONS(in)                                                                       \
    in("qkv", 14, 48), IN_INTEGERS("position", 14, continued_positions),                           \
            IN_INTEGERS("hidden", 28, continued_hidden)
static const example_case examples[] = {{.in = {IN_ROWS(IN_ACTIVATION)},
                                                .attrs = {EXAMPLE_HEADS, .attention.seq = 5}},
        {.in = {IN_ROWS(IN_ACTIVATION)},
                .attrs = {EXAMPLE_HEADS, .attention = {.seq = 5, .window = 2}}},
        {.in = {IN_CONTINUATIONS(IN_ACTIVATION)}, .attrs = {EXAMPLE_HEADS, .attention.seq = 7}},
        // A window of two tokens: within a continuation, and across what is hidden from it.
        {.in = {IN_CONTINUATIONS(IN_ACTIVATION)},
                .attrs = {EXAMPLE_HEADS, .attention = {.seq = 7, .window = 2}}},
        {0}};

const op_row op_row_attention = {
        .n_in = 2,
        .max_in = 3,
        .shape = shape,
        .grad = grad,
        .flops = flops,
        .flops_of = FLOPS_ATTENTION,
        .wire = wire,
        .built = true,
        .attrs = row_attrs,
        .n_statistics = 1,
        .cheap = true,
        .examples = examples,
};

// attention_grad(do, qkv, o, lse, position[, hidden]) -> dqkv
static const char *grad_shape(const node *n, tensor_spec *out) {
    const tensor *d_o = n->in[0], *qkv = n->in[1], *o = n->in[2];
    out[0] = spec_like(qkv);
    if (n->attrs.sum.wide) out[0].dt = dtype_acc(qkv->dt);
    if (!same_type(d_o, o) || o->dt != qkv->dt) return "do and o differ";
    return check(qkv, n->in[4], hidden_of(n, 5), &n->attrs);
}

// Five products where the forward pass has two; the one that recomputes the scores does not count.
static double grad_flops(const node *n) {
    return 8.0 * (double)n->in[1]->dim[0] * n->attrs.heads.n_heads * n->attrs.heads.head_dim *
           seen(n);
}

// Gradients of keys and values come back in the accumulation type; each replica sends one run of
// them.
static double grad_wire(const node *n) {
    const dtype dt = n->in[1]->dt;
    const double back = (double)dtype_bytes(dtype_acc(dt)) / replicas_of(n);
    return wire_gather(kv_numbers(n, n->in[1]) * ((double)dtype_bytes(dt) + back), ranks_of(n));
}

// For each pair of reduction blocks, of keys in the row and of queries here, every replica gets a
// run of the sums. In the end all replicas get all runs, rounded.
static double grad_wire_replicas(const node *n) {
    const dtype dt = n->in[1]->dt;
    const int replicas = replicas_of(n),
              row_blocks = n->attrs.sum.row_blocks > 1 ? n->attrs.sum.row_blocks : 1;
    const double numbers = kv_numbers(n, n->in[1]);
    return ranks_of(n) * row_blocks *
                   wire_scatter(numbers * (double)dtype_bytes(dtype_acc(dt)), replicas) +
           wire_gather(numbers / replicas * (double)dtype_bytes(dt), replicas);
}

// The inputs are do and those of attention.
static void make_grad(example *e, int n_in, tensor *const *in, op_attrs attrs) {
    const op_attrs forward = {.heads = attrs.heads, .attention = attrs.attention};
    const node *made = graph_add(e->g, OP_attention, n_in - 1, in + 1, &forward);
    tensor *all[] = {in[0], in[1], made->out[0], made->out[1], in[2], n_in > 3 ? in[3] : NULL};
    graph_add(e->g, OP_attention_grad, n_in + 2, all, &attrs);
}

#define GRAD(...) .attrs = {EXAMPLE_HEADS, __VA_ARGS__}, .make = make_grad
static const example_case grad_examples[] = {{.in = {IN_GIVEN("do", 10, 24), IN_ROWS(IN_GIVEN)},
                                                     GRAD(.attention.seq = 5)},
        {.in = {IN_GIVEN("do", 10, 24), IN_ROWS(IN_GIVEN)},
                GRAD(.attention = {.seq = 5, .window = 2})},
        {.in = {IN_GIVEN("do", 10, 24), IN_ROWS(IN_GIVEN)},
                GRAD(.attention.seq = 5, .sum = {.blocks = 2, .wide = 1})},
        {.in = {IN_GIVEN("do", 14, 24), IN_CONTINUATIONS(IN_GIVEN)}, GRAD(.attention.seq = 7)},
        {0}};

const op_row op_row_attention_grad = {
        .n_in = 5,
        .max_in = 6,
        .shape = grad_shape,
        .flops = grad_flops,
        .flops_of = FLOPS_ATTENTION,
        .wire = grad_wire,
        .wire_replicas = grad_wire_replicas,
        .attrs = row_attrs,
        .examples = grad_examples,
};

// cached_attention(qkv_NC, keys, values, position_N) -> o, keys', values': appends the N tokens of
// one sequence to the caches [n_kv_heads, capacity, head_dim] at their positions, which count up,
// and attends to all that is cached up to each.
static const char *cached_shape(const node *n, tensor_spec *out) {
    const tensor *qkv = n->in[0], *k = n->in[1];
    out[0] = spec_2d(qkv->dt, qkv->dim[0],
            (int64_t)n->attrs.heads.n_heads * n->attrs.heads.head_dim);
    out[1] = spec_in_place(n, 1);
    out[2] = spec_in_place(n, 2);
    if (k->n_dims != 3 || k->dim[0] != n->attrs.heads.n_kv_heads ||
            k->dim[2] != n->attrs.heads.head_dim || !same_type(k, n->in[2]) || k->dt != qkv->dt)
        return "the caches must be [kv_heads, capacity, head_dim]";
    return check(qkv, n->in[3], NULL, &n->attrs);
}

// Some tokens after the four that the caches hold.
static const int32_t cached_positions[3] = {4, 5, 6};
#define CACHED(n, ...)                                                                             \
    {                                                                                              \
        .in = {IN_GIVEN("qkv", n, 48),                                                             \
                IN_STATE(TENSOR_CACHE, EXAMPLE_OWN, -1, 1, "keys", 2, 9, 6),                       \
                IN_STATE(TENSOR_CACHE, EXAMPLE_OWN, -1, 1, "values", 2, 9, 6),                     \
                IN_INTEGERS("position", n, cached_positions)},                                     \
        .attrs =                                                                                   \
        { EXAMPLE_HEADS,                                                                           \
            .attention = {.seq = n, __VA_ARGS__} }                                                 \
    }
static const example_case cached_examples[] = {CACHED(3, .window = 0), CACHED(3, .window = 3),
        CACHED(1, .window = 3), {0}};

const op_row op_row_cached_attention = {
        .n_in = 4,
        .shape = cached_shape,
        .flops = flops,
        .flops_of = FLOPS_ATTENTION,
        .built = true,
        .attrs = ATTRS(ATTR(heads, n_heads), ATTR(heads, n_kv_heads), ATTR(heads, head_dim),
                ATTR(attention, seq), ATTR(attention, window), ATTR(attention, all_heads)),
        .examples = cached_examples,
};
