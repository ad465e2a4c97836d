// Tile registers and the products that go by them (docs/adr/0040). The plain C that defines the
// instruction against a model of Intel's manual in whole numbers (tools/golden_tiles.py); products
// in plain C against loops in the order that gemm_tiles.h states, to the bit, at sizes that cross
// each of its blocks; where the processor has AMX, its instructions against the plain C.
#include "harness.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/gemm.h"
#include "kernels/levels/tiles.h"

enum { AFTER = 64, UNTOUCHED = 0x5A };

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// --- one dot product
enum { GOLDEN_WORDS = 1 + 2 * TILE_SIDE };

typedef struct golden_case {
    uint32_t word[GOLDEN_WORDS], want; // a sum, a row, a column
    bool nan;
} golden_case;

static bool read_case(FILE *f, golden_case *out) {
    char want[16];
    for (int i = 0; i < GOLDEN_WORDS; i++)
        if (fscanf(f, "%x", &out->word[i]) != 1) return false;
    assert_int_equal(fscanf(f, "%15s", want), 1);
    out->nan = strcmp(want, "nan") == 0;
    out->want = out->nan ? 0 : (uint32_t)strtoul(want, NULL, 16);
    return true;
}

// Cases are the diagonal of a tile: case i is row i, and column i.
static void run_cases(const golden_case *cases, int n_cases) {
    uint32_t sums_before[TILE_SIDE][TILE_SIDE] = {0}, rows[TILE_SIDE][TILE_SIDE] = {0},
             columns[TILE_SIDE][TILE_SIDE] = {0}, after[TILE_SIDE][TILE_SIDE];
    for (int i = 0; i < n_cases; i++) {
        sums_before[i][i] = cases[i].word[0];
        for (int w = 0; w < TILE_SIDE; w++) {
            rows[i][w] = cases[i].word[1 + w];
            columns[w][i] = cases[i].word[1 + TILE_SIDE + w];
        }
    }
    for (int at = 0; at < 4; at++) {
        const int i = at / 2, j = at % 2;
        tiles_begin();
        tile_zero(SUMS_TILE + at);
        tile_load(SUMS_TILE + at, sums_before, 64);
        tile_load(ROWS_TILE + i, rows, 64);
        tile_load(COLUMNS_TILE + j, columns, 64);
        tile_dot(i, j);
        tile_store(SUMS_TILE + at, after, 64);
        tiles_end();
        for (int k = 0; k < n_cases; k++)
            if (cases[k].nan ? !isnan(float_of(after[k][k])) : after[k][k] != cases[k].want)
                fail_msg("sum %x, words %x %x ... and %x %x ...: %x, expected %x%s",
                        cases[k].word[0], cases[k].word[1], cases[k].word[2],
                        cases[k].word[1 + TILE_SIDE], cases[k].word[2 + TILE_SIDE], after[k][k],
                        cases[k].want, cases[k].nan ? " (any NaN)" : "");
    }
}

TEST(as_the_manual_says) {
    golden_case cases[TILE_SIDE];
    int n = 0, all = 0;
    FILE *f = fopen(golden_path(a, "tiles.txt"), "r");
    assert_non_null(f);
    while (read_case(f, &cases[n])) {
        all++;
        if (++n < TILE_SIDE) continue;
        run_cases(cases, n);
        n = 0;
    }
    run_cases(cases, n);
    fclose(f);
    assert_true(all > 150);
}

// The plain C ends a program whose use of registers would fault.
TEST(registers_that_are_not_there) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        tiles_begin();
        tiles_end();
        tile_dot(0, 0);
        _exit(0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGABRT);
}

// --- products
typedef struct result_type {
    dtype out;
    bool accumulate;
    double scale;
} result_type;
static const result_type types[] = {{DT_F32, false, 0}, {DT_F32, true, 0}, {DT_F32, false, 0.37},
        {DT_F32, true, 0.37}, {DT_BF16, false, 0}, {DT_BF16, true, 0}, {DT_BF16, true, 0.37}};
enum { N_TYPES = sizeof types / sizeof *types, FORMS = 4 };

// One strip and more, one group and more; 576 elements are a block.
static const int64_t sizes[][3] = {{1, 1, 1}, {16, 16, 32}, {17, 33, 31}, {32, 32, 64},
        {33, 31, 65}, {48, 49, 200}, {5, 20, 640}, {20, 17, 641}, {18, 34, 768}, {34, 18, 769},
        {7, 40, 1300}, {70, 100, 30}, {3, 4, 0}, {33, 70, 576}, {40, 33, 577}};
enum { N_SIZES = sizeof sizes / sizeof *sizes, GAP = 3 };

// Element (i, k) of a, or (k, j) of b, wherever they lie. any: of all bit patterns.
static uint16_t element(int seed, int64_t i, int64_t k, bool any) {
    const double x = noise((uint64_t)seed, (uint64_t)(i * 5000 + k));
    return any ? (uint16_t)((x + 1) * 32768) : f32_to_bf16((float)x);
}

// The sum over k as it is documented: groups of 32 elements, in each the even and the odd ones.
static float chain(int64_t i, int64_t j, int64_t n_k) {
    float sum = 0;
    for (int64_t k0 = 0; k0 < n_k; k0 += 32) {
        float even = 0, odd = 0;
        for (int64_t k = k0; k < k0 + 32 && k < n_k; k++) {
            const float a = bf16_to_f32(element(1, i, k, false)),
                        b = bf16_to_f32(element(2, j, k, false));
            if (k % 2)
                odd = fmaf(a, b, odd);
            else
                even = fmaf(a, b, even);
        }
        sum += even + odd;
    }
    return sum;
}

// Arrays of a product, with gaps between rows; of `transposed` k elements of a line are a row.
static uint16_t *operand_of(int seed, int64_t lines, int64_t n_k, bool along, bool any) {
    const int64_t ld = (along ? n_k : lines) + GAP, rows = along ? lines : n_k;
    uint16_t *p = mem_alloc(sizeof *p * (size_t)(rows * ld + 1));
    for (int64_t i = 0; i < rows * ld; i++)
        p[i] = 0x7FC0; // NaN: nobody multiplies by a gap
    for (int64_t line = 0; line < lines; line++)
        for (int64_t k = 0; k < n_k; k++)
            p[along ? line * ld + k : k * ld + line] = element(seed, line, k, any);
    return p;
}

static void *before_of(dtype dt, int64_t n) {
    char *p = mem_alloc((size_t)(n * dtype_bytes(dt) + 1));
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)noise(3, (uint64_t)i);
        if (dt == DT_BF16)
            ((uint16_t *)(void *)p)[i] = f32_to_bf16(x);
        else
            ((float *)(void *)p)[i] = x;
    }
    return p;
}

static gemm_shape shape_of(const int64_t *size, int form, const result_type *type) {
    const bool ta = form & 1, tb = form & 2;
    return (gemm_shape){.m = size[0],
            .n = size[1],
            .k = size[2],
            .ta = ta,
            .tb = tb,
            .lda = (ta ? size[0] : size[2]) + GAP,
            .ldb = (tb ? size[2] : size[1]) + GAP,
            .ldc = size[1] + GAP,
            .in = DT_BF16,
            .out = type->out,
            .accumulate = type->accumulate,
            .scale = type->scale};
}

// The result, rows with gaps; nothing but it and the scratch that there is was written.
static void *multiply(const tile_kernels *by, const gemm_shape *s, bool any) {
    uint16_t *a = operand_of(1, s->m, s->k, !s->ta, any),
             *b = operand_of(2, s->n, s->k, s->tb, any);
    void *c = before_of(s->out, s->m * s->ldc);
    const int64_t bytes = gemm_scratch_bytes(s);
    unsigned char *scratch = mem_alloc((size_t)bytes + AFTER);
    memset(scratch + bytes, UNTOUCHED, AFTER);
    by->gemm(s, a, b, c, scratch);
    for (int i = 0; i < AFTER; i++)
        if (scratch[bytes + i] != UNTOUCHED)
            fail_msg("%s, %lld x %lld x %lld: byte %d after the scratch", by->name, (long long)s->m,
                    (long long)s->n, (long long)s->k, i);
    free(a), free(b), free(scratch);
    return c;
}

static void expect_order(const gemm_shape *s, const float *sums) {
    void *c = multiply(&tiles_amx_emulated, s, false), *want = before_of(s->out, s->m * s->ldc);
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            const int64_t at = i * s->ldc + j;
            const float product = sums[i * s->n + j] * (float)gemm_scale(s);
            if (s->out == DT_F32) {
                float *to = (float *)want + at;
                *to = s->accumulate ? *to + product : product;
            } else {
                uint16_t *to = (uint16_t *)want + at;
                *to = f32_to_bf16(s->accumulate ? bf16_to_f32(*to) + product : product);
            }
        }
    if (memcmp(c, want, (size_t)(s->m * s->ldc * dtype_bytes(s->out))) != 0)
        fail_msg("%lld x %lld x %lld, ta %d, tb %d, to %s, accumulate %d, scale %g: other bits",
                (long long)s->m, (long long)s->n, (long long)s->k, s->ta, s->tb, dtype_name(s->out),
                s->accumulate, s->scale);
    free(c), free(want);
}

TEST(in_the_order_that_is_stated) {
    for (int i = 0; i < N_SIZES; i++) {
        const int64_t m = sizes[i][0], n = sizes[i][1];
        float *sums = mem_alloc(sizeof *sums * (size_t)(m * n));
        for (int64_t at = 0; at < m * n; at++)
            sums[at] = chain(at / n, at % n, sizes[i][2]);
        for (int form = 0; form < FORMS * N_TYPES; form++) {
            const gemm_shape s = shape_of(sizes[i], form % FORMS, &types[form / FORMS]);
            expect_order(&s, sums);
        }
        free(sums);
    }
}

static bool same_number(const gemm_shape *s, const void *x, const void *y, int64_t at) {
    const float a = s->out == DT_F32 ? ((const float *)x)[at]
                                     : bf16_to_f32(((const uint16_t *)x)[at]),
                b = s->out == DT_F32 ? ((const float *)y)[at]
                                     : bf16_to_f32(((const uint16_t *)y)[at]);
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

// Of ordinary numbers, and of all bit patterns: denormal and infinite numbers and NaN among them.
TEST(by_the_instructions) {
    const tile_kernels *amx = gemm_amx(cpu_detect());
    if (!amx) {
        print_message("skipped: no AMX here\n");
        skip();
    }
    for (int i = 0; i < N_SIZES; i++)
        for (int form = 0; form < FORMS * N_TYPES * 2; form++) {
            const bool any = form >= FORMS * N_TYPES;
            const gemm_shape s = shape_of(sizes[i], form % FORMS, &types[form / FORMS % N_TYPES]);
            void *got = multiply(amx, &s, any), *want = multiply(&tiles_amx_emulated, &s, any);
            for (int64_t at = 0; at < s.m * s.ldc; at++)
                if (!same_number(&s, got, want, at))
                    fail_msg("%lld x %lld x %lld, form %d: element %lld has other bits",
                            (long long)s.m, (long long)s.n, (long long)s.k, form, (long long)at);
            free(got), free(want);
        }
    amx->spin(10);
}

// A result of half a megabyte, whose rows begin on cache lines, is written past the caches where b
// lies as weights do. It is that of its parts, which are not.
TEST(past_the_caches) {
    enum { M = 530, N = 548, LD = 576, K = 40, PART = 137 };
    const tile_kernels *const all[] = {&tiles_amx_emulated, gemm_amx(cpu_detect())};
    uint16_t *rows = operand_of(1, M, K, true, false), *columns = operand_of(2, N, K, true, false);
    for (int of = 0; of < 4 && all[of / 2]; of++) {
        gemm_shape s = {.m = M,
                .n = N,
                .k = K,
                .tb = true,
                .lda = K + GAP,
                .ldb = K + GAP,
                .ldc = LD,
                .in = DT_BF16,
                .out = of % 2 ? DT_BF16 : DT_F32};
        const int64_t unit = dtype_bytes(s.out), bytes = M * LD * unit;
        char *got = aligned_alloc(64, (size_t)bytes), *want = mem_alloc((size_t)bytes);
        void *scratch = mem_alloc((size_t)gemm_scratch_bytes(&s));
        memset(got, UNTOUCHED, (size_t)bytes), memset(want, UNTOUCHED, (size_t)bytes);
        all[of / 2]->gemm(&s, rows, columns, got, scratch);
        s.n = PART;
        for (int64_t j = 0; j < N; j += PART)
            tiles_amx_emulated.gemm(&s, rows, columns + j * s.ldb, want + j * unit, scratch);
        assert_memory_equal(got, want, (size_t)bytes);
        free(got), free(want), free(scratch);
    }
    free(rows), free(columns);
}

TEST(what_may_be_asked_for) {
    gemm_machine *machine;
    cpu_level level;
    OK(cpu_level_chosen(&level));
    setenv("DROVER_GEMM", "amx", 1);
    if (gemm_amx(level)) {
        OK(gemm_machine_open(a, GEMM_BY_RULE, &machine));
        assert_string_equal(gemm_arithmetic(machine), "AMX");
        gemm_machine_close(machine);
    } else {
        FAILS(gemm_machine_open(a, GEMM_BY_RULE, &machine), DRV_E_USAGE,
                "DROVER_GEMM is \"amx\", but ");
    }
    setenv("DROVER_CPU", "plain", 1);
    FAILS(gemm_machine_open(a, GEMM_BY_RULE, &machine), DRV_E_USAGE,
            "the kernels are plain, expected avx512 or higher");
    setenv("DROVER_GEMM", "onednn", 1);
    FAILS(gemm_machine_open(a, GEMM_BY_RULE, &machine), DRV_E_USAGE,
            "DROVER_GEMM is \"onednn\", expected fp32, bf16, amx or amx_emulated");
    unsetenv("DROVER_CPU");
    unsetenv("DROVER_GEMM");
}
