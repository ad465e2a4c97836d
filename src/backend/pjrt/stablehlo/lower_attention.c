// Attention and its gradient by blocks of queries and keys with an online softmax
// (FlashAttention-2, arXiv:2307.08691): no tokens x tokens matrix of a long row is stored, and
// pairs of blocks above the diagonal are not computed. A row of one block is computed at once.
//
// Legend: R rows of S tokens (S padded to whole blocks), K key heads with G query heads each, D
// head_dim. Heads of all rows are the batches of products: q is [R K, G S, D], k and v are [R K, S,
// D]. One loop runs over the pairs of blocks (i, j), j <= i, whose indices come from two tables, so
// its number of iterations is fixed. G query heads are processed together: [R K, G, S, D] before a
// cut.
#include "backend/pjrt/stablehlo/lower_attention.h"
#include "backend/pjrt/stablehlo/lower_cudnn.h"
#include "backend/pjrt/stablehlo/lower_documents.h"

#include <math.h>

#include "base/round.h"
#include "ir/zigzag.h"

enum { DEFAULT_BLOCK = 512 };
static const double NEVER = -1e30; // a score that is not attended; finite, so that differences are

// Returns the first block of keys that queries of block i see: that of their window. A chunk of a
// row sees keys of other chunks, too.
static int first_key_block(const attention_call *c, int i) {
    const int64_t first = i * c->block - c->window + 1;
    return c->window && c->n_chunks == 1 && first > 0 ? (int)(first / c->block) : 0;
}

static attention_call open_call(lowering *l, const node *n, const tensor *qkv) {
    const op_attrs *attrs = &n->attrs;
    attention_call c = {.l = l,
            .seq = attrs->attention.seq,
            .rows = qkv->dim[0] / attrs->attention.seq,
            .n_heads = attrs->heads.n_heads,
            .n_kv = attrs->heads.n_kv_heads,
            .group = attrs->heads.n_heads / attrs->heads.n_kv_heads,
            .d = attrs->heads.head_dim,
            .dt = lower_type(l, qkv->dt),
            .acc = lower_acc(l, qkv),
            .n_chunks = attrs->mesh.ranks > 1 ? ZIGZAG_HALVES : 1,
            .scale = 1 / sqrt((double)attrs->heads.head_dim),
            .window = attrs->attention.window};
    const int64_t chunk = c.seq / c.n_chunks;
    const int64_t most = l->options.attention_block ? l->options.attention_block : DEFAULT_BLOCK;
    c.n_blocks = (int)div_up(chunk, most);
    c.block = div_up(chunk, c.n_blocks);
    c.padded = c.n_chunks * c.n_blocks * c.block;
    c.query_block = ARENA_ARRAY(l->g->a, int64_t, c.n_blocks * (c.n_blocks + 1) / 2);
    c.key_block = ARENA_ARRAY(l->g->a, int64_t, c.n_blocks * (c.n_blocks + 1) / 2);
    for (int i = 0; i < c.n_blocks; i++)
        for (int j = first_key_block(&c, i); j <= i; j++) {
            c.query_block[c.n_pairs] = i;
            c.key_block[c.n_pairs++] = j;
        }
    return c;
}

// --- cutting [N, columns] into heads and joining them
// Pads each chunk of a row along the dim of its tokens.
static hlo_value pad_tokens(const attention_call *c, hlo_value x, int dim) {
    hlo_text *h = &c->l->h;
    hlo_value cut = x;
    if (c->n_chunks == 1 || c->padded == c->seq) return hlo_pad(h, x, dim, c->padded);
    for (int i = cut.n_dims++; i > dim; i--)
        cut.dim[i] = cut.dim[i - 1];
    cut.dim[dim] = c->n_chunks;
    cut.dim[dim + 1] = c->seq / c->n_chunks;
    cut = hlo_reshape(h, x, cut.n_dims, cut.dim);
    x.dim[dim] = c->padded;
    return hlo_reshape(h, hlo_pad(h, cut, dim + 1, c->padded / c->n_chunks), x.n_dims, x.dim);
}

// Removes that padding.
static hlo_value drop_padding(const attention_call *c, hlo_value x, int dim) {
    hlo_text *h = &c->l->h;
    hlo_value chunk[ZIGZAG_HALVES];
    const int64_t padded = c->padded / c->n_chunks;
    for (int i = 0; i < c->n_chunks; i++)
        chunk[i] = hlo_slice(h, x, dim, i * padded, c->seq / c->n_chunks);
    return c->n_chunks == 1 ? chunk[0] : hlo_concat(h, chunk, c->n_chunks, dim);
}

// Takes heads [first, first + heads) of [N, C] as [R heads/group, group, S, D]; group 1: keys,
// values.
static hlo_value cut_heads(const attention_call *c, hlo_value x, int64_t first, int64_t heads,
        int64_t group) {
    hlo_text *h = &c->l->h;
    static const int64_t order[] = {0, 2, 1, 3};
    x = hlo_slice(h, x, 1, first * c->d, heads * c->d);
    x = hlo_reshape(h, x, HLO_DIMS(c->rows, c->seq, heads, c->d));
    x = pad_tokens(c, hlo_transpose(h, x, order), 2);
    return hlo_reshape(h, x, HLO_DIMS(c->rows * heads / group, group, c->padded, c->d));
}

// Converts heads back to [N, heads D].
static hlo_value join_heads(const attention_call *c, hlo_value x, int64_t heads) {
    hlo_text *h = &c->l->h;
    static const int64_t order[] = {0, 2, 1, 3};
    x = hlo_reshape(h, x, HLO_DIMS(c->rows, heads, c->padded, c->d));
    x = hlo_transpose(h, drop_padding(c, x, 2), order);
    return hlo_reshape(h, x, HLO_DIMS(c->rows * c->seq, heads * c->d));
}

// Repeats a number of each token, [rows, S], for every head: [RK, G, S].
static hlo_value for_heads(const attention_call *c, hlo_value x) {
    hlo_text *h = &c->l->h;
    x = hlo_broadcast(h, x, HLO_DIMS(c->rows, c->n_kv, c->group, c->padded),
            (const int64_t[]){0, 3});
    return hlo_reshape(h, x, HLO_DIMS(c->rows * c->n_kv, c->group, c->padded));
}

// hidden: i32 [2 N]. Sets the ends of the hidden tokens of each token, [rows, padded].
static void cut_hidden(attention_call *c, hlo_value hidden, hlo_value end[2]) {
    hlo_text *h = &c->l->h;
    c->continuations = true;
    hidden = hlo_reshape(h, hidden, HLO_DIMS(c->rows, c->seq, 2));
    for (int i = 0; i < 2; i++) {
        end[i] = hlo_reshape(h, hlo_slice(h, hidden, 2, i, 1), HLO_DIMS(c->rows, c->seq));
        end[i] = pad_tokens(c, end[i], 1);
        c->hidden[i] = for_heads(c, end[i]);
    }
}

// Inputs: of_qkv; of_position; if there is one, the input after that: hidden.
static void cut_qkv(attention_call *c, const node *n, int of_qkv, int of_position) {
    hlo_text *h = &c->l->h;
    const hlo_value qkv = lower_in(c->l, n, of_qkv);
    hlo_value position = lower_in(c->l, n, of_position);
    const int64_t kv[] = {c->rows * c->n_kv, c->padded, c->d};
    c->q = cut_heads(c, qkv, 0, c->n_heads, c->group);
    c->k = hlo_reshape(h, cut_heads(c, qkv, c->n_heads, c->n_kv, 1), 3, kv);
    c->v = hlo_reshape(h, cut_heads(c, qkv, c->n_heads + c->n_kv, c->n_kv, 1), 3, kv);
    position = hlo_reshape(h, position, HLO_DIMS(c->rows, c->seq));
    position = pad_tokens(c, position, 1);
    const hlo_value token = c->numbered ? hlo_along(h, c->query, &position, 1)
                                        : hlo_iota(h, HLO_I32, 2, position.dim, 1);
    hlo_value end[2];
    if (n->n_in > of_position + 1) cut_hidden(c, lower_in(c->l, n, of_position + 1), end);
    c->first = for_heads(c,
            lower_first_seen(h, token, position, c->continuations ? end : NULL, c->window));
}

// --- a pair of blocks
typedef struct block_pair {
    hlo_index query, key;      // first tokens
    hlo_value q, k, v;         // [RK, G B, D], [RK, B, D]
    hlo_value scores, visible; // [RK, G, B, B']
} block_pair;

// [RK, G, S, D] -> [RK, G B, D] of one block of queries.
static hlo_value take_queries(const attention_call *c, hlo_value x, hlo_index first) {
    hlo_text *h = &c->l->h;
    x = hlo_take(h, x, 2, first, c->block);
    return hlo_reshape(h, x, HLO_DIMS(x.dim[0], c->group * c->block, c->d));
}

static hlo_value as_blocks(const attention_call *c, hlo_value x, int64_t last) {
    return hlo_reshape(&c->l->h, x, HLO_DIMS(x.dim[0], c->group, c->block, last));
}

// Repeats a number of each query, [RK, G, B], for every key.
static hlo_value beside(hlo_text *h, hlo_value x, const hlo_value *like) {
    static const int64_t dims[] = {0, 1, 2};
    return hlo_broadcast(h, x, like->n_dims, like->dim, dims);
}

static hlo_value numbers_from(hlo_text *h, const hlo_value *like, int along, hlo_index first) {
    const hlo_value count = hlo_iota(h, HLO_I32, like->n_dims, like->dim, along);
    return hlo_binary(h, "add", count, hlo_spread(h, hlo_index_value(h, first), like));
}

// Returns the first token of entry `iteration` in a table of blocks.
static hlo_index first_token(const attention_call *c, const int64_t *blocks, hlo_index iteration) {
    hlo_text *h = &c->l->h;
    hlo_index first = hlo_index_times(h, hlo_index_of(h, blocks, c->n_pairs, iteration), c->block);
    if (!c->offset.moves) return first;
    first.value = hlo_binary(h, "add", hlo_index_value(h, first), c->offset.value);
    first.moves = true;
    return first;
}

// Returns the indices in the row of a block's tokens, along a dim of `like`.
static hlo_value places_of(const attention_call *c, hlo_value numbers, const hlo_value *like,
        int along, hlo_index first) {
    hlo_text *h = &c->l->h;
    if (!c->numbered) return numbers_from(h, like, along, first);
    return hlo_along(h, hlo_take(h, numbers, 0, first, c->block), like, along);
}

// Removes from `visible` the keys that are hidden from a query of the pair.
static hlo_value without_hidden(const attention_call *c, const block_pair *p, hlo_value key) {
    hlo_text *h = &c->l->h;
    hlo_value end[2];
    for (int i = 0; i < 2; i++)
        end[i] = beside(h, hlo_take(h, c->hidden[i], 2, p->query, c->block), &key);
    const hlo_value seen = hlo_binary(h, "or", hlo_compare(h, "LT", key, end[0]),
            hlo_compare(h, "GE", key, end[1]));
    return hlo_binary(h, "and", p->visible, seen);
}

// Token t of a row sees the tokens from first[t] to t, except hidden ones.
static block_pair open_pair(const attention_call *c, hlo_index iteration) {
    hlo_text *h = &c->l->h;
    block_pair p = {.query = first_token(c, c->query_block, iteration),
            .key = first_token(c, c->key_block, iteration)};
    p.q = take_queries(c, c->q, p.query);
    p.k = hlo_take(h, c->k, 1, p.key, c->block);
    p.v = hlo_take(h, c->v, 1, p.key, c->block);
    p.scores = as_blocks(c, hlo_scale(h, hlo_dot(h, p.q, p.k, 1, 1, c->acc), c->scale), c->block);
    hlo_value like = p.scores;
    like.type = HLO_I32;
    const hlo_value query = places_of(c, c->query, &like, 2, p.query),
                    key = places_of(c, c->key, &like, 3, p.key);
    const hlo_value from = beside(h, hlo_take(h, c->first, 2, p.query, c->block), &like);
    p.visible =
            hlo_binary(h, "and", hlo_compare(h, "LE", key, query), hlo_compare(h, "GE", key, from));
    if (c->continuations) p.visible = without_hidden(c, &p, key);
    return p;
}

// Computes exp(scores - x), and 0 for keys that are not visible; x has a number for each query.
static hlo_value visible_exp(hlo_text *h, const block_pair *p, hlo_value x) {
    const hlo_value less = hlo_binary(h, "subtract", p->scores, beside(h, x, &p->scores));
    const hlo_value none = hlo_fill(h, 0, &p->scores);
    // The score of an invisible key may exceed x by any amount and must not overflow.
    const hlo_value safe = hlo_select(h, p->visible, less, none);
    return hlo_select(h, p->visible, hlo_unary(h, "exponential", safe), none);
}

// x [RK, G B, B'] times keys or values [RK, B', D] or the transposed product.
static hlo_value flat(const attention_call *c, hlo_value x) {
    hlo_text *h = &c->l->h;
    return hlo_convert(h, hlo_reshape(h, x, HLO_DIMS(x.dim[0], c->group * c->block, x.dim[3])),
            c->dt);
}

// --- forward
void attention_pair(hlo_text *h, void *ctx, hlo_index iteration, hlo_value *carried) {
    const attention_call *c = ctx;
    static const int64_t keys[] = {3};
    block_pair p = open_pair(c, iteration);
    const hlo_value old_max = hlo_take(h, carried[MAX], 2, p.query, c->block),
                    old_sum = hlo_take(h, carried[SUM], 2, p.query, c->block),
                    old_out = hlo_take(h, carried[OUT], 2, p.query, c->block);
    p.scores = hlo_select(h, p.visible, p.scores, hlo_fill(h, NEVER, &p.scores));
    const hlo_value max =
            hlo_binary(h, "maximum", old_max, hlo_reduce(h, "maximum", p.scores, 1, keys));
    const hlo_value keep = hlo_unary(h, "exponential", hlo_binary(h, "subtract", old_max, max));
    const hlo_value e = visible_exp(h, &p, max);
    const hlo_value sum = hlo_binary(h, "add", hlo_binary(h, "multiply", old_sum, keep),
            hlo_reduce(h, "add", e, 1, keys));
    const hlo_value added = as_blocks(c, hlo_dot(h, flat(c, e), p.v, 1, 0, c->acc), c->d);
    const hlo_value out = hlo_binary(h, "add",
            hlo_binary(h, "multiply", old_out, beside(h, keep, &old_out)), added);
    carried[MAX] = hlo_put(h, carried[MAX], max, 2, p.query);
    carried[SUM] = hlo_put(h, carried[SUM], sum, 2, p.query);
    carried[OUT] = hlo_put(h, carried[OUT], out, 2, p.query);
}

// [RK, G, S] -> [heads, N]
static hlo_value statistics(const attention_call *c, hlo_value x) {
    hlo_text *h = &c->l->h;
    static const int64_t order[] = {1, 0, 2};
    x = drop_padding(c, x, 2);
    x = hlo_reshape(h, x, HLO_DIMS(c->rows, c->n_heads, c->seq));
    return hlo_reshape(h, hlo_transpose(h, x, order), HLO_DIMS(c->n_heads, c->rows * c->seq));
}

static void attention(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    if (cudnn_form_of(&l->options.cudnn, n) != CUDNN_NONE) {
        lower_cudnn_attention(l, n);
        return;
    }
    attention_call c = open_call(l, n, n->in[0]);
    const bool ring = n->attrs.mesh.ranks > 1;
    if (ring) lower_ring_open(&c, n);
    cut_qkv(&c, n, 0, 1);
    hlo_value like = c.first, out = c.q, carried[N_FORWARD];
    like.type = out.type = c.acc;
    carried[MAX] = hlo_fill(h, NEVER, &like);
    carried[SUM] = hlo_fill(h, 0, &like);
    carried[OUT] = hlo_fill(h, 0, &out);
    if (ring)
        lower_ring_pairs(&c, n, carried);
    else
        hlo_repeat(h, c.n_pairs, carried, N_FORWARD, attention_pair, &c);
    out = hlo_binary(h, "divide", carried[OUT], beside(h, carried[SUM], &out));
    lower_set(l, n, 0, join_heads(&c, hlo_convert(h, out, c.dt), c.n_heads));
    const hlo_value lse = hlo_binary(h, "add", carried[MAX], hlo_unary(h, "log", carried[SUM]));
    lower_set(l, n, 1, statistics(&c, lse));
}

const lower_op lower_op_attention = {.lower = attention};

// --- gradient
void attention_grad_pair(hlo_text *h, void *ctx, hlo_index iteration, hlo_value *carried) {
    const attention_call *c = ctx;
    const block_pair p = open_pair(c, iteration);
    const hlo_value d_o = take_queries(c, c->d_o, p.query);
    const hlo_value e = visible_exp(h, &p, hlo_take(h, c->lse, 2, p.query, c->block));
    const hlo_value dp = as_blocks(c, hlo_dot(h, d_o, p.v, 1, 1, c->acc), c->block);
    const hlo_value delta = hlo_take(h, c->delta, 2, p.query, c->block);
    const hlo_value ds = hlo_scale(h,
            hlo_binary(h, "multiply", e, hlo_binary(h, "subtract", dp, beside(h, delta, &dp))),
            c->scale);
    const hlo_value e_flat = flat(c, e), ds_flat = flat(c, ds);
    const hlo_value dq = as_blocks(c, hlo_dot(h, ds_flat, p.k, 1, 0, c->acc), c->d);
    const hlo_value dk = hlo_dot(h, ds_flat, p.q, 0, 0, c->acc),
                    dv = hlo_dot(h, e_flat, d_o, 0, 0, c->acc);
    const hlo_value sums[] = {hlo_binary(h, "add", hlo_take(h, carried[DQ], 2, p.query, c->block),
                                      dq),
            hlo_binary(h, "add", hlo_take(h, carried[DK], 1, p.key, c->block), dk),
            hlo_binary(h, "add", hlo_take(h, carried[DV], 1, p.key, c->block), dv)};
    carried[DQ] = hlo_put(h, carried[DQ], sums[DQ], 2, p.query);
    carried[DK] = hlo_put(h, carried[DK], sums[DK], 1, p.key);
    carried[DV] = hlo_put(h, carried[DV], sums[DV], 1, p.key);
}

// [heads, N] -> [RK, G, S]
static hlo_value cut_statistics(const attention_call *c, hlo_value x) {
    hlo_text *h = &c->l->h;
    static const int64_t order[] = {1, 0, 2};
    x = hlo_reshape(h, x, HLO_DIMS(c->n_heads, c->rows, c->seq));
    x = pad_tokens(c, hlo_transpose(h, x, order), 2);
    return hlo_reshape(h, x, HLO_DIMS(c->rows * c->n_kv, c->group, c->padded));
}

static hlo_value zeros(hlo_text *h, hlo_value like, hlo_type type) {
    like.type = type;
    return hlo_fill(h, 0, &like);
}

// inputs: do, qkv, o, lse, position[, hidden]
static void attention_grad(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    if (cudnn_form_of(&l->options.cudnn, n) != CUDNN_NONE) {
        lower_cudnn_attention_grad(l, n);
        return;
    }
    static const int64_t columns[] = {3};
    attention_call c = open_call(l, n, n->in[1]);
    const bool ring = n->attrs.mesh.ranks > 1;
    if (ring) lower_ring_open(&c, n);
    cut_qkv(&c, n, 1, 4);
    c.d_o = cut_heads(&c, lower_in(l, n, 0), 0, c.n_heads, c.group);
    const hlo_value o = cut_heads(&c, lower_in(l, n, 2), 0, c.n_heads, c.group);
    c.delta = hlo_reduce(h, "add",
            hlo_binary(h, "multiply", hlo_convert(h, c.d_o, c.acc), hlo_convert(h, o, c.acc)), 1,
            columns);
    c.lse = cut_statistics(&c, lower_in(l, n, 3));
    hlo_value carried[N_GRADIENTS] = {zeros(h, c.q, c.acc), zeros(h, c.k, c.acc),
            zeros(h, c.v, c.acc)};
    if (ring)
        lower_ring_grad(&c, n, carried);
    else
        hlo_repeat(h, c.n_pairs, carried, N_GRADIENTS, attention_grad_pair, &c);
    hlo_value part[N_GRADIENTS];
    for (int i = 0; i < N_GRADIENTS; i++)
        part[i] = join_heads(&c, hlo_convert(h, carried[i], lower_type(l, n->out[0]->dt)),
                i == DQ ? c.n_heads : c.n_kv);
    lower_set(l, n, 0, hlo_concat(h, part, N_GRADIENTS, 1));
}

const lower_op lower_op_attention_grad = {.lower = attention_grad};
