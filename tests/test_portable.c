// The kernels' bits on every processor: those of plain C are recorded, and each level above it that
// this processor has gives the same, also for infinities, denormal numbers and NaN (whose sign and
// payload alone may differ).
#include "arrays.h"

#include <math.h>

#include "base/cpu.h"
#include "base/exact_sum.h"

// A number of the bits of all elements; any NaN counts as one.
static uint64_t hash_of(uint64_t hash, const array *x) {
    for (int64_t i = 0; i < x->n; i++) {
        const float value = (float)array_at(x, i);
        uint32_t bits = 0x7FC00000;
        if (!isnan(value)) memcpy(&bits, &value, sizeof bits);
        hash = (hash ^ bits) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

// Values whose sums depend on their order. special: with some that arithmetic treats apart.
static array values(dtype dt, int64_t n, uint64_t seed, bool special) {
    static const double apart[] = {0, -0.0, 0x1p-149, -0x1.8p-130, 0x1p-126, 1e38, -3e38, 87.9,
            -87.4, -126.3, 0x1.01p0, 0x1.03p0};
    array x = array_new(dt, n, seed, 3, 0);
    for (int64_t i = 0; special && i < n; i += 7)
        array_put(&x, i, apart[(uint64_t)(i / 7) % (sizeof apart / sizeof *apart)]);
    return x;
}

static uint64_t with_nan(const kernels *k, dtype dt, int64_t n, uint64_t hash) {
    for (int64_t at = 0; at < n; at += 5) { // wherever it stands, a maximum keeps or drops it alike
        array x = values(DT_F32, n, 3, false);
        array_put(&x, at, at % 2 ? (double)NAN : (double)INFINITY);
        double max;
        const double sum = k->exponents(dt, n, x.p, &max);
        array both = array_new(DT_F32, 2, 0, 0, 0);
        array_put(&both, 0, sum), array_put(&both, 1, max);
        hash = hash_of(hash_of(hash, &x), &both);
        array_free(&x), array_free(&both);
    }
    return hash;
}

// --- the cases: of a table, a type and a length
typedef uint64_t case_function(const kernels *k, dtype dt, int64_t n);

static uint64_t norms(const kernels *level, dtype dt, int64_t length) {
    array x = values(dt, 2 * length, 1, false), d = values(dt, 2 * length, 2, false),
          w = values(DT_F32, length, 3, false), h = values(dt, 2 * length, 4, false),
          y = values(dt, 2 * length, 5, false), r = values(DT_F32, 2, 6, false),
          dw = values(DT_F32, length, 7, false);
    level->rmsnorm(dt, 2, length, x.p, d.p, w.p, 1e-5, h.p, y.p, r.p);
    uint64_t hash = hash_of(hash_of(hash_of(0, &h), &y), &r);
    level->rmsnorm(dt, 2, length, x.p, NULL, w.p, 1e-5, NULL, y.p, r.p);
    level->rmsnorm_grad(dt, 2, length, d.p, x.p, w.p, r.p, h.p, y.p, dw.p);
    hash = hash_of(hash_of(hash_of(hash, &r), &y), &dw);
    array_free(&x), array_free(&d), array_free(&w), array_free(&h), array_free(&y);
    array_free(&r), array_free(&dw);
    return hash;
}

static uint64_t elements(const kernels *level, dtype dt, int64_t length) {
    array left = values(dt, 2 * length, 1, true), right = values(dt, length, 2, true),
          acc = values(DT_F32, length, 3, true), result = values(dt, 2 * length, 4, false);
    const dropout_args drop = {{5, RNG_DROPOUT, 3}, 9, 0.3};
    const rounding by = {11, 13, 17};
    level->add(dt, length, left.p, right.p, result.p);
    uint64_t hash = hash_of(0, &result);
    level->narrow(dt, length, acc.p, right.p, result.p);
    level->accumulate(dt, length, right.p, acc.p);
    hash = hash_of(hash_of(hash, &result), &acc);
    level->scaled(dt, length, acc.p, 1.0 / 3, result.p);
    hash = hash_of(hash, &result);
    level->dropout(dt, &drop, 5, length, left.p, result.p);
    hash = hash_of(hash, &result);
    level->swiglu(dt, 1, length, left.p, result.p);
    hash = hash_of(hash, &result);
    level->swiglu_grad(dt, 1, length, right.p, left.p, result.p);
    hash = hash_of(hash, &result);
    if (dt == DT_BF16) level->add_rounded(dt, length, acc.p, right.p, &by);
    hash = hash_of(hash, &right);
    double parts[SQUARES_SUMS];
    exact_sum sum = {0};
    const int n_parts =
            level->squares(dt, length < SQUARES_MOST ? length : SQUARES_MOST, result.p, parts);
    for (int i = 0; i < n_parts; i++)
        exact_add(&sum, parts[i]);
    array squares = array_new(DT_F32, 1, 0, 0, 0);
    array_put(&squares, 0, exact_value(&sum));
    hash = hash_of(hash, &squares);
    array_free(&left), array_free(&right), array_free(&acc), array_free(&result),
            array_free(&squares);
    return hash;
}

static uint64_t updates(const kernels *level, dtype dt, int64_t length) {
    const adamw_args args = {.lr = 1e-3,
            .beta1 = 0.9,
            .beta2 = 0.95,
            .eps = 1e-8,
            .weight_decay = 0.1,
            .c1 = 0.1,
            .c2 = 0.05,
            .grad_scale = 0.7};
    const adamw_types types = {dt, dt, dt};
    const rounding by = {3, 5, 7};
    array p = values(dt, length, 1, true), m = values(dt, length, 2, false),
          v = values(dt, length, 3, false), g = values(dt, length, 4, true),
          w = array_new(DT_BF16, length, 0, 0, 0);
    for (int64_t i = 0; i < length; i++)
        array_put(&v, i, fabs(array_at(&v, i)));
    if (dt == DT_F32)
        level->adamw(DT_F32, length, p.p, m.p, v.p, g.p, &args, w.p);
    else
        level->adamw_rounded(&types, length, p.p, m.p, v.p, g.p, &args, &by, NULL);
    const uint64_t hash = hash_of(hash_of(hash_of(hash_of(0, &p), &m), &v), &w);
    array_free(&p), array_free(&m), array_free(&v), array_free(&g), array_free(&w);
    return hash;
}

static uint64_t muon(const kernels *k, dtype dt, int64_t n) {
    const momentum_args args = {.decay = 0.95, .grad_scale = 0.7, .g = dt, .to = dt};
    array m = values(DT_F32, n, 1, true), g = values(dt, n, 2, true), u = values(dt, n, 3, false),
          p = values(DT_F32, n, 4, true), z = values(DT_F32, n, 5, false),
          w = array_new(DT_BF16, n, 0, 0, 0);
    k->momentum(DT_F32, n, m.p, g.p, u.p, &args);
    uint64_t hash = hash_of(hash_of(0, &m), &u);
    k->combine(dt, dt, n, 0.3, u.p, z.p, u.p);
    k->descend(DT_F32, n, p.p, z.p, 0.02, 0.1, w.p);
    hash = hash_of(hash_of(hash_of(hash, &u), &p), &w);
    array_free(&m), array_free(&g), array_free(&u), array_free(&p), array_free(&z), array_free(&w);
    return hash;
}

static uint64_t loss(const kernels *k, dtype dt, int64_t n) {
    array logits = values(DT_F32, n, 1, false), d = values(dt, n, 2, false),
          of_row = array_new(DT_F32, 1, 0, 0, 0);
    array_put(&of_row, 0, k->cross_entropy(dt, n, logits.p, n / 2, 0.25, d.p));
    const uint64_t hash = with_nan(k, dt, n, hash_of(hash_of(hash_of(0, &logits), &d), &of_row));
    array_free(&logits), array_free(&d), array_free(&of_row);
    return hash;
}

static uint64_t rotation(const kernels *k, dtype dt, int64_t n) {
    enum { D = 20, ROWS = 3 };
    const rope_args args = {D, 500000, 8, 1, 4, 8192};
    const int32_t positions[ROWS] = {0, (int32_t)n, (int32_t)(31 * n + 100000)};
    array table = array_new(DT_F32, ROWS * D, 0, 0, 0), x = values(dt, ROWS * 3 * D, 1, false);
    k->rope_table(dt, &args, ROWS, positions, table.p);
    k->rope(dt, ROWS, 3 * D, 2, D, x.p, table.p, n % 2, x.p);
    const uint64_t hash = hash_of(hash_of(0, &table), &x);
    array_free(&table), array_free(&x);
    return hash;
}

// All forms of a product of n rows and columns, and one of several blocks of the inner dimension.
static uint64_t products(const kernels *level, dtype dt, int64_t length) {
    uint64_t hash = 0;
    for (int form = 0; form < 10; form++) {
        const int64_t inner = form < 8 ? length : GEMM_WORDS + length;
        const bool adds = form & 4, narrow = dt == DT_BF16 && form % 3 == 0;
        const gemm_shape s = {.m = length / 2 + 1,
                .n = length,
                .k = inner,
                .ta = form & 1,
                .tb = form & 2,
                .lda = form & 1 ? length / 2 + 1 : inner,
                .ldb = form & 2 ? inner : length,
                .ldc = length,
                .in = dt,
                .out = narrow ? DT_BF16 : DT_F32,
                .accumulate = adds,
                .scale = form == 5 ? 0.7 : 0};
        array a = values(dt, s.m * inner, 1, form == 7), b = values(dt, inner * length, 2, false),
              c = values(s.out, s.m * length, 3, false);
        void *scratch = mem_alloc((size_t)gemm_scratch_bytes(&s));
        level->gemm(&s, a.p, b.p, c.p, scratch);
        hash = hash_of(hash, &c);
        free(scratch), array_free(&a), array_free(&b), array_free(&c);
    }
    return hash;
}

static uint64_t attentions(const kernels *level, dtype dt, int64_t length) {
    enum { HEADS = 4, KV = 2, D = 24 };
    array qkv = values(dt, length * (HEADS + 2 * KV) * D, 1, false),
          output = values(dt, length * HEADS * D, 2, false),
          lse = values(DT_F32, length * HEADS, 3, false),
          d_o = values(dt, length * HEADS * D, 4, false), dqkv = values(dt, qkv.n, 5, false);
    int32_t *position = mem_alloc(sizeof *position * (size_t)length);
    for (int64_t t = 0; t < length; t++)
        position[t] = (int32_t)(t % 77); // documents
    attention_args args = {.dt = dt,
            .seq = length,
            .n_heads = HEADS,
            .n_kv_heads = KV,
            .head_dim = D,
            .qkv = qkv.p,
            .position = position,
            .o = output.p,
            .lse = lse.p,
            .lse_stride = length,
            .d_o = d_o.p,
            .dqkv = dqkv.p};
    array part = array_new(DT_F32, attention_part_floats(&args), 0, 0, 0);
    args.part = part.p;
    void *scratch = mem_alloc((size_t)attention_scratch_bytes(&args));
    for (int64_t unit = 0; unit < attention_units(&args); unit++)
        level->attention(&args, unit, scratch);
    for (int64_t unit = 0; unit < attention_grad_units(&args); unit++)
        level->attention_grad(&args, unit, scratch);
    for (int64_t unit = 0; unit < attention_sum_units(&args); unit++)
        level->attention_grad_sum(&args, unit);
    const uint64_t hash = hash_of(hash_of(hash_of(0, &output), &lse), &dqkv);
    free(scratch), free(position), array_free(&qkv), array_free(&output), array_free(&lse);
    array_free(&d_o), array_free(&dqkv), array_free(&part);
    return hash;
}

static uint64_t generation(const kernels *level, dtype dt, int64_t length) {
    enum { HEADS = 6, KV = 2, HEAD_DIM = 40 };
    array row = values(dt, length, 1, false), matrix = values(dt, 3 * length, 2, false),
          product = values(dt, 3, 3, false), queries = values(dt, HEADS * HEAD_DIM, 4, false),
          keys = values(dt, KV * length * HEAD_DIM, 5, false),
          cached = values(dt, KV * length * HEAD_DIM, 6, false),
          output = values(dt, HEADS * HEAD_DIM, 7, false);
    level->row_times_matrix(dt, 3, length, row.p, matrix.p, product.p);
    const attention_args args = {.dt = dt,
            .seq = 1,
            .n_heads = HEADS,
            .n_kv_heads = KV,
            .head_dim = HEAD_DIM,
            .qkv = queries.p,
            .o = output.p,
            .keys = keys.p,
            .values = cached.p,
            .capacity = length,
            .first = length - 1};
    void *part = mem_alloc((size_t)row_attention_part_bytes(&args)),
         *scratch = mem_alloc((size_t)row_attention_scratch_bytes(&args));
    for (int64_t unit = 0; unit < row_attention_units(&args); unit++)
        level->row_attention(&args, unit, part, scratch);
    level->row_attention_join(&args, part);
    const uint64_t hash = hash_of(hash_of(0, &product), &output);
    free(part), free(scratch), array_free(&row), array_free(&matrix), array_free(&product),
            array_free(&queries);
    array_free(&keys), array_free(&cached), array_free(&output);
    return hash;
}

static const struct {
    const char *name;
    case_function *run;
    int64_t longest;
    uint64_t recorded[2]; // of f32 and bf16, with all lengths
} cases[] = {
        {"norms", norms, 600, {0x778382A51347D1F0, 0xAA293481BD7DCAEE}},
        {"elements", elements, 600, {0x2221AF3E02798D3B, 0xA19093786201F110}},
        {"updates", updates, 600, {0xCCD1A60EA06E6636, 0xDB46B3792BCE92D6}},
        {"muon", muon, 600, {0x1E30529197CC9BA9, 0xD36BD4316912ECDA}},
        {"loss", loss, 600, {0xB80F45E120BF7765, 0x351D0A8D5CD44838}},
        {"rotation", rotation, 600, {0x17B6FF96E1976649, 0xADF73D5E99EF268D}},
        {"products", products, 100, {0x51A177443E2A0FA6, 0xC4A2F23A5503AA2B}},
        {"attention", attentions, 200, {0xEC179B174440F494, 0x177106BD7704A5C1}},
        {"generation", generation, 600, {0x757A718412D23A1B, 0x3A6119CF9F76540F}},
};

TEST(every_level_gives_the_recorded_bits) {
    static const int64_t lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 31, 33, 63, 64, 65, 80,
            100, 129, 150, 200, 335, 600};
    const int top = (int)(cpu_detect() < CPU_AVX512 ? cpu_detect() : CPU_AVX512);
    int n_bad = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int i = 0; i < 2 * (top - (int)CPU_PLAIN + 1); i++) {
            const dtype dt = i % 2 ? DT_BF16 : DT_F32;
            const kernels *level = kernels_for((cpu_level)((int)CPU_PLAIN + i / 2));
            uint64_t hash = 0;
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
                if (lengths[l] <= cases[c].longest)
                    hash = hash * 0x9E3779B97F4A7C15u + cases[c].run(level, dt, lengths[l]);
            if (hash == cases[c].recorded[i % 2]) continue;
            n_bad++;
            print_error("%s of %s by %s: 0x%016llX, recorded is 0x%016llX\n", cases[c].name,
                    dtype_name(dt), level->name, (unsigned long long)hash,
                    (unsigned long long)cases[c].recorded[i % 2]);
        }
    assert_int_equal(n_bad, 0);
}

// A level whose table lacks a new kernel would end a run.
TEST(every_level_has_every_kernel) {
    for (int level = CPU_REF; level <= (int)CPU_AVX512_BF16; level++) {
        const kernels *k = kernels_for((cpu_level)level);
        void (*members[sizeof *k / sizeof(void (*)(void))])(void);
        memcpy(members, k, sizeof *k);
        for (size_t i = 0; i < sizeof members / sizeof *members; i++)
            if (!members[i]) fail_msg("member %d of kernels_%s is not set", (int)i, k->name);
    }
}
