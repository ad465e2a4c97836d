// Attention and its gradient. Each level is held against the reference, which computes in double;
// and the arithmetics of bf16, fp32 and the dot product, against each other: they round the same
// values, so that only the order of their sums may tell them apart.
#include "arrays.h"

typedef struct attention_case {
    int64_t seq;
    int n_heads, n_kv_heads, head_dim;
    int document, window; // tokens
} attention_case;

static const attention_case cases[] = {
        {1, 1, 1, 2, 1, 0},
        {2, 3, 1, 2, 1, 0}, // a token sees itself alone
        {63, 2, 2, 8, 63, 0},
        {64, 2, 1, 32, 64, 0}, // a block
        {65, 4, 2, 16, 65, 0}, // a block and a token
        {127, 1, 1, 24, 31, 0},
        {130, 3, 1, 48, 50, 0},
        {257, 6, 2, 64, 100, 0},
        {320, 2, 1, 128, 320, 0}, // two chunks of keys
        {300, 9, 3, 64, 7, 0},
        {128, 2, 1, 6, 129, 0},
        {701, 2, 2, 20, 701, 0},
        {320, 2, 1, 32, 320,
                64}, // a window of a block, of less, of a token, of more than a document
        {257, 4, 2, 24, 200, 33},
        {130, 2, 2, 8, 130, 1},
        {701, 3, 1, 20, 90, 130},
};
enum { N_CASES = sizeof cases / sizeof *cases };

// The arrays of one case. o and lse: results of a forward pass, inputs of the gradient.
typedef struct problem {
    attention_args args;
    array qkv, o, lse, d_o, dqkv, part;
    int32_t *position, *hidden;
    char text[160];
} problem;

// Tokens that each document begins with, before two continuations that do not see each other; 0: it
// is one.
static int shared;

// What the tokens see, which are those from `first` on of what the keys begin.
static void see(problem *x, attention_case shape, int64_t first) {
    const int second = shared + (shape.document - shared) / 2;
    x->args.hidden = shared ? x->hidden : NULL;
    x->args.hidden_from = shared ? 7 : 0; // of any row
    for (int64_t t = 0; t < shape.seq; t++) {
        const int at = (int)((first + t) % shape.document);
        const bool later = shared && at >= second;
        x->position[t] = later ? shared + at - second : at;
        x->hidden[2 * t] = (int32_t)(7 + first + t - at + shared);
        x->hidden[2 * t + 1] = later ? (int32_t)(7 + first + t - at + second) : x->hidden[2 * t];
    }
}

// unit: see array_new.
static problem problem_new(dtype dt, attention_case shape, uint64_t seed, double unit) {
    const int64_t width = (shape.n_heads + 2 * shape.n_kv_heads) * shape.head_dim;
    const int64_t n_o = shape.seq * shape.n_heads * shape.head_dim;
    problem given = {.args = {.dt = dt,
                             .seq = shape.seq,
                             .n_heads = shape.n_heads,
                             .n_kv_heads = shape.n_kv_heads,
                             .head_dim = shape.head_dim,
                             .window = shape.window,
                             .lse_stride = shape.seq}};
    given.qkv = array_new(dt, shape.seq * width, seed, 1.5, unit);
    given.o = array_new(dt, n_o, seed + 1, 1, unit);
    given.lse = array_new(DT_F32, shape.n_heads * shape.seq, seed + 2, 1, 0);
    given.d_o = array_new(dt, n_o, seed + 3, 1, unit);
    given.dqkv = array_new(dt, shape.seq * width, seed + 4, 1, 0);
    given.part = array_new(DT_F32, attention_part_floats(&given.args), seed + 5, 1, 0);
    given.position = mem_alloc(sizeof *given.position * (size_t)shape.seq);
    given.hidden = mem_alloc(2 * sizeof *given.hidden * (size_t)shape.seq);
    see(&given, shape, 0);
    given.args.qkv = given.qkv.p, given.args.position = given.position, given.args.o = given.o.p,
    given.args.lse = given.lse.p;
    given.args.d_o = given.d_o.p, given.args.dqkv = given.dqkv.p, given.args.part = given.part.p;
    snprintf(given.text, sizeof given.text,
            "%s, %lld tokens, heads %d/%d of %d, documents of %d, %d shared, window %d, seed %d",
            dtype_name(dt), (long long)shape.seq, shape.n_heads, shape.n_kv_heads, shape.head_dim,
            shape.document, shared, shape.window, (int)seed);
    return given;
}

static void problem_free(problem *x) {
    array_free(&x->qkv), array_free(&x->o), array_free(&x->lse);
    array_free(&x->d_o), array_free(&x->dqkv), array_free(&x->part);
    free(x->position);
    free(x->hidden);
}

// Scratch full of NaN, of which nothing behind its end may change.
static void run_units(const char *name, void (*unit_of)(const attention_args *, int64_t, void *),
        const attention_args *args, int64_t n_units) {
    enum { AFTER = 64, NANS = 0xFF };
    const int64_t bytes = attention_scratch_bytes(args);
    unsigned char *scratch = mem_alloc((size_t)bytes + AFTER);
    memset(scratch, NANS, (size_t)bytes + AFTER);
    for (int64_t unit = 0; unit < n_units; unit++)
        unit_of(args, unit, scratch);
    for (int i = 0; i < AFTER; i++)
        if (scratch[bytes + i] != NANS) fail_msg("%s: byte %d after the scratch", name, i);
    free(scratch);
}

static void run_forward(const kernels *k, const attention_args *args) {
    run_units(k->name, k->attention, args, attention_units(args));
}

static void run_gradient(const kernels *k, const attention_args *args) {
    run_units(k->name, k->attention_grad, args, attention_grad_units(args));
    for (int64_t unit = 0; unit < attention_sum_units(args); unit++)
        k->attention_grad_sum(args, unit);
}

// The reference's results, which it takes longer for than all levels together.
static problem solved_by_reference(dtype dt, attention_case c) {
    problem want = problem_new(dt, c, 11, 0);
    run_forward(&kernels_ref, &want.args);
    run_gradient(&kernels_ref, &want.args);
    return want;
}

// Bound: products of K terms in the arithmetic of the type, c eps sqrt(K).
static void against_reference(const kernels *k, dtype dt, attention_case c, const problem *want) {
    const int longest = c.head_dim > c.document ? c.head_dim : c.document;
    const double bound = 4 * (dt == DT_BF16 ? 0x1p-8 : 0x1p-23) * sqrt((double)longest);
    problem got = problem_new(dt, c, 11, 0);
    char what[224];
    run_forward(k, &got.args);
    snprintf(what, sizeof what, "%s o, %s", k->name, got.text);
    array_expect(what, &got.o, &want->o, bound);
    snprintf(what, sizeof what, "%s lse, %s", k->name, got.text);
    array_expect(what, &got.lse, &want->lse, bound);
    got.args.o = want->o.p; // the gradients of one forward pass
    got.args.lse = want->lse.p;
    run_gradient(k, &got.args);
    snprintf(what, sizeof what, "%s dqkv, %s", k->name, got.text);
    array_expect(what, &got.dqkv, &want->dqkv, 2 * bound);
    array_guarded(what, &got.part);
    problem_free(&got);
}

static void expect_reference(attention_case shape) {
    const kernels *levels[MAX_ATTENTION_LEVELS];
    for (int i = 0; i < 2; i++) {
        const dtype dt = i % 2 ? DT_BF16 : DT_F32;
        const int n = attention_levels(dt, levels);
        problem want = solved_by_reference(dt, shape);
        for (int k = 0; k < n; k++)
            against_reference(levels[k], dt, shape, &want);
        problem_free(&want);
    }
}

TEST(every_level_is_the_reference) {
    for (int i = 0; i < N_CASES; i++)
        expect_reference(cases[i]);
}

// Also where all of a block of keys is hidden from one of queries, and in a window.
TEST(continuations_are_the_reference) {
    const struct {
        attention_case shape;
        int shared;
    } branches[] = {{{9, 2, 1, 6, 9, 0}, 1}, {{130, 4, 2, 16, 43, 0}, 20},
            {{300, 3, 1, 24, 290, 0}, 30}, {{257, 2, 2, 8, 257, 0}, 100},
            {{257, 2, 1, 16, 120, 50}, 40}, {{320, 2, 1, 32, 320, 0}, 1}};
    for (size_t i = 0; i < sizeof branches / sizeof *branches; i++) {
        shared = branches[i].shared;
        expect_reference(branches[i].shape);
    }
    shared = 0;
}

// Keys and values that no query of a strip sees are not multiplied: a NaN in those of the last
// token of a block reaches neither the output of its first 48 queries nor the gradient of these; by
// tiles, whose strips are longer, of its first 32.
TEST(unseen_keys_are_left_alone) {
    const attention_case shape = {64, 1, 1, 32, 64, 0};
    enum { WIDTH = 3 * 32, LAST = 63 * WIDTH + 32 };
    const kernels *levels[MAX_ATTENTION_LEVELS], *vectors[3];
    const int n_levels = attention_levels(DT_BF16, levels), n_vectors = vector_levels(vectors);
    for (int i = 0; i < 2 * n_levels; i++) {
        const dtype dt = i % 2 || i / 2 >= n_vectors ? DT_BF16 : DT_F32;
        const int64_t untouched = i / 2 < n_vectors ? 48 : 32;
        problem clean = problem_new(dt, shape, 5, 0), got = problem_new(dt, shape, 5, 0);
        for (int64_t j = 0; j < 2 * 32; j++)
            array_put(&got.qkv, LAST + j, (double)NAN);
        problem *const both[] = {&clean, &got};
        for (int k = 0; k < 2; k++) {
            run_forward(levels[i / 2], &both[k]->args);
            run_gradient(levels[i / 2], &both[k]->args);
        }
        for (int64_t t = 0; t < untouched; t++)
            for (int64_t j = 0; j < 32; j++) {
                if (array_at(&got.o, t * 32 + j) != array_at(&clean.o, t * 32 + j))
                    fail_msg("%s, %s: the output of token %lld has changed", levels[i / 2]->name,
                            dtype_name(dt), (long long)t);
                if (array_at(&got.dqkv, t * WIDTH + j) != array_at(&clean.dqkv, t * WIDTH + j))
                    fail_msg("%s, %s: the gradient of query %lld has changed", levels[i / 2]->name,
                            dtype_name(dt), (long long)t);
            }
        problem_free(&clean);
        problem_free(&got);
    }
}

// Elements of bf16 that differ at all; none by more than `error` and a rounding to a neighbour.
static int64_t count_flips(const char *what, const array *got, const array *want, double error) {
    int64_t n = 0;
    for (int64_t i = 0; i < got->n; i++) {
        const double a = array_at(got, i), b = array_at(want, i);
        if (fabs(a - b) > 0x1p-7 * fabs(b) + error)
            fail_msg("%s: [%lld] is %.9g and %.9g", what, (long long)i, a, b);
        n += a != b;
    }
    return n;
}

// q, k, v, o and d_o are multiples of 1/4 and the scale of scores is a power of 2, so scores, dP
// and delta are exact in fp32 in any order, and both arithmetics take P and dS from the same
// numbers by the same instructions. What follows are sums of `seq` terms: in any order they lie
// within seq 2^-24 sum |term| of the true one, two of them within twice that; a term is at most 8
// (P <= 1, |dS| <= |dP - delta| / 8 and elements <= 1.5). If one of them left P and dS unrounded,
// terms would differ by 2^-9 of their size, the sums by ten times the bound.
TEST(arithmetics_agree) {
    const attention_case exact[] = {{130, 4, 2, 64, 130, 0}, {64, 2, 1, 16, 40, 0},
            {97, 3, 3, 64, 97, 0}};
    const kernels *levels[3];
    const int n_tokens = vector_levels(levels);
    for (int i = 0; i < 3 * (n_tokens - 1); i++) {
        const kernels *fast = levels[i % (n_tokens - 1)], *other = levels[n_tokens - 1];
        problem x = problem_new(DT_BF16, exact[i / (n_tokens - 1)], 21, 0.25),
                y = problem_new(DT_BF16, exact[i / (n_tokens - 1)], 21, 0.25);
        char what[224];
        snprintf(what, sizeof what, "%s and %s, %s", fast->name, other->name, x.text);
        x.args.seq = y.args.seq = exact[i / (n_tokens - 1)].seq;
        array given = array_copy(&x.o); // the gradient takes an exact o
        run_forward(fast, &x.args);
        run_forward(other, &y.args);
        array_expect(what, &x.lse, &y.lse, (double)x.args.seq * 0x1p-23);
        // Sums beside the boundary of two bf16: 2^-24 sqrt(seq) of 2^-8.
        const int64_t flips = count_flips(what, &x.o, &y.o, 3 * (double)x.args.seq * 0x1p-24);
        if (flips > x.o.n / 200)
            fail_msg("%s: %lld of %lld outputs differ", what, (long long)flips, (long long)x.o.n);
        x.args.o = y.args.o = given.p;
        x.args.lse = y.args.lse;
        run_gradient(fast, &x.args);
        run_gradient(other, &y.args);
        array_expect(what, &x.part, &y.part, 2 * (double)x.args.seq * 0x1p-24 * 8 * 4);
        array_free(&given), problem_free(&x), problem_free(&y);
    }
}

// --- keys of another part of the row, as ranks that share rows have them (docs/adr/0015)
typedef struct other_part { // arrays beside those of a problem
    array keys, values, o, dq, dk, dv;
} other_part;

// The keys begin `first` tokens before the queries; a document is as long as the case says.
static other_part other_part_new(problem *x, int64_t first) {
    attention_args *args = &x->args;
    const int64_t d = args->head_dim, n_q = args->seq * args->n_heads * d,
                  n_k = args->seq * args->n_kv_heads * d;
    other_part made = {array_new(args->dt, n_k, 31, 1.5, 0), array_new(args->dt, n_k, 32, 1.5, 0),
            array_new(DT_F32, n_q, 33, 1, 0), array_new(DT_F32, n_q, 34, 1, 0),
            array_new(DT_F32, n_k, 35, 1, 0), array_new(DT_F32, n_k, 36, 1, 0)};
    args->keys = made.keys.p, args->values = made.values.p;
    args->capacity = args->n_keys = args->seq;
    args->first = first;
    args->o = made.o.p;
    args->o_is_acc = true;
    args->dqkv = NULL;
    args->dq = made.dq.p, args->dk = made.dk.p, args->dv = made.dv.p;
    return made;
}

static void other_part_free(other_part *x) {
    array *all[] = {&x->keys, &x->values, &x->o, &x->dq, &x->dk, &x->dv};
    for (int i = 0; i < 6; i++)
        array_free(all[i]);
}

// The results that `want`, `theirs` and `lse` hold are the reference's; `lse` is still without the
// ones for rows that see no key.
static void other_part_of_level(const kernels *level, dtype dt, attention_case shape, int64_t first,
        const problem *want, const other_part *theirs, const array *lse) {
    const double bound = 4 * (dt == DT_BF16 ? 0x1p-8 : 0x1p-23) * sqrt((double)shape.seq);
    problem got = problem_new(dt, shape, 11, 0);
    see(&got, shape, first);
    other_part mine = other_part_new(&got, first);
    run_forward(level, &got.args);
    char what[256];
    snprintf(what, sizeof what, "%s, %lld tokens on, %s", level->name, (long long)first, got.text);
    array_expect(what, &mine.o, &theirs->o, bound);
    for (int64_t i = 0; i < lse->n; i++)
        if (array_at(lse, i) == -HUGE_VAL) {
            if (array_at(&got.lse, i) != -HUGE_VAL) fail_msg("%s: lse of row %d", what, (int)i);
            ((float *)got.lse.p)[i] = 1;
        }
    array_expect(what, &got.lse, &want->lse, bound);
    got.args.o = want->args.o;
    got.args.lse = want->args.lse;
    run_gradient(level, &got.args);
    array_expect(what, &mine.dq, &theirs->dq, 2 * bound);
    array_expect(what, &mine.dk, &theirs->dk, 2 * bound);
    array_expect(what, &mine.dv, &theirs->dv, 2 * bound);
    other_part_free(&mine);
    problem_free(&got);
}

static void expect_other_part(dtype dt, attention_case shape, int64_t first) {
    problem want = problem_new(dt, shape, 11, 0);
    see(&want, shape, first); // counted from the document, which may be long before
    other_part theirs = other_part_new(&want, first);
    run_forward(&kernels_ref, &want.args);
    array lse = array_copy(&want.lse);
    for (int64_t i = 0; i < lse.n; i++) // no key is seen: as of other parts
        if (array_at(&lse, i) == -HUGE_VAL) ((float *)want.lse.p)[i] = 1;
    want.args.o = want.o.p; // what all parts together came to
    run_gradient(&kernels_ref, &want.args);
    const kernels *levels[MAX_ATTENTION_LEVELS];
    for (int n = attention_levels(dt, levels); n-- > 0;)
        other_part_of_level(levels[n], dt, shape, first, &want, &theirs, &lse);
    array_free(&lse), other_part_free(&theirs), problem_free(&want);
}

TEST(parts_of_a_row_are_the_reference) {
    const attention_case parts[] = {{1, 1, 1, 2, 9, 0}, {64, 4, 2, 16, 1000, 0},
            {65, 4, 2, 16, 100, 0}, {130, 6, 2, 48, 50, 0}, {300, 2, 1, 64, 350, 0},
            {130, 4, 2, 16, 1000, 70},
            {576, 4, 2, 8, 1000, 0}}; // the last: one of 4 chunks has no key
    for (int i = 0; i < 2; i++)
        for (size_t c = 0; c < sizeof parts / sizeof *parts; c++)
            for (int64_t away = 0; away < 3; away++) {
                const dtype dt = i % 2 ? DT_BF16 : DT_F32;
                expect_other_part(dt, parts[c], away * parts[c].seq);
                shared = parts[c].document / 3;
                expect_other_part(dt, parts[c], away * parts[c].seq);
                shared = 0;
            }
}

// --- tiles of AMX
// Makes queries and keys larger by `factor`, and those of later tokens still more: the largest
// score of a row grows with each block.
static void grow(problem *x, double factor) {
    const attention_args *args = &x->args;
    const int64_t n = (args->n_heads + args->n_kv_heads) * args->head_dim,
                  width = n + args->n_kv_heads * args->head_dim;
    for (int64_t i = 0; i < x->qkv.n; i++)
        if (i % width < n)
            array_put(&x->qkv, i,
                    array_at(&x->qkv, i) * factor *
                            (1 + (double)(i / width) / (double)args->seq * 8));
}

static void expect_plain_bits(const tile_kernels *by, attention_case shape, double factor) {
    const tile_kernels *both[] = {by, &tiles_amx_emulated};
    problem x[2];
    for (int i = 0; i < 2; i++) {
        const kernels k = {.name = both[i]->name,
                .attention = both[i]->attention,
                .attention_grad = both[i]->attention_grad,
                .attention_grad_sum = both[i]->attention_grad_sum};
        x[i] = problem_new(DT_BF16, shape, 17, 0);
        grow(&x[i], factor);
        run_forward(&k, &x[i].args);
        run_gradient(&k, &x[i].args);
    }
    array_expect(x[0].text, &x[0].o, &x[1].o, 0);
    array_expect(x[0].text, &x[0].lse, &x[1].lse, 0);
    array_expect(x[0].text, &x[0].dqkv, &x[1].dqkv, 0);
    problem_free(&x[0]), problem_free(&x[1]);
}

static void expect_plain_bits_of_all(const tile_kernels *by) {
    for (int i = 0; i < N_CASES; i++) {
        shared = i % 2 ? cases[i].document / 3 : 0;
        expect_plain_bits(by, cases[i], i % 3 ? 1 : 9);
        shared = 0;
    }
}

TEST(instructions_give_the_bits_of_plain_c) {
    const tile_kernels *amx = gemm_amx(cpu_detect());
#ifdef EMULATED_AVX512
    extern const tile_kernels tiles_emulated_avx512;
    if (cpu_detect() >= CPU_AVX512) expect_plain_bits_of_all(&tiles_emulated_avx512);
#endif
    if (amx) expect_plain_bits_of_all(amx);
    if (amx) return;
    print_message("skipped: no AMX here\n");
    skip();
}

// The largest score of a row grows by more than what tiles leave to the sums of before.
TEST(growing_scores_are_the_reference) {
    const attention_case shape = {257, 2, 1, 64, 257, 0};
    const kernels *levels[MAX_ATTENTION_LEVELS];
    problem want = problem_new(DT_BF16, shape, 23, 0);
    grow(&want, 1);
    run_forward(&kernels_ref, &want.args);
    for (int i = attention_levels(DT_BF16, levels); i-- > 0;) {
        problem got = problem_new(DT_BF16, shape, 23, 0);
        grow(&got, 1);
        run_forward(levels[i], &got.args);
        array_expect(levels[i]->name, &got.o, &want.o, 0x1p-6);
        array_expect(levels[i]->name, &got.lse, &want.lse, 0x1p-6);
        problem_free(&got);
    }
    problem_free(&want);
}
