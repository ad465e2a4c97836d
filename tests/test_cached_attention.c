// Attention over a cache of keys and values, as generation uses it: a prompt may be cut anywhere,
// and a row alone sees what it sees in a block.
#include "arrays.h"

typedef struct cache_case {
    int64_t tokens;
    int n_heads, n_kv_heads, head_dim;
    int64_t cuts[4]; // tokens at which the sequence is cut
} cache_case;

static const cache_case cases[] = {
        {1, 1, 1, 2, {0}},
        {2, 3, 1, 2, {1}},
        {64, 2, 1, 32, {63}},
        {65, 4, 2, 16, {1, 64}},
        {127, 9, 3, 64, {64, 65, 80, 126}},
        {300, 6, 2, 24, {16, 272}},
        {321, 2, 2, 128, {5, 70, 133, 320}},
        {141, 8, 2, 64, {140}}, // heads of a group go through four at a time
        {50, 5, 1, 72, {49}},
};
enum { N_CASES = sizeof cases / sizeof *cases, SPARE = 7 };

typedef struct problem {
    attention_args args; // of the whole sequence, keys and values in qkv
    array qkv, keys, values, whole, cached;
    int32_t *position;
    char text[160];
} problem;

// Fills the cache as the back end does; what lies after the last token is NaN.
static void fill_cache(problem *x) {
    const attention_args *args = &x->args;
    const int64_t width = args->n_heads + 2 * args->n_kv_heads, d = args->head_dim;
    const int64_t capacity = args->seq + SPARE;
    for (int64_t i = 0; i < x->keys.n; i++)
        array_put(&x->keys, i, (double)NAN), array_put(&x->values, i, (double)NAN);
    for (int64_t g = 0; g < args->n_kv_heads; g++)
        for (int64_t i = 0; i < args->seq * d; i++) {
            const int64_t to = g * capacity * d + i,
                          from = (i / d * width + args->n_heads + g) * d + i % d;
            array_put(&x->keys, to, array_at(&x->qkv, from));
            array_put(&x->values, to, array_at(&x->qkv, from + args->n_kv_heads * d));
        }
}

static problem problem_new(const kernels *fast, dtype dt, cache_case shape, uint64_t seed) {
    const int64_t width = (shape.n_heads + 2 * shape.n_kv_heads) * shape.head_dim,
                  n_o = shape.tokens * shape.n_heads * shape.head_dim,
                  n_cache = shape.n_kv_heads * (shape.tokens + SPARE) * shape.head_dim;
    problem x = {.args = {.dt = dt,
                         .seq = shape.tokens,
                         .n_heads = shape.n_heads,
                         .n_kv_heads = shape.n_kv_heads,
                         .head_dim = shape.head_dim}};
    x.qkv = array_new(dt, shape.tokens * width, seed, 1.5, 0);
    x.keys = array_new(dt, n_cache, seed, 1, 0);
    x.values = array_new(dt, n_cache, seed, 1, 0);
    x.whole = array_new(dt, n_o, seed + 1, 1, 0);
    x.cached = array_new(dt, n_o, seed + 2, 1, 0);
    x.position = mem_alloc(sizeof *x.position * (size_t)shape.tokens);
    for (int64_t t = 0; t < shape.tokens; t++)
        x.position[t] = (int32_t)t;
    x.args.qkv = x.qkv.p, x.args.o = x.whole.p, x.args.position = x.position;
    fill_cache(&x);
    snprintf(x.text, sizeof x.text, "%s, %s, %lld tokens, heads %d/%d of %d, seed %d", fast->name,
            dtype_name(dt), (long long)shape.tokens, shape.n_heads, shape.n_kv_heads,
            shape.head_dim, (int)seed);
    return x;
}

static void problem_free(problem *x) {
    array_free(&x->qkv), array_free(&x->keys), array_free(&x->values);
    array_free(&x->whole), array_free(&x->cached);
    free(x->position);
}

static void run_blocks(const kernels *k, const attention_args *args) {
    void *scratch = mem_alloc((size_t)attention_scratch_bytes(args));
    for (int64_t unit = 0; unit < attention_units(args); unit++)
        k->attention(args, unit, scratch);
    free(scratch);
}

// Rows first .. end - 1, over the cache.
static attention_args cached_rows(const problem *x, int64_t first, int64_t end) {
    attention_args args = x->args;
    const int64_t width = (args.n_heads + 2 * args.n_kv_heads) * args.head_dim;
    args.seq = end - first;
    args.qkv = (const char *)x->qkv.p + first * width * dtype_bytes(args.dt);
    args.o = (char *)x->cached.p + first * args.n_heads * args.head_dim * dtype_bytes(args.dt);
    args.position = x->position + first;
    args.keys = x->keys.p, args.values = x->values.p;
    args.capacity = x->args.seq + SPARE, args.first = first;
    return args;
}

// The bits of the sequence in one piece.
static void pieces_are_the_whole(const kernels *k, dtype dt, cache_case c) {
    problem x = problem_new(k, dt, c, 31);
    run_blocks(k, &x.args);
    int64_t first = 0;
    for (int i = 0; first < c.tokens; i++) {
        const int64_t end = i < 4 && c.cuts[i] > first ? c.cuts[i] : c.tokens;
        const attention_args args = cached_rows(&x, first, end);
        run_blocks(k, &args);
        first = end;
    }
    array_expect(x.text, &x.cached, &x.whole, 0);
    problem_free(&x);
}

// A row alone leaves P unrounded, and its sums have another order: c eps sqrt(K), as in
// test_attention.c.
static void a_row_sees_the_same(const kernels *k, dtype dt, cache_case c) {
    const int64_t longest = c.head_dim > c.tokens ? c.head_dim : c.tokens;
    const double bound = 4 * (dt == DT_BF16 ? 0x1p-8 : 0x1p-23) * sqrt((double)longest);
    problem x = problem_new(k, dt, c, 37);
    run_blocks(&kernels_ref, &x.args);
    for (int64_t t = 0; t < c.tokens; t++) {
        const attention_args args = cached_rows(&x, t, t + 1);
        void *part = mem_alloc((size_t)row_attention_part_bytes(&args)),
             *scratch = mem_alloc((size_t)row_attention_scratch_bytes(&args));
        for (int64_t unit = row_attention_units(&args); unit-- > 0;) // in any order
            k->row_attention(&args, unit, part, scratch);
        k->row_attention_join(&args, part);
        free(part), free(scratch);
    }
    array_expect(x.text, &x.cached, &x.whole, bound);
    problem_free(&x);
}

typedef void check_function(const kernels *k, dtype dt, cache_case c);

static void every_case(check_function *check) {
    const kernels *levels[4] = {&kernels_ref};
    const int n = 1 + vector_levels(levels + 1);
    for (int i = 0; i < n * N_CASES; i++) {
        check(levels[i / N_CASES], DT_F32, cases[i % N_CASES]);
        check(levels[i / N_CASES], DT_BF16, cases[i % N_CASES]);
    }
}

TEST(pieces) {
    const kernels *levels[MAX_ATTENTION_LEVELS];
    every_case(pieces_are_the_whole);
    for (int n = attention_levels(DT_BF16, levels); n-- > vector_levels(levels);)
        for (int i = 0; i < N_CASES; i++)
            pieces_are_the_whole(levels[n], DT_BF16, cases[i]);
}

TEST(rows) {
    every_case(a_row_sees_the_same);
}

// Chunks grow with the keys and cover them all; what is set aside for the longest is enough for all.
TEST(chunks) {
    attention_args most = {.dt = DT_F32, .n_heads = 6, .n_kv_heads = 2, .head_dim = 8};
    for (most.first = 0; most.first < 40000; most.first += 1 + most.first / 50) {
        attention_args args = most;
        for (args.first = most.first; args.first >= 0; args.first -= 1 + args.first / 7) {
            const int64_t n_chunks = row_attention_units(&args) / 2;
            assert_true(n_chunks >= 1 && n_chunks <= 64);
            assert_true(n_chunks * row_attention_chunk(&args) > args.first);
            assert_true(n_chunks * 6 * (8 + 2) * 4 <= row_attention_part_bytes(&most));
            assert_true(row_attention_scratch_bytes(&args) <= row_attention_scratch_bytes(&most));
        }
    }
}
