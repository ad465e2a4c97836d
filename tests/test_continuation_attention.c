// Attention of rows in which several continuations of one beginning follow each other: each gives
// what the beginning and it would give in a row of their own, whatever lies between.
#include "arrays.h"

enum { MAX_CONTINUATIONS = 4 };
typedef struct continuation_case {
    int64_t before, stem, continuation[MAX_CONTINUATIONS]; // tokens; before: of a document in front
    int n_heads, n_kv_heads, head_dim;
} continuation_case;

static const continuation_case cases[] = {
        {0, 1, {1, 1}, 1, 1, 2}, {0, 5, {3, 1, 7, 2}, 4, 2, 6},
        {3, 60, {4, 70, 3, 9}, 6, 2, 16}, // continuations over the ends of blocks
        {70, 130, {64, 1, 64, 30}, 2, 1, 64},
        {1, 2, {200, 5, 1, 190}, 3, 1, 24}, // all of a block of keys is hidden
};

typedef struct row {
    array qkv, o;
    int32_t *position, *hidden;
    attention_args args;
} row;

static int64_t window; // of all rows

static row row_new(dtype dt, const continuation_case *c, int64_t seq) {
    const int64_t width = (c->n_heads + 2 * c->n_kv_heads) * c->head_dim;
    row x = {.qkv = array_new(dt, seq * width, 5, 1.5, 0),
            .o = array_new(dt, seq * c->n_heads * c->head_dim, 6, 1, 0),
            .position = mem_zeroed(sizeof(int32_t) * (size_t)seq),
            .hidden = mem_zeroed(2 * sizeof(int32_t) * (size_t)seq)};
    x.args = (attention_args){.dt = dt,
            .seq = seq,
            .n_heads = c->n_heads,
            .n_kv_heads = c->n_kv_heads,
            .head_dim = c->head_dim,
            .window = window,
            .qkv = x.qkv.p,
            .position = x.position,
            .o = x.o.p};
    return x;
}

static void row_free(row *x) {
    array_free(&x->qkv), array_free(&x->o);
    free(x->position);
    free(x->hidden);
}

static void run(const kernels *k, const attention_args *args) {
    void *scratch = mem_alloc((size_t)attention_scratch_bytes(args));
    for (int64_t unit = 0; unit < attention_units(args); unit++)
        k->attention(args, unit, scratch);
    free(scratch);
}

static row whole_row(const kernels *k, dtype dt, const continuation_case *c) {
    int64_t seq = c->before + c->stem;
    for (int i = 0; i < MAX_CONTINUATIONS; i++)
        seq += c->continuation[i];
    row x = row_new(dt, c, seq);
    x.args.hidden = x.hidden;
    for (int64_t t = 0; t < c->before; t++)
        x.position[t] = (int32_t)t;
    for (int64_t t = 0; t < c->stem; t++)
        x.position[c->before + t] = (int32_t)t;
    int64_t begin = c->before + c->stem;
    for (int i = 0; i < MAX_CONTINUATIONS; begin += c->continuation[i++])
        for (int64_t t = 0; t < c->continuation[i]; t++) {
            x.position[begin + t] = (int32_t)(c->stem + t);
            x.hidden[2 * (begin + t)] = (int32_t)(c->before + c->stem);
            x.hidden[2 * (begin + t) + 1] = (int32_t)begin;
        }
    run(k, &x.args);
    return x;
}

// The stem and the continuation that begins at token `begin` of the whole row, in a row of their own.
static row path_alone(const kernels *k, dtype dt, const continuation_case *c, const row *whole,
        int64_t begin, int64_t n) {
    const int64_t width = (c->n_heads + 2 * c->n_kv_heads) * c->head_dim;
    row x = row_new(dt, c, c->stem + n);
    for (int64_t t = 0; t < x.args.seq; t++) {
        const int64_t from = t < c->stem ? c->before + t : begin + t - c->stem;
        x.position[t] = (int32_t)t;
        for (int64_t i = 0; i < width; i++)
            array_put(&x.qkv, t * width + i, array_at(&whole->qkv, from * width + i));
    }
    run(k, &x.args);
    return x;
}

// Blocks of keys end elsewhere, so sums have another order: c eps sqrt(K).
static void expect_paths(const kernels *level, dtype dt, const continuation_case *shape) {
    const double bound = 4 * (dt == DT_BF16 ? 0x1p-8 : 0x1p-23) * sqrt((double)(shape->stem + 200));
    const int64_t o_width = shape->n_heads * shape->head_dim;
    row whole = whole_row(level, dt, shape);
    int64_t begin = shape->before + shape->stem;
    for (int i = 0; i < MAX_CONTINUATIONS; begin += shape->continuation[i++]) {
        row alone = path_alone(level, dt, shape, &whole, begin, shape->continuation[i]);
        for (int64_t t = 0; t < alone.args.seq * o_width; t++) {
            const int64_t token = t / o_width, from = token < shape->stem
                                                              ? shape->before + token
                                                              : begin + token - shape->stem;
            const double got = array_at(&whole.o, from * o_width + t % o_width),
                         want = array_at(&alone.o, t);
            if (fabs(got - want) > bound)
                fail_msg("%s, %s, case %d, window %d, continuation %d, token %lld: %.9g, expected %.9g",
                        level->name, dtype_name(dt), (int)(shape - cases), (int)window, i,
                        (long long)token, got, want);
        }
        row_free(&alone);
    }
    array_guarded("o", &whole.o);
    row_free(&whole);
}

static void every_continuation(void) {
    const kernels *levels[MAX_ATTENTION_LEVELS + 1] = {NULL};
    for (int k = 0; k < 2; k++) {
        const dtype dt = k ? DT_BF16 : DT_F32;
        const int n = attention_levels(dt, levels);
        levels[n] = &kernels_ref;
        for (int i = 0; i <= n; i++)
            for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
                expect_paths(levels[i], dt, cases + c);
    }
}

TEST(continuations_see_their_beginning_and_themselves) {
    every_continuation();
}

// Within a continuation, over its beginning, over the ends of blocks; a continuation that reaches
// further back than the end of the one before.
TEST(continuations_in_a_window) {
    static const int64_t windows[] = {1, 2, 6, 64, 100};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        window = windows[i];
        every_continuation();
    }
}
