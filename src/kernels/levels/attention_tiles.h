// Attention of bf16 by tile registers (tiles.h): code shared by both directions. Operands are
// packed as the squares of tile_pack.h; sums are fp32 in memory. A pass is a product of two strips
// of 16 lines by two. Passes are queued and executed between rows of the softmax, so that the tile
// unit and the vector unit of the processor are busy at the same time.
//
// Weights are rounded to bf16 as they become words: to nearest, ties away from 0. In an operand A
// whose inner dimension is the keys, a word holds keys w and w + 16 of a group of 32: lanes of two
// vectors, so that nothing changes places. Rows of its operand B are packed likewise (pack_apart).
//
//     32 weights of a row   | x0 ... x15 | x16 ... x31 |
//     their 16 words        | x16 x0 | x17 x1 | ... | x31 x15 |
//
// Queries and keys are cut in strips of TILE_STRIP: of a block that is not seen whole those squares
// are multiplied in which a query sees a key.
#pragma once
#include "kernels/levels/attention_tile.h"
#include "kernels/levels/gemm_tiles.h"

enum {
    TILE_STRIP = PAIR,
    TILE_STRIPS = BLOCK / TILE_STRIP,
    BLOCK_TILES = BLOCK / TILE_SIDE,
    BLOCK_GROUPS = BLOCK / TILE_GROUP,
};

// Groups of 32 elements of a head, the last of which may have fewer.
INLINE int64_t head_groups(const attention_args *args) {
    return div_up(args->head_dim, TILE_GROUP);
}

// Words of squares of n_lines, a multiple of 16.
INLINE int64_t square_words(int64_t n_lines, int64_t n_groups) {
    return n_lines / TILE_SIDE * n_groups * TILE_WORDS;
}

// Scratch from its first line of cache on, of which each row of a square is one.
INLINE uint32_t *aligned(void *scratch) {
    return (uint32_t *)scratch + (-(uintptr_t)scratch % 64) / sizeof(uint32_t);
}

// --- products
// c = a b, or c += a b. Rows of c are `row` floats apart, squares below each other `down`, beside
// each other `right`.
typedef struct tile_product {
    const uint32_t *a, *b;
    int64_t a_strip, b_strip; // words from a strip of 16 lines to the next
    int64_t a_line;           // words from a line of a to the next; 0: a has squares
    int64_t n_groups;
    float *c;
    int64_t row, down, right;
    int64_t n_rows, n_columns; // in passes
    bool add;
} tile_product;

// The queue of products, first in, first out, and the progress of the first: `dots` of the group's
// four products of registers, in the pass whose sums are at `row` and `column`. The sums of a pass
// are stored when the next one begins, since by then the registers hold the results.
enum { MOST_PRODUCTS = 8 };
typedef struct tile_queue {
    tile_product waiting[MOST_PRODUCTS];
    int n, at; // of which the first are done
    int dot;
    int64_t row, column, group;
    int64_t n_dots; // that wait
    float *c;       // sums that are not stored; NULL: none
    int64_t c_row, c_down, c_right;
} tile_queue;

// Products are written directly to the queue: a copy would load by vectors what was just stored by
// words, and would stall until that is in the cache, behind all rows of registers.
INLINE tile_product *next_product(tile_queue *q) {
    return &q->waiting[q->n++];
}
INLINE void queue_product(tile_queue *q, const tile_product *p) {
    q->n_dots += 4 * p->n_rows * p->n_columns * p->n_groups;
}

INLINE void store_sums(tile_queue *q) {
    const int64_t stride = 4 * q->c_row;
    if (!q->c) return;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        tile_store(SUMS_TILE + i, q->c + i / 2 * q->c_down + i % 2 * q->c_right, stride);
    q->c = NULL;
}

INLINE void begin_sums(tile_queue *q, const tile_product *p) {
    store_sums(q);
    q->c = p->c + 2 * q->row * p->down + 2 * q->column * p->right;
    q->c_row = p->row, q->c_down = p->down, q->c_right = p->right;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        if (p->add)
            tile_load(SUMS_TILE + i, q->c + i / 2 * p->down + i % 2 * p->right, 4 * p->row);
        else
            tile_zero(SUMS_TILE + i);
    }
}

// Goes on to the next group, pass or product.
INLINE void end_group(tile_queue *q, const tile_product *p) {
    q->dot = 0;
    if (++q->group < p->n_groups) return;
    q->group = 0;
    if (++q->column < p->n_columns) return;
    q->column = 0;
    if (++q->row < p->n_rows) return;
    q->row = 0;
    if (++q->at == q->n) q->n = q->at = 0;
}

static void run_dot(tile_queue *q) {
    const tile_product *p = &q->waiting[q->at];
    const int64_t line = 4 * TILE_SIDE, a_line = p->a_line ? 4 * p->a_line : line,
                  a_group = p->a_line ? TILE_SIDE : TILE_WORDS;
    const uint32_t *a = p->a + 2 * q->row * p->a_strip + q->group * a_group,
                   *b = p->b + 2 * q->column * p->b_strip + q->group * TILE_WORDS;
    q->n_dots--;
    switch (q->dot++) {
    case 0:
        if (q->group == 0) begin_sums(q, p);
        tile_load(COLUMNS_TILE, b, line);
        tile_load(ROWS_TILE, a, a_line);
        tile_dot(0, 0);
        break;
    case 1:
        tile_load(COLUMNS_TILE + 1, b + p->b_strip, line);
        tile_dot(0, 1);
        break;
    case 2:
        tile_load(ROWS_TILE + 1, a + p->a_strip, a_line);
        tile_dot(1, 0);
        break;
    default:
        tile_dot(1, 1);
        end_group(q, p);
        break;
    }
}

INLINE void run_dots(tile_queue *q, int64_t n) {
    for (; n > 0 && q->n_dots > 0; n--)
        run_dot(q);
}

static void run_all_dots(tile_queue *q) {
    run_dots(q, q->n_dots);
    store_sums(q);
}

// --- weights
// 2^x within 3e-6 of it, for any x: the minimax polynomial of degree 4 of what is behind the point.
INLINE vec tile_exp2(vec x) {
    const vec r = v_fraction(x);
    vec p = v_set(1.35341678e-2f);
    p = v_fma(p, r, v_set(5.20114601e-2f));
    p = v_fma(p, r, v_set(2.41442755e-1f));
    p = v_fma(p, r, v_set(6.93003833e-1f));
    return v_scale2_floor(v_fma(p, r, v_set(1.00000262f)), x);
}

// --- packing
enum { FETCHED = 64 }; // tokens ahead, whose rows are far apart in memory

// n lines of a head that begins at `from`, of up to BLOCK tokens, as squares; words along the head.
// by_line: as operand A, else B.
static void pack_lines(const attention_args *args, operand from, int64_t n, bool by_line,
        uint32_t *to) {
    const int64_t groups = head_groups(args), n_lines = round_up(n, TILE_STRIP);
    for (int64_t line = 0; line < n_lines; line += TILE_SIDE) {
        for (int64_t t = line + FETCHED; t < line + FETCHED + TILE_SIDE && n == BLOCK; t++)
            fetch((const char *)from.m.p + 2 * (from.at + t * from.m.ld), 2 * args->head_dim);
        const strip_source source = {(const uint16_t *)from.m.p + from.at + line * from.m.ld,
                from.m.ld, true, by_line};
        pack_strip(&source, n - line, args->head_dim, to + square_words(line, groups));
    }
}

// The same as operand A with a line for each element of the head and words along the tokens.
static void pack_squares_transposed(const attention_args *args, operand from, int64_t n,
        uint32_t *to) {
    for (int64_t line = 0; line < head_groups(args) * TILE_GROUP; line += TILE_SIDE) {
        const strip_source source = {(const uint16_t *)from.m.p + from.at + line, from.m.ld, false,
                true};
        pack_strip(&source, args->head_dim - line, n, to + square_words(line, BLOCK_GROUPS));
    }
}

// 16 words of tokens 0 and 16 of those at `from`; n_tokens and n elements of a row exist.
INLINE void pair_tokens(const uint16_t *from, int64_t ld, int64_t n, int64_t n_tokens,
        uint32_t *to) {
    static const uint16_t none[TILE_SIDE];
    const uint16_t *low = n_tokens > 0 ? from : none,
                   *high = n_tokens > TILE_SIDE ? from + TILE_SIDE * ld : none;
    if (n >= TILE_SIDE) {
        for (int i = 0; i < TILE_SIDE; i++)
            to[i] = low[i] | (uint32_t)high[i] << 16;
        return;
    }
    memset(to, 0, sizeof *to * TILE_SIDE);
    for (int64_t i = 0; i < n; i++)
        to[i] = low[i] | (uint32_t)high[i] << 16;
}

// As operand B with a column for each element of the head: word w of a group of 32 tokens has
// tokens w and w + 16.
static void pack_apart(const attention_args *args, operand from, int64_t n, uint32_t *to) {
    const int64_t d = args->head_dim, all = head_groups(args) * TILE_GROUP,
                  n_rows = round_up(n, TILE_GROUP) / 2;
    const uint16_t *rows = (const uint16_t *)from.m.p + from.at;
    for (int64_t r = 0; r < n_rows; r++) {
        const int64_t token = r / TILE_SIDE * TILE_GROUP + r % TILE_SIDE;
        for (int64_t t = token + FETCHED; t <= token + FETCHED + TILE_SIDE && n == BLOCK;
                t += TILE_SIDE)
            fetch((const char *)(rows + t * from.m.ld), 2 * d);
        for (int64_t j = 0; j < all; j += TILE_SIDE)
            pair_tokens(rows + token * from.m.ld + j, from.m.ld, d - j, n - token,
                    to + square_words(j, BLOCK_GROUPS) + r * TILE_SIDE);
    }
}

// --- strips
// Strips of block k0, each of at most TILE_STRIP queries; none that sees no key.
INLINE int tile_strips(const attention_args *args, int64_t q0, int64_t n_q, int64_t k0,
        query_strip out[TILE_STRIPS]) {
    query_strip joined[MAX_STRIPS];
    const int n_joined = strips_of_block(args, TILE_STRIP, q0, n_q, k0, joined);
    int n = 0;
    for (int i = 0; i < n_joined; i++)
        for (int64_t row = 0; row < joined[i].n_rows && joined[i].keys.end > 0; row += TILE_STRIP) {
            out[n] = joined[i];
            out[n].row += row;
            out[n++].n_rows = at_most(joined[i].n_rows - row, TILE_STRIP);
        }
    return n;
}

// Masks the scores of a strip; scores: from its first query on.
INLINE void mask_strip(const attention_args *args, int64_t q0, int64_t k0,
        const query_strip *queries, float *scores) {
    for (int64_t i = 0; i < queries->n_rows && !queries->whole; i++)
        mask_scores(args, q0 + queries->row + i, k0, queries->keys, scores + i * BLOCK);
}
