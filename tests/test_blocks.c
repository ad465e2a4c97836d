// Weights that are held in blocks of quantised numbers: what every level of kernels widens them to
// (gguf-py says what: tools/golden_gguf.py), products that read them, and numbers made into blocks.
#include "arrays.h"

#include <math.h>

#include "backend/cpu/gemm.h"
#include "gguf/gguf.h"

enum { COLUMNS = 512 }; // rows with two blocks of 256

// --- widening
static void widen_at(const kernels *k, const quant_type *type, const char *raw, const float *want,
        int64_t first, int64_t n) {
    float wide[256];
    uint16_t rounded[256];
    k->widen(DT_F32, type, raw, first, n, wide);
    k->widen(DT_BF16, type, raw, first, n, rounded);
    for (int64_t i = 0; i < n; i++) {
        const uint16_t nearest = f32_to_bf16(want[first + i]);
        if (memcmp(&wide[i], &want[first + i], sizeof *wide) != 0 || rounded[i] != nearest)
            fail_msg("%s, %s: column %lld is %.9g, in bf16 %04x, expected %.9g, %04x", k->name,
                    type->name, (long long)(first + i), (double)wide[i], rounded[i],
                    (double)want[first + i], nearest);
    }
}

// Sums of fp16 scales of both signs may be NaN by no rule: those rows are left out.
static bool all_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

TEST(levels_widen_as_gguf_py) {
    static const char *const types[] = {"F32", "F16", "BF16", "Q4_0", "Q5_1", "Q8_0", "Q3_K",
            "Q4_K", "Q5_K", "Q6_K"};
    gguf_file file;
    OK(gguf_open(a, golden_path(a, "gguf/quants.gguf"), &file));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const gguf_tensor *t = gguf_find_tensor(&file, types[i]),
                          *values = gguf_find_tensor(&file, arena_printf(a, "%s.f32", types[i]));
        char *raw = arena_alloc(a, (size_t)t->bytes);
        float *want = ARENA_ARRAY(a, float, values->elements);
        const int64_t columns = gguf_cols(t);
        OK(gguf_read_raw(&file, t, 0, gguf_rows(t), raw));
        OK(gguf_read_f32(&file, values, 0, gguf_rows(values), want));
        for (cpu_level level = CPU_REF; level <= cpu_detect(); level++)
            for (int64_t row = 0; row < gguf_rows(t); row++) {
                const char *blocks = raw + row * gguf_row_bytes(t);
                const float *numbers = want + row * columns;
                if (!all_finite(numbers, columns)) continue;
                for (int64_t first = 0; first < columns; first += WIDEN_UNIT)
                    widen_at(kernels_for(level), t->type, blocks, numbers, first, WIDEN_UNIT);
                widen_at(kernels_for(level), t->type, blocks, numbers, 0, columns);
                widen_at(kernels_for(level), t->type, blocks, numbers, 64, columns - 96);
            }
    }
    gguf_close(&file);
}

// --- numbers into blocks
static double root_mean_square(const float *x, const float *y, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (y ? (double)y[i] : 0);
        squares += d * d;
    }
    return sqrt(squares / (double)n);
}

// Rows of one size and of sizes that differ by four orders of magnitude, all alike, all 0, all
// positive, and one that stands out.
static float sample(int kind, int64_t i) {
    const float x = (float)noise(17, (uint64_t)i);
    switch (kind) {
    case 0:
        return x * 0.02f;
    case 1:
        return x * powf(10, (float)(i / 32 % 5) - 3);
    case 2:
        return -0.75f;
    case 3:
        return 0;
    case 4:
        return 3 + x;
    default:
        return i == 100 ? 40 : x;
    }
}

TEST(numbers_come_back_within_a_step) {
    // Of the largest of 32: half a step of 127 and the rounding of its scale to fp16; one of 15
    // steps, since ends of a range may be cut off. Half the smallest number of fp16, times what it
    // may stand for.
    static const struct {
        quant_id id;
        double step, floor;
    } cases[] = {{QUANT_Q8_0, 0.5 / 127 + 0x1p-11, 127 * 0x1p-25},
            {QUANT_Q4_K, 2.0 / 15, 63 * 15 * 0x1p-25}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int kind = 0; kind < 6; kind++) {
            const quant_type *type = quant_type_of(cases[c].id);
            float x[COLUMNS], y[COLUMNS];
            unsigned char blocks[2 * COLUMNS];
            for (int i = 0; i < COLUMNS; i++)
                x[i] = sample(kind, i);
            type->from_f32(x, COLUMNS / type->block, blocks);
            block_widen(type, blocks, 0, COLUMNS, y);
            for (int i = 0; i < COLUMNS; i++) {
                float most = 0; // of those that have a scale together
                const int group = cases[c].id == QUANT_Q4_K ? 256 : 32;
                for (int k = 0; k < group; k++)
                    most = fmaxf(most, fabsf(x[i / group * group + k]));
                const double allowed = 1.01 * cases[c].step * (double)most + cases[c].floor;
                if (!(fabs((double)x[i] - (double)y[i]) <= allowed))
                    fail_msg("%s, kind %d: %g came back as %g", type->name, kind, (double)x[i],
                            (double)y[i]);
            }
        }
}

// Uniform numbers of one size have a step of 1/15 of their width: an error of 1/15/sqrt(12) of it.
TEST(four_bits_are_used_well) {
    enum { N = 64 * 256 };
    const quant_type *type = quant_type_of(QUANT_Q4_K);
    float *x = mem_alloc(sizeof *x * N), *y = mem_alloc(sizeof *y * N);
    unsigned char *blocks = mem_alloc(N);
    for (int i = 0; i < N; i++)
        x[i] = (float)noise(5, (uint64_t)i);
    type->from_f32(x, N / type->block, blocks);
    block_widen(type, blocks, 0, N, y);
    const double error = root_mean_square(x, y, N), even = 2.0 / 15 / sqrt(12);
    if (!(error < 1.03 * even)) fail_msg("the error is %g, expected %g", error, even);
    free(x), free(y), free(blocks);
}

// Row by row no worse than ggml's own search, but for what one row in its weights is by chance
// (tools/golden_quantised.py).
TEST(four_bits_are_as_good_as_ggmls) {
    const quant_type *type = quant_type_of(QUANT_Q4_K);
    gguf_file file;
    OK(gguf_open(a, golden_path(a, "gguf/quantised.gguf"), &file));
    const gguf_tensor *numbers = gguf_find_tensor(&file, "Q4_K.numbers"),
                      *theirs = gguf_find_tensor(&file, "Q4_K.written");
    double mine = 0, other = 0;
    for (int64_t row = 0; row < gguf_rows(numbers); row++) {
        float *x = ARENA_ARRAY(a, float, COLUMNS), *y = ARENA_ARRAY(a, float, COLUMNS),
              *z = ARENA_ARRAY(a, float, COLUMNS);
        unsigned char blocks[COLUMNS];
        assert_int_equal(gguf_cols(numbers), COLUMNS);
        OK(gguf_read_f32(&file, numbers, row, 1, x));
        OK(gguf_read_f32(&file, theirs, row, 1, y));
        type->from_f32(x, COLUMNS / type->block, blocks);
        block_widen(type, blocks, 0, COLUMNS, z);
        const double size = root_mean_square(x, NULL, COLUMNS),
                     ours = root_mean_square(x, z, COLUMNS) / size,
                     ggml = root_mean_square(x, y, COLUMNS) / size;
        if (!(ours < 1.1 * ggml))
            fail_msg("row %lld: an error of %.4g, ggml's is %.4g", (long long)row, ours, ggml);
        mine += ours, other += ggml;
    }
    if (!(mine < 1.01 * other)) fail_msg("an error of %.4g, ggml's is %.4g", mine, other);
    gguf_close(&file);
}

// --- products
typedef struct held_product {
    gemm_shape s;
    block_matrix matrix;
    unsigned char *blocks;
    array a;
    char *wide; // the matrix as elements of s.in
    int64_t rows;
} held_product;

static void make_matrix(held_product *made, const quant_id *ids, int n_parts, int64_t rows,
        int64_t columns) {
    const int64_t unit = dtype_bytes(made->s.in);
    made->rows = rows;
    made->matrix = (block_matrix){.columns = columns, .n_parts = n_parts};
    for (int i = 0; i < n_parts; i++)
        made->matrix.part[i] =
                (block_rows){rows * (i + 1) / n_parts - rows * i / n_parts, quant_type_of(ids[i])};
    const int64_t bytes = block_matrix_bytes(&made->matrix);
    made->blocks = mem_alloc((size_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        made->blocks[i] = (unsigned char)(128 * (1 + noise(31, (uint64_t)i)));
    made->wide = mem_alloc((size_t)(rows * columns * unit));
    for (int64_t row = 0; row < rows; row++) {
        const quant_type *type;
        unsigned char *at = made->blocks + block_row_at(&made->matrix, row, &type);
        const uint16_t half = f32_to_f16(0.01f + (float)(row % 7) / 100); // scales that are finite
        for (int64_t b = 0; b < columns / type->block; b++) {
            unsigned char *block = at + b * type->block_bytes;
            if (type == quant_type_of(QUANT_Q6_K)) block += 208;
            memcpy(block, &half, 2);
            if (type == quant_type_of(QUANT_Q4_K)) memcpy(block + 2, &half, 2);
        }
        kernels_ref.widen(made->s.in, type, at, 0, columns, made->wide + row * columns * unit);
    }
}

static void expect_same_product(const kernels *by, const held_product *test, int64_t row,
        int64_t column) {
    gemm_shape held = test->s, plain = test->s;
    plain.ldb = test->matrix.columns;
    held.blocks = &test->matrix;
    held.b_row = row;
    held.b_column = column;
    const int64_t n = test->s.m * test->s.n * dtype_bytes(test->s.out),
                  bytes = gemm_scratch_bytes(&held);
    char *got = mem_zeroed((size_t)n), *want = mem_zeroed((size_t)n),
         *scratch = mem_alloc_lines((size_t)bytes + 64);
    memset(scratch + bytes, 0x5A, 64);
    by->gemm(&plain, test->a.p,
            test->wide + (row * test->matrix.columns + column) * dtype_bytes(test->s.in), want,
            scratch);
    by->gemm(&held, test->a.p, test->blocks, got, scratch);
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[bytes + i], 0x5A);
    if (memcmp(got, want, (size_t)n) != 0)
        fail_msg("%s, %s -> %s, tb %d, %lld x %lld x %lld from [%lld, %lld]: other bits", by->name,
                dtype_name(test->s.in), dtype_name(test->s.out), test->s.tb, (long long)test->s.m,
                (long long)test->s.n, (long long)test->s.k, (long long)row, (long long)column);
    free(got), free(want), free(scratch);
}

// All of a matrix, and parts that begin and end between blocks, over one and several blocks of k.
TEST(products_have_the_bits_of_widened_matrices) {
    static const quant_id ids[] = {QUANT_Q4_K, QUANT_Q8_0, QUANT_Q6_K};
    static const struct {
        int64_t rows, columns, row, column, n_rows, n_columns;
    } cases[] = {{60, 1024, 0, 0, 60, 1024}, {1700, 256, 0, 0, 1700, 256},
            {60, 512, 7, 48, 50, 431}, {1000, 256, 13, 96, 901, 145}};
    for (cpu_level level = CPU_REF; level <= cpu_detect(); level++)
        for (int form = 0; form < 8; form++)
            for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
                const bool tb = form & 1;
                held_product p = {.s = {.m = 21,
                                          .n = tb ? cases[c].n_rows : cases[c].n_columns,
                                          .k = tb ? cases[c].n_columns : cases[c].n_rows,
                                          .tb = tb,
                                          .in = form & 2 ? DT_BF16 : DT_F32,
                                          .out = form & 4 && form & 2 ? DT_BF16 : DT_F32,
                                          .accumulate = form & 4}};
                if (level < CPU_AVX2 && c > 1) continue; // slow
                p.s.lda = p.s.k;
                p.s.ldc = p.s.n;
                make_matrix(&p, ids, c % 2 ? 1 : 3, cases[c].rows, cases[c].columns);
                p.a = array_new(p.s.in, p.s.m * p.s.lda, 3, 1, 0);
                expect_same_product(kernels_for(level), &p, cases[c].row, cases[c].column);
                array_free(&p.a), free(p.wide), free(p.blocks);
            }
}

// The tiles of a team, and sums in reduction blocks; what is planned is enough.
static void tiles_and_blocks_by(gemm_choice choice) {
    static const gemm_tree trees[] = {{0}, {.n_blocks = 4, .n_segments = 1, .each = {192}},
            {.n_blocks = 4, .n_segments = 2, .first = {0, 512}, .each = {128, 64}}};
    static const quant_id ids[] = {QUANT_Q4_K, QUANT_Q6_K};
    arena *a = arena_new("gemm");
    gemm_machine *machine;
    OK(gemm_machine_open(a, choice, &machine));
    for (int form = 0; form < 6; form++) {
        const bool tb = form & 1;
        const gemm_tree *tree = &trees[form / 2];
        held_product p = {
                .s = {.m = 130, .n = 768, .k = 768, .tb = tb, .in = DT_BF16, .out = DT_BF16}};
        make_matrix(&p, ids, 2, 768, 768);
        p.s.lda = p.s.ldb = p.s.ldc = 768;
        p.a = array_new(DT_BF16, p.s.m * p.s.lda, 3, 1, 0);
        char *c[2];
        for (int held = 0; held < 2; held++) {
            gemm_shape s = p.s;
            gemm *g;
            if (held) s.blocks = &p.matrix;
            OK(gemm_new(a, machine, &s, tree, &g));
            const int64_t bytes = gemm_workspace(&s, tree, par_threads());
            char *workspace = mem_alloc_lines((size_t)bytes);
            c[held] = mem_zeroed((size_t)(s.m * s.ldc) * 2);
            gemm_run(g, p.a.p, held ? (const char *)p.blocks : p.wide, c[held], workspace, bytes);
            free(workspace);
        }
        assert_memory_equal(c[0], c[1], (size_t)(p.s.m * p.s.ldc) * 2);
        free(c[0]), free(c[1]), array_free(&p.a), free(p.wide), free(p.blocks);
    }
    gemm_machine_close(machine);
    arena_free(a);
}

// By vectors, and by the registers of AMX in plain C.
TEST(tiles_and_blocks_widen_their_part) {
    tiles_and_blocks_by(GEMM_FP32);
    tiles_and_blocks_by(GEMM_AMX_EMULATED);
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
