// Tiled products against plain loops in double: all transpositions and types, rows with gaps, sizes
// that leave rests in m, n and k, both arithmetics of bf16, 1 to 16 threads, sums in reduction
// blocks.
#include "harness.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/gemm.h"

static double get(dtype dt, const void *p, int64_t i) {
    return dt == DT_BF16 ? (double)bf16_to_f32(((const uint16_t *)p)[i])
                         : (double)((const float *)p)[i];
}

// Numbers of a table of noise, in steps that depend on the seed: drawing each anew took longer than
// the products.
static void *random_array(dtype dt, int64_t n, uint64_t seed) {
    enum { N_DRAWN = 65521 }; // a prime: no two rows are alike
    static float drawn[N_DRAWN];
    for (uint64_t i = 0; drawn[0] == 0 && i < N_DRAWN; i++)
        drawn[N_DRAWN - 1 - i] = (float)noise(1, i);
    char *p = mem_alloc((size_t)(n * dtype_bytes(dt)));
    for (int64_t i = 0; i < n; i++) {
        const float x = drawn[((uint64_t)i * (seed % 9973 + 1) + 7919 * seed) % N_DRAWN];
        if (dt == DT_BF16)
            ((uint16_t *)(void *)p)[i] = f32_to_bf16(x);
        else
            ((float *)(void *)p)[i] = x;
    }
    return p;
}

// A product and the arrays that it is of. Rows have gaps; c is the result of the machine, before
// what was there.
typedef struct product {
    gemm_shape s;
    char *x, *y, *before, *c;
    uint64_t seed;
} product;

static product product_new(gemm_shape s, uint64_t seed) {
    s.lda = (s.ta ? s.m : s.k) + 3;
    s.ldb = (s.tb ? s.k : s.n) + 5;
    s.ldc = s.n + 2;
    const int64_t n_c = s.m * s.ldc;
    return (product){s, random_array(s.in, (s.ta ? s.k : s.m) * s.lda, seed),
            random_array(s.in, (s.tb ? s.n : s.k) * s.ldb, seed + 1),
            random_array(s.out, n_c, seed + 2), random_array(s.out, n_c, seed + 2), seed};
}

static void product_free(product *p) {
    free(p->x), free(p->y), free(p->before), free(p->c);
}

// A factor as doubles, [rows, k] without gaps: every sum is of two rows, and widens nothing again.
static double *dense_rows(const gemm_shape *s, const void *p, int64_t rows, int64_t step,
        int64_t step_k, double scale) {
    double *out = mem_alloc(sizeof *out * (size_t)(rows * s->k + 1));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < s->k; k++)
            out[i * s->k + k] = scale * get(s->in, p, i * step + k * step_k);
    return out;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum[4] = {0}; // four chains of additions instead of one
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

// Error of a sum of k products of numbers below 1 in fp32, 2^-24 sqrt(k) for each rounding that
// matters, and one rounding to the output type.
static double bound_of(const gemm_shape *s) {
    return 8 * 0x1p-24 * (double)s->k + (s->out == DT_BF16 ? 0x1p-8 * 2 * sqrt((double)s->k) : 0);
}

static void refuse(const product *test, int64_t i, int64_t j, double got, double want) {
    const gemm_shape *s = &test->s;
    fail_msg("%s->%s %lldx%lldx%lld ta %d tb %d acc %d seed %d: [%lld,%lld] is %.7g, "
             "expected %.7g",
            dtype_name(s->in), dtype_name(s->out), (long long)s->m, (long long)s->n,
            (long long)s->k, s->ta, s->tb, s->accumulate, (int)test->seed, (long long)i,
            (long long)j, got, want);
}

// What a product comes to, [m, ldc]: the gaps between rows stay as they were. Free it.
static double *reference(const product *test) {
    const gemm_shape *s = &test->s;
    double *x = dense_rows(s, test->x, s->m, s->ta ? 1 : s->lda, s->ta ? s->lda : 1, gemm_scale(s)),
           *y = dense_rows(s, test->y, s->n, s->tb ? s->ldb : 1, s->tb ? 1 : s->ldb, 1),
           *want = mem_alloc(sizeof *want * (size_t)(s->m * s->ldc + 1));
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->ldc; j++) {
            const int64_t at = i * s->ldc + j;
            const bool gap = j >= s->n;
            want[at] = gap || s->accumulate ? get(s->out, test->before, at) : 0;
            if (!gap) want[at] += dot(x + i * s->k, y + j * s->k, s->k);
        }
    free(x), free(y);
    return want;
}

static void check_result(const product *test, const double *want) {
    const gemm_shape *s = &test->s;
    const double bound = bound_of(s);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->ldc; j++) {
            const int64_t at = i * s->ldc + j;
            const double got = get(s->out, test->c, at);
            if (!(fabs(got - want[at]) <= (j >= s->n ? 0 : bound)))
                refuse(test, i, j, got, want[at]);
        }
}

// Once more, from what was there.
static void start_again(const product *p) {
    memcpy(p->c, p->before, (size_t)(p->s.m * p->s.ldc * dtype_bytes(p->s.out)));
}

// Types as the trainer multiplies them; scales as LoRA does.
typedef struct types {
    dtype in, out;
    bool accumulate;
    double scale;
} types;
static const types all_types[] = {{DT_F32, DT_F32, false, 0}, {DT_F32, DT_F32, true, 0},
        {DT_BF16, DT_BF16, false, 0}, {DT_BF16, DT_F32, false, 0}, {DT_BF16, DT_F32, true, 0},
        {DT_BF16, DT_BF16, true, 0}, {DT_BF16, DT_BF16, true, 0.7}, {DT_F32, DT_F32, true, 1.7},
        {DT_BF16, DT_BF16, false, 1.5}};
enum { N_TYPES = sizeof all_types / sizeof *all_types };

// Around register tiles (8 x 48, 4 x 24), panels (16), blocks of k (768 words) and tiles of threads.
static const int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 5}, {7, 47, 31}, {8, 48, 32}, {9, 49, 33},
        {17, 33, 64}, {16, 23, 767}, {5, 25, 769}, {130, 200, 70}, {65, 650, 40}, {40, 24, 2100},
        {530, 130, 20}, {70, 140, 1024}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// Of sizes of m, n, k each with every type, and both operands as they are and transposed.
static gemm_shape nth_shape(const int64_t (*of)[3], int i) {
    const int64_t *size = of[i / 4 / N_TYPES];
    const types t = all_types[i / 4 % N_TYPES];
    return (gemm_shape){.m = size[0],
            .n = size[1],
            .k = size[2],
            .ta = i & 1,
            .tb = i & 2,
            .in = t.in,
            .out = t.out,
            .accumulate = t.accumulate,
            .scale = t.scale};
}

// A way to multiply.
typedef struct way {
    const char *level; // of the processor; NULL: the best
    gemm_choice choice;
    int threads;
} way;
enum { MAX_MACHINES = 16 };

// The tiles of AMX, by its instructions where the processor has them.
static gemm_choice tiles(void) {
    return gemm_amx(cpu_detect()) ? GEMM_AMX : GEMM_AMX_EMULATED;
}

static int all_ways(way *out) {
    int n = 0;
    cpu_level chosen;
    OK(cpu_level_chosen(&chosen));
    if (chosen >= CPU_AVX512_BF16) out[n++] = (way){NULL, GEMM_BF16, 2};
    for (int l = CPU_REF; l <= (int)cpu_detect(); l++) {
        if (l == CPU_PLAIN && cpu_detect() > CPU_PLAIN) continue; // see vector_levels
        out[n++] = (way){cpu_level_name((cpu_level)l), GEMM_FP32, 2};
    }
    out[n++] = (way){NULL, GEMM_FP32, 3};
    out[n++] = (way){NULL, tiles(), 2};
    return n;
}

static void check(arena *a, const way *by, gemm_machine *m, const product *p, const double *want) {
    gemm *g;
    par_set_threads(by->threads);
    OK(gemm_new(a, m, &p->s, NULL, &g));
    void *workspace = mem_alloc((size_t)gemm_bytes(g));
    start_again(p);
    gemm_run(g, p->x, p->y, p->c, workspace, gemm_bytes(g));
    check_result(p, want);
    free(workspace);
}

// Every shape and type, in every way that this processor has.
TEST(every_way) {
    way ways[MAX_MACHINES];
    gemm_machine *machines[MAX_MACHINES];
    const int n_ways = all_ways(ways);
    for (int w = 0; w < n_ways; w++) {
        if (ways[w].level) setenv("DROVER_CPU", ways[w].level, 1);
        OK(gemm_machine_open(a, ways[w].choice, &machines[w]));
        unsetenv("DROVER_CPU");
    }
    for (int i = 0; i < N_SIZES * N_TYPES * 4; i++) {
        product p = product_new(nth_shape(sizes, i), (uint64_t)(10 * i));
        double *want = reference(&p);
        for (int w = 0; w < n_ways; w++)
            check(a, &ways[w], machines[w], &p, want);
        free(want), product_free(&p);
    }
    for (int w = 0; w < n_ways; w++)
        gemm_machine_close(machines[w]);
    par_set_threads(2);
}

// A sum of no products is 0, or what was there; a product of no rows or columns touches nothing.
TEST(empty_products) {
    static const int64_t empty[][3] = {{9, 50, 0}, {0, 50, 7}, {9, 0, 7}};
    for (int i = 0; i < 3 * N_TYPES * 4; i++) {
        for (int level = CPU_REF; level <= (int)cpu_detect(); level++) {
            product p = product_new(nth_shape(empty, i), 5);
            void *scratch = mem_alloc((size_t)gemm_scratch_bytes(&p.s));
            double *want = reference(&p);
            kernels_for((cpu_level)level)->gemm(&p.s, p.x, p.y, p.c, scratch);
            check_result(&p, want);
            free(want), free(scratch), product_free(&p);
        }
    }
}

// What was planned for a product, and a line after it that nobody may write.
enum { AFTER = 64, UNTOUCHED = 0x5A };

static void run_in_plan(gemm_machine *m, arena *a, const product *p, const gemm_tree *tree) {
    gemm_shape s = p->s;
    gemm *g;
    if (tree->partial_sums) s.k /= tree->partial_sums;
    OK(gemm_new(a, m, &s, tree, &g));
    const int64_t bytes = gemm_workspace(&s, tree, par_threads());
    unsigned char *workspace = mem_alloc((size_t)bytes + AFTER);
    memset(workspace + bytes, UNTOUCHED, AFTER);
    start_again(p);
    gemm_run(g, p->x, p->y, p->c, workspace, bytes);
    for (int i = 0; i < AFTER; i++)
        if (workspace[bytes + i] != UNTOUCHED)
            fail_msg("%s by %s, %d threads, %d reduction blocks: byte %d after %lld of scratch was written",
                    dtype_name(s.in), gemm_arithmetic(m), par_threads(), tree->n_blocks, i,
                    (long long)bytes);
    free(workspace);
}

static const gemm_tree trees[] = {{0}, {.n_blocks = 8, .n_segments = 1, .each = {6}},
        {.partial_sums = 3}, {.n_blocks = 4, .n_segments = 1, .each = {4}, .partial_sums = 3}};
enum { N_FORMS = 2 * sizeof trees / sizeof *trees };

static product product_of_form(int form) {
    const bool adds = trees[form / 2].partial_sums > 0;
    return product_new((gemm_shape){.m = 190,
                               .n = 410,
                               .k = 48,
                               .ta = adds,
                               .in = form & 1 ? DT_BF16 : DT_F32,
                               .out = DT_F32,
                               .accumulate = adds},
            7);
}

static void forms_of_a_plan(const product *forms, double *const *wants) {
    arena *a = arena_new("gemm");
    gemm_machine *machine;
    OK(gemm_machine_open(a, GEMM_BY_RULE, &machine));
    for (int form = 0; form < N_FORMS; form++) {
        run_in_plan(machine, a, &forms[form], &trees[form / 2]);
        check_result(&forms[form], wants[form]);
    }
    gemm_machine_close(machine);
    arena_free(a);
}

// A reduction block of two runs, each longer than the kernels pack at once: the second one is added
// to the first, for which they form its sum aside.
TEST(long_runs_of_blocks) {
    enum { RUN = 4 * GEMM_WORDS }; // whole blocks, of pairs too: no room is left over
    static const gemm_tree tree = {.n_blocks = 1,
            .n_segments = 2,
            .first = {0, RUN},
            .each = {RUN, RUN}};
    gemm_machine *machine;
    OK(gemm_machine_open(a, GEMM_BY_RULE, &machine));
    for (int i = 0; i < 2; i++) {
        const gemm_shape s = {.m = 150,
                .n = 336,
                .k = 2 * RUN,
                .in = i ? DT_BF16 : DT_F32,
                .out = DT_F32};
        product p = product_new(s, 7);
        double *want = reference(&p);
        run_in_plan(machine, a, &p, &tree);
        check_result(&p, want);
        free(want), product_free(&p);
    }
    gemm_machine_close(machine);
}

// Whatever multiplies, the plan, which is made without a machine, has scratch enough for the tiles
// of any number of threads: they fit it, and sums are right.
TEST(any_number_of_threads) {
    const char *arithmetics[] = {"fp32", tiles() == GEMM_AMX ? "amx" : "amx_emulated", "bf16"};
    product forms[N_FORMS];
    double *wants[N_FORMS];
    for (int form = 0; form < N_FORMS; form++) {
        forms[form] = product_of_form(form);
        wants[form] = reference(&forms[form]);
    }
    for (int i = 0; i < (cpu_detect() < CPU_AVX512_BF16 ? 2 : 3); i++) {
        setenv("DROVER_GEMM", arithmetics[i], 1);
        for (int threads = 1; threads <= 16; threads += i == 1 ? 5 : 1) { // plain C is slow
            par_set_threads(threads);
            forms_of_a_plan(forms, wants);
        }
    }
    for (int form = 0; form < N_FORMS; form++)
        free(wants[form]), product_free(&forms[form]);
    unsetenv("DROVER_GEMM");
    par_set_threads(2);
}

// Scratch that is too small ends the program before anything else is overwritten.
TEST(too_little_scratch) {
    gemm_machine *machine;
    gemm *g;
    OK(gemm_machine_open(a, GEMM_FP32, &machine));
    product p = product_new((gemm_shape){.m = 9, .n = 50, .k = 7, .in = DT_F32, .out = DT_F32}, 1);
    OK(gemm_new(a, machine, &p.s, NULL, &g));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        void *workspace = mem_alloc((size_t)gemm_bytes(g));
        gemm_run(g, p.x, p.y, p.c, workspace, gemm_bytes(g) - 1);
        _exit(0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGABRT);
    product_free(&p);
    gemm_machine_close(machine);
}

// A product cut for any number of threads has the bits of one that is not cut; by tiles of AMX as
// well, a smaller one, since plain C is slow.
TEST(bits) {
    for (int form = 0; form < 13; form++) { // from 8 on by tiles, then by the bf16 dot product
        const gemm_choice choice = form < 8 ? GEMM_FP32 : form == 8 ? tiles() : GEMM_BF16;
        if (choice == GEMM_BF16 && cpu_detect() < CPU_AVX512_BF16) break;
        const int64_t rows = form == 8 ? 130 : 530, columns = form == 8 ? 200 : 400,
                      inner = form == 8 ? 660 : 1700;
        const dtype in = form < 4 ? DT_F32 : DT_BF16;
        const gemm_shape shape = {.m = rows,
                .n = columns,
                .k = inner,
                .ta = form & 1,
                .tb = form & 2,
                .lda = form & 1 ? rows : inner,
                .ldb = form & 2 ? inner : columns,
                .ldc = columns,
                .in = in,
                .out = in};
        char *x = random_array(in, rows * inner, 1), *y = random_array(in, columns * inner, 2);
        char *want = random_array(in, rows * columns, 3),
             *got = random_array(in, rows * columns, 3);
        void *scratch = mem_alloc((size_t)gemm_scratch_bytes(&shape));
        gemm_machine *m;
        OK(gemm_machine_open(a, choice, &m));
        gemm_kernels(m, in)->gemm(&shape, x, y, want, scratch);
        for (int threads = 1; threads < 8; threads++) {
            gemm *g;
            par_set_threads(threads);
            OK(gemm_new(a, m, &shape, NULL, &g));
            void *workspace = mem_alloc((size_t)gemm_bytes(g));
            memset(got, 0xFF, (size_t)(rows * columns * dtype_bytes(in)));
            gemm_run(g, x, y, got, workspace, gemm_bytes(g));
            free(workspace);
            assert_memory_equal(got, want, (size_t)(rows * columns * dtype_bytes(in)));
        }
        gemm_machine_close(m);
        free(x), free(y), free(want), free(got), free(scratch);
    }
    par_set_threads(2);
}

// c += a b has the bits of a b, stored, and then added: so ranks may add what others have computed.
// 2,000 and 4,000 elements of k are several blocks of any arithmetic.
TEST(a_sum_is_added_as_a_whole) {
    enum { M = 37, N = 101, FORMS = 8 };
    for (int i = 0; i < FORMS * ((int)cpu_detect() + 1); i++) {
        const kernels *by = kernels_for((cpu_level)(i / FORMS));
        const int form = i % FORMS;
        const gemm_shape shape = {.m = M,
                .n = N,
                .k = form & 4 ? 4000 : 2000,
                .ta = form & 1,
                .in = form & 2 ? DT_BF16 : DT_F32,
                .out = DT_F32,
                .accumulate = true};
        product p = product_new(shape, 10);
        float *sum = mem_zeroed(sizeof *sum * (size_t)(M * p.s.ldc)), *c = (float *)(void *)p.c;
        void *scratch = mem_alloc((size_t)gemm_scratch_bytes(&p.s));
        by->gemm(&p.s, p.x, p.y, p.c, scratch);
        p.s.accumulate = false;
        by->gemm(&p.s, p.x, p.y, sum, scratch);
        for (int64_t at = 0; at < M * p.s.ldc; at++) {
            const float want = (float)get(DT_F32, p.before, at) + sum[at];
            if (c[at] != want)
                fail_msg("%s, form %d: %.9g, expected %.9g", by->name, form, (double)c[at],
                        (double)want);
        }
        free(scratch), free(sum), product_free(&p);
    }
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
