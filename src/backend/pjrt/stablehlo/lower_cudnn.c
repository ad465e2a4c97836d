// Prints attention as calls of cuDNN's fused kernels, by the names under which XLA knows them on
// CUDA: no loop, no scores in memory, products on tensor cores. This works for whole rows in bf16;
// others are computed by blocks (lower_attention.c).
//
// backend/cudnn_attention.h chooses the form of a node's call.
//
// Legend: R rows of S tokens, H query heads, K key-value heads, D head_dim, M segments of a row, N
// = R S. cuDNN itself groups query heads if there are fewer key-value heads.
#include "backend/pjrt/stablehlo/lower_cudnn.h"

#include "backend/pjrt/stablehlo/cudnn_call.h"
#include "backend/pjrt/stablehlo/lower_documents.h"

typedef struct fused_call {
    lowering *l;
    cudnn_call call; // seq includes the padding of a masked row
    document_rows of;
} fused_call;

// Inputs: of_position; if there is one, the next: hidden.
static fused_call open_call(lowering *l, const node *n, const tensor *qkv, int of_position) {
    const op_attrs *attrs = &n->attrs;
    const int64_t rows = qkv->dim[0] / attrs->attention.seq;
    fused_call c = {.l = l,
            .call = {.rows = rows,
                    .seq = attrs->attention.seq,
                    .heads = attrs->heads.n_heads,
                    .kv_heads = attrs->heads.n_kv_heads,
                    .d = attrs->heads.head_dim,
                    .deterministic = l->options.cudnn.deterministic},
            .of = {.position = n->in[of_position],
                    .hidden = n->n_in > of_position + 1 ? n->in[of_position + 1] : NULL,
                    .rows = rows,
                    .seq = attrs->attention.seq,
                    .padded = attrs->attention.seq,
                    .window = attrs->attention.window,
                    .n_segments = attrs->attention.documents}};
    switch (cudnn_form_of(&l->options.cudnn, n)) {
    case CUDNN_SEGMENTS:
        c.call.segments = attrs->attention.documents;
        break;
    case CUDNN_MASK:
        c.call.masked = true;
        c.of.n_segments = 0;
        c.call.seq = c.of.padded = cudnn_mask_tokens(attrs->attention.seq);
        break;
    default:
        c.call.window = attrs->attention.window;
    }
    return c;
}

// --- heads
// Takes heads [first, first + n) of [N, C]: [R, S, n, D].
static hlo_value take_heads(const fused_call *c, hlo_value x, int64_t first, int64_t n) {
    hlo_text *h = &c->l->h;
    const int64_t d = c->call.d;
    x = hlo_slice(h, x, 1, first * d, n * d);
    return hlo_pad(h, hlo_reshape(h, x, HLO_DIMS(c->call.rows, c->of.seq, n, d)), 1, c->call.seq);
}

// [R, n, S, D] -> [N, n D]
static hlo_value join_heads(const fused_call *c, hlo_value x) {
    static const int64_t order[] = {0, 2, 1, 3};
    hlo_text *h = &c->l->h;
    const int64_t n = x.dim[1];
    x = hlo_slice(h, hlo_transpose(h, x, order), 1, 0, c->of.seq);
    return hlo_reshape(h, x, HLO_DIMS(c->call.rows * c->of.seq, n * c->call.d));
}

static void take_qkv(const fused_call *c, hlo_value qkv, hlo_value out[3]) {
    const int64_t heads = c->call.heads, kv = c->call.kv_heads;
    out[0] = take_heads(c, qkv, 0, heads);
    out[1] = take_heads(c, qkv, heads, kv);
    out[2] = take_heads(c, qkv, heads + kv, kv);
}

static hlo_value of_heads(const fused_call *c, hlo_type type, int64_t n) {
    return (hlo_value){.type = type, .n_dims = 4, .dim = {c->call.rows, n, c->call.seq, c->call.d}};
}

// --- operands of segments
// Converts first tokens to numbers of elements before them, for a tensor with n heads.
static hlo_value offsets(const fused_call *c, hlo_value first, int64_t n) {
    hlo_text *h = &c->l->h;
    return hlo_reshape(h, hlo_scale(h, first, (double)(n * c->call.d)),
            HLO_DIMS(c->call.rows, c->call.segments + 1));
}

// Appends them to n operands; returns the new number. Offsets of keys count their own heads; JAX
// counts the heads of queries, so that grouped heads would read the wrong keys.
static int add_segments(const fused_call *c, hlo_value *in, int n) {
    if (!c->call.segments) return n;
    const segment_table *table = lower_segments(c->l, &c->of);
    in[n++] = table->length;
    in[n++] = table->length;
    in[n++] = offsets(c, table->first, c->call.heads);
    in[n++] = offsets(c, table->first, c->call.kv_heads);
    return n;
}

// --- log-sum-exp: [H, N] between the calls
static const int64_t swap_first[] = {1, 0, 2};

static hlo_value statistics_like(const fused_call *c, hlo_type type) {
    const int64_t rows = c->call.rows * (c->call.segments ? c->call.segments : 1);
    return (hlo_value){.type = type, .n_dims = 3, .dim = {rows, c->call.heads, c->call.seq}};
}

// Takes elements of x, of any dims, by their flat index.
static hlo_value pick(hlo_text *h, hlo_value x, hlo_value number) {
    const int64_t n = hlo_elements(&number);
    const hlo_value table = hlo_reshape(h, x, HLO_DIMS(hlo_elements(&x), 1)),
                    taken = hlo_gather_rows(h, table, hlo_reshape(h, number, 1, &n));
    return hlo_reshape(h, taken, number.n_dims, number.dim);
}

// [R M, H, S] -> [H, N]: token t of segment m is at (m H + head) S + t.
static hlo_value out_of_segments(const fused_call *c, hlo_value x) {
    hlo_text *h = &c->l->h;
    const segment_table *table = lower_segments(c->l, &c->of);
    const int64_t n = c->call.rows * c->call.seq, heads = c->call.heads;
    const hlo_value head = hlo_iota(h, HLO_I32, HLO_DIMS(heads, n), 0);
    const hlo_value segment = hlo_scale(h, hlo_along(h, table->segment, &head, 1), (double)heads);
    const hlo_value row = hlo_scale(h, hlo_binary(h, "add", segment, head), (double)c->call.seq);
    return pick(h, x, hlo_binary(h, "add", row, hlo_along(h, table->place, &head, 1)));
}

// [H, N] -> [R M, H, S]; elements after the end of a segment are arbitrary.
static hlo_value into_segments(const fused_call *c, hlo_value x) {
    hlo_text *h = &c->l->h;
    const segment_table *table = lower_segments(c->l, &c->of);
    const int64_t n = c->call.rows * c->call.seq;
    hlo_value like = statistics_like(c, HLO_I32);
    const hlo_value place = hlo_iota(h, HLO_I32, like.n_dims, like.dim, 2),
                    head = hlo_iota(h, HLO_I32, like.n_dims, like.dim, 1),
                    first = hlo_along(h, hlo_slice(h, table->first, 0, 0, like.dim[0]), &place, 0);
    const hlo_value token = hlo_binary(h, "minimum", hlo_binary(h, "add", first, place),
            hlo_fill(h, (double)n - 1, &place));
    return pick(h, x, hlo_binary(h, "add", hlo_scale(h, head, (double)n), token));
}

static hlo_value keep_statistics(const fused_call *c, hlo_value x) {
    hlo_text *h = &c->l->h;
    if (c->call.segments) return out_of_segments(c, x);
    x = hlo_slice(h, hlo_transpose(h, x, swap_first), 2, 0, c->of.seq);
    return hlo_reshape(h, x, HLO_DIMS(c->call.heads, c->call.rows * c->of.seq));
}

static hlo_value give_statistics(const fused_call *c, hlo_value x) {
    hlo_text *h = &c->l->h;
    if (c->call.segments) return into_segments(c, x);
    x = hlo_reshape(h, x, HLO_DIMS(c->call.heads, c->call.rows, c->of.seq));
    return hlo_pad(h, hlo_transpose(h, x, swap_first), 2, c->call.seq);
}

// --- the nodes
enum { MAX_OPERANDS = 11 };

// inputs: qkv, position[, hidden]
void lower_cudnn_attention(lowering *l, const node *n) {
    const fused_call c = open_call(l, n, n->in[0], 1);
    int n_in = 3;
    hlo_value in[MAX_OPERANDS], out[] = {of_heads(&c, lower_type(l, n->in[0]->dt), c.call.heads),
                                        statistics_like(&c, lower_acc(l, n->in[0]))};
    take_qkv(&c, lower_in(l, n, 0), in);
    if (c.call.masked) in[n_in++] = lower_mask(l, &c.of);
    n_in = add_segments(&c, in, n_in);
    cudnn_put_call(&l->h, &c.call, false, in, n_in, out, 2);
    lower_set(l, n, 0, join_heads(&c, out[0]));
    lower_set(l, n, 1, keep_statistics(&c, out[1]));
}

// inputs: do, qkv, o, lse, position[, hidden]
void lower_cudnn_attention_grad(lowering *l, const node *n) {
    const fused_call c = open_call(l, n, n->in[1], 4);
    const hlo_type type = lower_type(l, n->in[1]->dt);
    int n_in = 3;
    hlo_value in[MAX_OPERANDS],
            out[] = {of_heads(&c, type, c.call.heads), of_heads(&c, type, c.call.kv_heads),
                    of_heads(&c, type, c.call.kv_heads)};
    take_qkv(&c, lower_in(l, n, 1), in);
    in[n_in++] = give_statistics(&c, lower_in(l, n, 3));
    in[n_in++] = take_heads(&c, lower_in(l, n, 0), 0, c.call.heads);
    if (c.call.masked) in[n_in++] = lower_mask(l, &c.of);
    in[n_in++] = take_heads(&c, lower_in(l, n, 2), 0, c.call.heads);
    n_in = add_segments(&c, in, n_in);
    cudnn_put_call(&l->h, &c.call, true, in, n_in, out, 3);
    for (int i = 0; i < 3; i++)
        out[i] = join_heads(&c, out[i]);
    lower_round(l, n, 0, hlo_concat(&l->h, out, 3, 1)); // a wider type if ranks add their parts
}
