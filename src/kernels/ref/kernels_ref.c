// The definition of every kernel but attention and rope's table: plain loops in double.
#include <math.h>

#include "kernels/ref/exact_squares.h"

static void add(dtype dt, int64_t n, const void *a, const void *b, void *y) {
    for (int64_t i = 0; i < n; i++)
        put(dt, y, i, get(dt, a, i) + get(dt, b, i));
}

static void accumulate(dtype dt, int64_t n, const void *x, void *acc) {
    for (int64_t i = 0; i < n; i++)
        accumulate_at(dtype_acc(dt), acc, i, get(dt, x, i));
}

static void narrow(dtype dt, int64_t n, const void *x, const void *c, void *y) {
    for (int64_t i = 0; i < n; i++) {
        const double sum = get(dtype_acc(dt), x, i);
        put(dt, y, i, c ? sum + get(dt, c, i) : sum);
    }
}

static double magnitude(dtype dt, int64_t n, const void *x) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double size = fabs(get(dt, x, i));
        if (!(size <= largest)) largest = size;
        if (isnan(size)) break;
    }
    return largest;
}

// The spacing of the format's numbers around v is 2^-fraction_bits of the power of 2 below |v|, and
// below the normal numbers what it is above them.
static void round_fp8(dtype dt, const fp8_format *to, int64_t n, int scale, const void *x,
        void *y) {
    for (int64_t i = 0; i < n; i++) {
        const double v = ldexp(get(dt, x, i), scale);
        int exponent = to->min_exponent;
        if (fabs(v) >= ldexp(1, exponent)) exponent = ilogb(v);
        const int spacing = exponent - to->fraction_bits;
        put(dt, y, i, ldexp(nearbyint(ldexp(v, -spacing)), spacing - scale));
    }
}

static void rmsnorm(dtype dt, int64_t rows, int64_t width, const void *x, const void *d,
        const void *w, double eps, void *h, void *y, void *r) {
    const dtype acc = dtype_acc(dt);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t o = i * width;
        double sum = 0;
        for (int64_t j = 0; j < width; j++) {
            if (d) put(dt, h, o + j, get(dt, x, o + j) + get(dt, d, o + j));
            double v = get(dt, d ? h : x, o + j);
            sum += v * v;
        }
        double s = 1 / sqrt(sum / (double)width + eps);
        put(acc, r, i, s);
        for (int64_t j = 0; j < width; j++)
            put(dt, y, o + j, get(dt, d ? h : x, o + j) * s * get(acc, w, j));
    }
}

static void rmsnorm_grad(dtype dt, int64_t rows, int64_t width, const void *dy, const void *x,
        const void *w, const void *r, const void *dh, void *dx, void *dw) {
    const dtype acc = dtype_acc(dt);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t o = i * width;
        const double s = get(acc, r, i);
        double dot = 0;
        for (int64_t j = 0; j < width; j++)
            dot += get(dt, dy, o + j) * get(acc, w, j) * get(dt, x, o + j);
        const double k = s * s * dot / (double)width;
        for (int64_t j = 0; j < width; j++) {
            double g = get(dt, dy, o + j), v = get(dt, x, o + j),
                   past = dh ? get(dt, dh, o + j) : 0;
            if (dw) accumulate_at(acc, dw, j, g * v * s);
            put(dt, dx, o + j, s * (g * get(acc, w, j) - v * k) + past);
        }
    }
}

static void rope(dtype dt, int64_t rows, int64_t width, int n_heads, int head_dim, const void *x,
        const void *table, bool inverse, void *y) {
    const dtype acc = dtype_acc(dt);
    const int half = head_dim / 2;
    for (int64_t i = 0; i < rows; i++) {
        for (int h = 0; h < n_heads; h++)
            for (int j = 0; j < half; j++) {
                int64_t at = i * width + (int64_t)h * head_dim + j;
                double c = get(acc, table, i * head_dim + j);
                double s = get(acc, table, i * head_dim + half + j) * (inverse ? -1 : 1);
                double a = get(dt, x, at), b = get(dt, x, at + half);
                put(dt, y, at, a * c - b * s);
                put(dt, y, at + half, b * c + a * s);
            }
        if (x == y) continue;
        for (int64_t j = (int64_t)n_heads * head_dim; j < width; j++)
            put(dt, y, i * width + j, get(dt, x, i * width + j));
    }
}

static void swiglu(dtype dt, int64_t rows, int64_t width, const void *gu, void *y) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            double g = get(dt, gu, 2 * i * width + j), u = get(dt, gu, (2 * i + 1) * width + j);
            put(dt, y, i * width + j, g / (1 + exp(-g)) * u);
        }
}

static void swiglu_grad(dtype dt, int64_t rows, int64_t width, const void *dy, const void *gu,
        void *dgu) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            int64_t at_g = 2 * i * width + j, at_u = at_g + width;
            double g = get(dt, gu, at_g), u = get(dt, gu, at_u), d = get(dt, dy, i * width + j);
            double s = 1 / (1 + exp(-g)); // silu'(g) = s + g s (1 - s)
            put(dt, dgu, at_g, d * u * (s + g * s * (1 - s)));
            put(dt, dgu, at_u, d * g * s);
        }
}

static double cross_entropy(dtype dt, int64_t n, void *logits, int64_t label, double scale,
        void *d) {
    const dtype acc = dtype_acc(dt);
    double max = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < n; j++)
        max = fmax(max, get(acc, logits, j));
    for (int64_t j = 0; j < n; j++)
        sum += exp(get(acc, logits, j) - max);
    const double loss = max + log(sum) - get(acc, logits, label);
    for (int64_t j = 0; d && j < n; j++) // d never runs ahead of the logits it overwrites
        put(dt, d, j, scale * (exp(get(acc, logits, j) - max) / sum - (j == label ? 1 : 0)));
    return loss;
}
static double exponents(dtype dt, int64_t n, void *x, double *max) {
    const dtype acc = dtype_acc(dt);
    double sum = 0;
    *max = -HUGE_VAL;
    for (int64_t j = 0; j < n; j++)
        *max = fmax(*max, get(acc, x, j));
    for (int64_t j = 0; j < n; j++) {
        const double e = exp(get(acc, x, j) - *max);
        put(acc, x, j, e);
        sum += e;
    }
    return sum;
}
static void scaled(dtype dt, int64_t n, const void *x, double factor, void *y) {
    for (int64_t j = 0; j < n; j++)
        put(dt, y, j, factor * get(dtype_acc(dt), x, j));
}

static void dropout(dtype dt, const dropout_args *args, int64_t first, int64_t n, const void *x,
        void *y) {
    enum { COUNTERS = DROPOUT_GROUP / 4 };
    for (int64_t i = 0; i < n; i++) {
        const int64_t e = first + i, in_group = e % DROPOUT_GROUP;
        uint32_t words[4];
        rng_block(&args->key,
                dropout_block(args, e / DROPOUT_GROUP) + (uint64_t)(in_group % COUNTERS), words);
        const bool kept = words[in_group / COUNTERS] >= dropout_threshold(args);
        put(dt, y, i, kept ? get(dt, x, i) / (1 - args->rate) : 0 * get(dt, x, i));
    }
}

static int squares(dtype dt, int64_t n, const void *x, double *parts) {
    if (dt == DT_F32) return exact_squares(DT_F32, n, x, parts);
    if (dt == DT_BF16) return exact_squares(DT_BF16, n, x, parts);
    parts[0] = 0;
    for (int64_t i = 0; i < n; i++)
        parts[0] += get(dt, x, i) * get(dt, x, i);
    return 1;
}

static void adamw(dtype acc, int64_t n, void *p, void *m, void *v, void *g, const adamw_args *args,
        uint16_t *w) {
    for (int64_t i = 0; i < n; i++) {
        double x = get(acc, g, i) * args->grad_scale;
        double mi = args->beta1 * get(acc, m, i) + (1 - args->beta1) * x;
        double vi = args->beta2 * get(acc, v, i) + (1 - args->beta2) * x * x;
        double pi = get(acc, p, i) * (1 - args->lr * args->weight_decay);
        pi -= args->lr * (mi / args->c1) / (sqrt(vi / args->c2) + args->eps);
        put(acc, p, i, pi);
        put(acc, m, i, mi);
        put(acc, v, i, vi);
        put(acc, g, i, 0);
        if (w) w[i] = f32_to_bf16((float)get(acc, p, i));
    }
}

static void momentum(dtype acc, int64_t n, void *m, void *g, void *u, const momentum_args *args) {
    for (int64_t i = 0; i < n; i++) {
        const double x = get(args->g, g, i) * args->grad_scale,
                     mi = args->decay * get(acc, m, i) + (1 - args->decay) * x;
        put(acc, m, i, mi);
        put(args->g, g, i, 0);
        put(args->to, u, i, args->decay * mi + (1 - args->decay) * x);
    }
}

static void combine(dtype dt, dtype to, int64_t n, double factor, const void *x, const void *z,
        void *y) {
    for (int64_t i = 0; i < n; i++) {
        const double product = factor * get(dt, x, i);
        put(to, y, i, z ? product + get(dtype_acc(dt), z, i) : product);
    }
}

static void descend(dtype acc, int64_t n, void *p, const void *o, double lr, double weight_decay,
        uint16_t *w) {
    for (int64_t i = 0; i < n; i++) {
        const double pi = get(acc, p, i);
        put(acc, p, i, pi - lr * (get(acc, o, i) + weight_decay * pi));
        if (w) w[i] = f32_to_bf16((float)get(acc, p, i));
    }
}

// x by `bits` where it is kept in bf16.
static void put_rounded(dtype dt, void *p, int64_t i, double x, uint32_t bits) {
    if (dt == DT_BF16)
        ((uint16_t *)p)[i] = f32_to_bf16_by((float)x, bits);
    else
        put(dt, p, i, x);
}

static void adamw_rounded(const adamw_types *types, int64_t n, void *p, void *m, void *v, void *g,
        const adamw_args *args, const rounding *by, uint16_t *w) {
    const dtype moments = types->moments;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t word1 = rounding_word1(by, (uint32_t)i), word2 = rounding_word2(by, word1);
        double x = get(types->g, g, i) * args->grad_scale;
        double mi = args->beta1 * get(moments, m, i) + (1 - args->beta1) * x;
        double vi = args->beta2 * get(moments, v, i) + (1 - args->beta2) * x * x;
        double pi = get(types->p, p, i) * (1 - args->lr * args->weight_decay);
        pi -= args->lr * (mi / args->c1) / (sqrt(vi / args->c2) + args->eps);
        put_rounded(types->p, p, i, pi, word2);
        put_rounded(moments, m, i, mi, word1);
        put_rounded(moments, v, i, vi, word1 >> 16);
        put(types->g, g, i, 0);
        if (w) w[i] = f32_to_bf16((float)get(types->p, p, i));
    }
}

static void add_rounded(dtype dt, int64_t n, const void *x, void *sum, const rounding *by) {
    const dtype acc = dtype_acc(dt);
    for (int64_t i = 0; i < n; i++)
        put_rounded(dt, sum, i, get(dt, sum, i) + get(acc, x, i), rounding_word1(by, (uint32_t)i));
}

static void widen(dtype dt, const quant_type *type, const void *row, int64_t first, int64_t n,
        void *out) {
    float values[WIDEN_UNIT];
    for (int64_t at = 0; at < n; at += WIDEN_UNIT) {
        const int64_t take = n - at < WIDEN_UNIT ? n - at : WIDEN_UNIT;
        block_widen(type, row, first + at, take, values);
        for (int64_t i = 0; i < take; i++)
            put(dt, out, at + i, (double)values[i]);
    }
}

static void row_times_matrix(dtype dt, int64_t n, int64_t k, const void *x, const void *w,
        void *y) {
    for (int64_t i = 0; i < n; i++) {
        double s = 0;
        for (int64_t j = 0; j < k; j++)
            s += get(dt, x, j) * get(dt, w, i * k + j);
        put(dt, y, i, s);
    }
}

const kernels kernels_ref = {
        .name = "ref",
        .add = add,
        .accumulate = accumulate,
        .narrow = narrow,
        .rmsnorm = rmsnorm,
        .rmsnorm_grad = rmsnorm_grad,
        .rope_table = ref_rope_table,
        .rope = rope,
        .swiglu = swiglu,
        .swiglu_grad = swiglu_grad,
        .cross_entropy = cross_entropy,
        .exponents = exponents,
        .scaled = scaled,
        .dropout = dropout,
        .magnitude = magnitude,
        .round_fp8 = round_fp8,
        .squares = squares,
        .adamw = adamw,
        .momentum = momentum,
        .combine = combine,
        .descend = descend,
        .adamw_rounded = adamw_rounded,
        .add_rounded = add_rounded,
        .gemm = ref_gemm,
        .widen = widen,
        .attention = ref_attention,
        .attention_grad = ref_attention_grad,
        .attention_grad_sum = ref_attention_grad_sum,
        .row_times_matrix = row_times_matrix,
        .row_attention = ref_row_attention,
        .row_attention_join = ref_row_attention_join,
};
