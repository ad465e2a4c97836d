// Shared by both directions of attention: the position of heads in qkv, packed blocks of keys and
// values, and products of blocks by register tiles.
// Legend: c = a b, a of words_a, b of words_b, c of sums.
#pragma once
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/levels/pack.h"

// Rows of packed operands are padded to 16 words, so that vectors of any level end within them.
enum { BLOCK = ATTENTION_BLOCK, ROW_PAD = 16 };

static const float LOG2_E = 1.44269504f;

INLINE matrix matrix_of_qkv(const attention_args *args) {
    return (matrix){args->qkv, attention_qkv_width(args)};
}
// Numbers the heads in the order of a row of qkv: queries, keys, values.
INLINE int64_t key_head(const attention_args *args, int64_t group) {
    return args->n_heads + group;
}
INLINE int64_t value_head(const attention_args *args, int64_t group) {
    return args->n_heads + args->n_kv_heads + group;
}
// Returns the first element of a head of row t.
INLINE int64_t element_of(const attention_args *args, int64_t t, int64_t head) {
    return t * matrix_of_qkv(args).ld + head * args->head_dim;
}

// Return the number of keys in the block that begins at `first`, and of rows in a block of queries.
INLINE int64_t keys_of_block(const attention_args *args, int64_t first) {
    const int64_t left = attention_keys(args) - first;
    return left < BLOCK ? left : BLOCK;
}
INLINE int64_t rows_of_block(const attention_args *args, int64_t first) {
    return args->seq - first < BLOCK ? args->seq - first : BLOCK;
}

// Returns the keys or values of a group from token t on, in the cache or, if there is none (NULL),
// in qkv.
typedef struct operand {
    matrix m;
    int64_t at;
} operand;

INLINE operand operand_of(const attention_args *args, const void *cache, int64_t head,
        int64_t group, int64_t t) {
    const int64_t d = args->head_dim;
    if (cache) return (operand){{cache, d}, (group * args->capacity + t) * d};
    return (operand){matrix_of_qkv(args), element_of(args, t, head)};
}

// --- which scores of a block are computed: strips of queries by spans of keys
// Both are multiples of STRIP whatever the level, so that a sum has the same terms on each; LANES
// divides it. A span holds all keys that a query of its strip sees, and others, which are masked.
enum { STRIP = 16, MAX_STRIPS = BLOCK / STRIP };

typedef attention_span span; // of a block; empty: 0 .. 0

typedef struct query_strip {
    int64_t row, n_rows; // queries of the block
    span keys;
    bool whole; // each of these queries sees each of these keys
} query_strip;

// Returns the keys of block k0 from the first that row t sees to the last; none: BLOCK .. 0. Some
// between them may be hidden.
INLINE span keys_of_row(const attention_args *args, int64_t t, int64_t k0) {
    const int64_t last = args->first + t + 1, n_keys = attention_keys(args),
                  first = attention_first(args, t);
    span seen = {first > k0 ? first - k0 : 0, (last < n_keys ? last : n_keys) - k0};
    if (seen.end > BLOCK) seen.end = BLOCK;
    if (args->hidden) {
        const span hidden = attention_hidden(args, t);
        if (hidden.begin - k0 <= seen.begin && hidden.end - k0 > seen.begin)
            seen.begin = hidden.end - k0;
        else if (hidden.end - k0 >= seen.end && hidden.begin - k0 < seen.end)
            seen.end = hidden.begin - k0;
    }
    return seen.begin < seen.end ? seen : (span){BLOCK, 0};
}

// Returns whether each of n_q queries from q0 on sees each key of block k0: where nothing is hidden
// the last one sees no earlier key than the others, and the first one no later key.
INLINE bool is_seen_whole(const attention_args *args, int64_t q0, int64_t n_q, int64_t k0) {
    return !args->hidden && k0 + BLOCK <= attention_keys(args) &&
           k0 + BLOCK <= args->first + q0 + 1 && attention_first(args, q0 + n_q - 1) <= k0;
}

// Lists strips of `side` queries of the n_q from q0 on with the span of keys of block k0 that each
// sees, in multiples of `side`; neighbouring strips with the same span are joined.
INLINE int strips_of_block(const attention_args *args, const int64_t side, int64_t q0, int64_t n_q,
        int64_t k0, query_strip out[MAX_STRIPS]) {
    int n = 0;
    if (is_seen_whole(args, q0, n_q, k0)) {
        out[n++] = (query_strip){0, n_q, {0, BLOCK}, true};
        return n;
    }
    for (int64_t row = 0; row < n_q; row += side) {
        const int64_t n_rows = n_q - row < side ? n_q - row : side;
        span keys = {BLOCK, 0}, by_all = {0, BLOCK};
        for (int64_t i = row; i < row + n_rows; i++) {
            const span seen = keys_of_row(args, q0 + i, k0);
            if (seen.begin < keys.begin) keys.begin = seen.begin;
            if (seen.end > keys.end) keys.end = seen.end;
            if (seen.begin > by_all.begin) by_all.begin = seen.begin;
            if (seen.end < by_all.end) by_all.end = seen.end;
        }
        keys.begin = keys.begin / side * side;
        keys.end = round_up(keys.end, side);
        if (keys.begin >= keys.end) keys = (span){0, 0};
        const bool whole = !args->hidden && by_all.begin <= keys.begin && by_all.end >= keys.end;
        if (n > 0 && out[n - 1].keys.begin == keys.begin && out[n - 1].keys.end == keys.end) {
            out[n - 1].n_rows += n_rows;
            out[n - 1].whole &= whole;
        } else {
            out[n++] = (query_strip){row, n_rows, keys, whole};
        }
    }
    return n;
}

// Masks the scores of row t for a span of the keys from k0 on: scores of keys that it does not see
// become -inf.
INLINE void mask_scores(const attention_args *args, int64_t t, int64_t k0, span keys,
        float *scores) {
    const span seen = keys_of_row(args, t, k0), hidden = attention_hidden(args, t);
    const int64_t from = hidden.begin - k0;
    for (int64_t j = from > keys.begin ? from : keys.begin; j < hidden.end - k0 && j < keys.end;
            j++)
        scores[j] = -INFINITY;
    for (int64_t j = keys.begin; j < keys.end && j < seen.begin; j++)
        scores[j] = -INFINITY;
    for (int64_t j = seen.end > keys.begin ? seen.end : keys.begin; j < keys.end; j++)
        scores[j] = -INFINITY;
}

// The same of a strip of queries of the block q0; scores: of the block.
INLINE void mask_rows(const attention_args *args, int64_t q0, int64_t k0,
        const query_strip *queries, float *scores) {
    const int64_t end = queries->row + queries->n_rows;
    for (int64_t i = queries->row; i < end && !queries->whole; i++)
        mask_scores(args, q0 + i, k0, queries->keys, scores + i * BLOCK);
}

// Packs tokens first .. first + n of a head as an operand B whose inner dimension is the tokens:
// [n_rows / per_word][ld] words, 0 where there is no token or element.
INLINE void pack_tokens(const arithmetic *by, const attention_args *args, matrix m, int64_t at,
        int64_t n, int64_t n_rows, uint32_t *dst, int64_t ld) {
    pack_across(by, ld, m, at, args->head_dim, n, true, dst);
    const int64_t done = words_of(by, n), all = words_of(by, n_rows);
    memset(dst + done * ld, 0, sizeof *dst * (size_t)((all - done) * ld));
}

// --- c [m, n] = a b, or c += a b. Registers hold TILE_ROWS rows by TILE_VECS vectors of c.
enum { TILE_ROWS = REGISTERS == 32 ? 6 : 4, TILE_VECS = REGISTERS == 32 ? 4 : 3 };

typedef vec mac_function(vec sum, uint32_t a, vec b);

// An instance of block_product. b must be readable up to the next multiple of WIDTH words after n.
typedef void product_function(int64_t m, int64_t n, int64_t n_words, words_a a, words_b b, sums c,
        bool add);

// n_rows x n_vecs vectors; last_n elements of the last vector exist in c.
INLINE void attention_tile(mac_function *mac, const int n_rows, const int n_vecs, int64_t n_words,
        words_a a, words_b b, sums c, bool add, int last_n) {
    vec sum[6][4];
#pragma GCC unroll 6
    for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_vecs; j++)
            sum[i][j] = add ? v_load(c.p + i * c.ld + j * WIDTH, j == n_vecs - 1 ? last_n : WIDTH)
                            : v_set(0);
    for (int64_t w = 0; w < n_words; w++) {
        vec row[4];
#pragma GCC unroll 4
        for (int j = 0; j < n_vecs; j++)
            row[j] = load_words(b.p + w * b.ld + j * WIDTH);
#pragma GCC unroll 6
        for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < n_vecs; j++)
                sum[i][j] = mac(sum[i][j], a.p[i * a.row + w * a.word], row[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_vecs; j++)
            v_store(c.p + i * c.ld + j * WIDTH, sum[i][j], j == n_vecs - 1 ? last_n : WIDTH);
}

// All m rows of n_vecs vectors.
INLINE void attention_columns(mac_function *mac, const int n_vecs, int64_t m, int64_t n_words,
        words_a a, words_b b, sums c, bool add, int last_n) {
    for (; m >= TILE_ROWS; m -= TILE_ROWS) {
        attention_tile(mac, TILE_ROWS, n_vecs, n_words, a, b, c, add, last_n);
        a.p += TILE_ROWS * a.row;
        c.p += TILE_ROWS * c.ld;
    }
    if (m == 1)
        attention_tile(mac, 1, n_vecs, n_words, a, b, c, add, last_n);
    else if (m == 2)
        attention_tile(mac, 2, n_vecs, n_words, a, b, c, add, last_n);
    else if (m == 3)
        attention_tile(mac, 3, n_vecs, n_words, a, b, c, add, last_n);
    else if (TILE_ROWS > 4 && m == 4)
        attention_tile(mac, 4, n_vecs, n_words, a, b, c, add, last_n);
    else if (TILE_ROWS > 5 && m == 5)
        attention_tile(mac, 5, n_vecs, n_words, a, b, c, add, last_n);
}

INLINE void block_product(mac_function *mac, int64_t m, int64_t n, int64_t n_words, words_a a,
        words_b b, sums c, bool add) {
    while (n > 0) {
        const int64_t all = div_up(n, WIDTH), n_vecs = all < TILE_VECS ? all : TILE_VECS;
        const int64_t n_cols = n < n_vecs * WIDTH ? n : n_vecs * WIDTH;
        const int last_n = (int)(n_cols - (n_vecs - 1) * WIDTH);
        if (n_vecs == 1)
            attention_columns(mac, 1, m, n_words, a, b, c, add, last_n);
        else if (n_vecs == 2)
            attention_columns(mac, 2, m, n_words, a, b, c, add, last_n);
        else if (n_vecs == 3)
            attention_columns(mac, 3, m, n_words, a, b, c, add, last_n);
        else if (TILE_VECS > 3)
            attention_columns(mac, 4, m, n_words, a, b, c, add, last_n);
        n -= n_cols;
        b.p += n_cols;
        c.p += n_cols;
    }
}
