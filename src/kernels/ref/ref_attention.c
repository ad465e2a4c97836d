// Attention and its gradient by their definition, cut into the same units as the fast versions.
#include <math.h>

#include "base/round.h"
#include "kernels/ref/ref.h"

static int64_t q_at(const attention_args *args, int64_t t, int h) {
    return t * attention_qkv_width(args) + (int64_t)h * args->head_dim;
}
static int64_t k_at(const attention_args *args, int64_t t, int g) {
    return q_at(args, t, args->n_heads + g);
}
static int64_t v_at(const attention_args *args, int64_t t, int g) {
    return q_at(args, t, args->n_heads + args->n_kv_heads + g);
}
// A token's key or value, in the cache or among the rows.
static int64_t cached_at(const attention_args *args, int64_t t, int g) {
    return (g * args->capacity + t) * args->head_dim;
}
static double key_at(const attention_args *args, int64_t t, int g, int d) {
    return args->keys ? get(args->dt, args->keys, cached_at(args, t, g) + d)
                      : get(args->dt, args->qkv, k_at(args, t, g) + d);
}
static double value_at(const attention_args *args, int64_t t, int g, int d) {
    return args->values ? get(args->dt, args->values, cached_at(args, t, g) + d)
                        : get(args->dt, args->qkv, v_at(args, t, g) + d);
}

static double dot(const attention_args *args, const void *x, int64_t i, const void *y, int64_t j) {
    double s = 0;
    for (int d = 0; d < args->head_dim; d++)
        s += get(args->dt, x, i + d) * get(args->dt, y, j + d);
    return s;
}

enum { COLUMNS = 128 };

// Sums of the keys so far: of exp(score - max), and of its products with columns of the values.
typedef struct softmax_sums {
    double max, sum, o[COLUMNS];
} softmax_sums;

// Returns the score of the query in row t and token s; -infinity: it is hidden.
static double score(const attention_args *args, int64_t t, int64_t s, int h) {
    const int g = h / (args->n_heads / args->n_kv_heads);
    const attention_span hidden = attention_hidden(args, t);
    if (s >= hidden.begin && s < hidden.end) return -HUGE_VAL;
    const double product =
            args->keys ? dot(args, args->qkv, q_at(args, t, h), args->keys, cached_at(args, s, g))
                       : dot(args, args->qkv, q_at(args, t, h), args->qkv, k_at(args, s, g));
    return product / sqrt((double)args->head_dim);
}

// Adds keys begin .. end, for n columns of the values from `first` on. As an operand of P V, P is
// rounded; as a term of the sum it is not.
static void add_keys(const attention_args *args, int64_t t, int h, int64_t begin, int64_t end,
        int first, int n, softmax_sums *x) {
    const int g = h / (args->n_heads / args->n_kv_heads);
    double max = x->max;
    bool has_nan = false;
    for (int64_t s = begin; s < end; s++)
        max = fmax(max, score(args, t, s, h)), has_nan |= isnan(score(args, t, s, h));
    if (max == -HUGE_VAL && !has_nan) return; // all are hidden
    const double keep = exp(x->max - max);
    x->max = max;
    x->sum *= keep;
    for (int d = 0; d < n; d++)
        x->o[d] *= keep;
    for (int64_t s = begin; s < end; s++) {
        const double e = exp(score(args, t, s, h) - max), p = as_operand(args->dt, e);
        x->sum += e;
        for (int d = 0; d < n; d++)
            x->o[d] += p * value_at(args, s, g, first + d);
    }
}

static void query(const attention_args *args, int64_t t, int h) {
    const int64_t token = args->first + t, start = attention_first(args, t),
                  begin = start > 0 ? start : 0,
                  out = t * attention_o_width(args) + (int64_t)h * args->head_dim,
                  n_keys = attention_keys(args), end = token + 1 < n_keys ? token + 1 : n_keys;
    const dtype o_type = args->o_is_acc ? dtype_acc(args->dt) : args->dt;
    for (int first = 0; first < args->head_dim; first += COLUMNS) {
        const int n = args->head_dim - first < COLUMNS ? args->head_dim - first : COLUMNS;
        softmax_sums x = {.max = -HUGE_VAL};
        for (int64_t s = begin; s < end;) { // to the end of a block of keys each time
            const int64_t next = (s / ATTENTION_BLOCK + 1) * ATTENTION_BLOCK;
            add_keys(args, t, h, s, next < end ? next : end, first, n, &x);
            s = next;
        }
        for (int d = 0; d < n; d++)
            put(o_type, args->o, out + first + d, x.sum == 0 ? 0 : x.o[d] / x.sum);
        if (args->lse)
            put(dtype_acc(args->dt), args->lse, h * args->lse_stride + t, x.max + log(x.sum));
    }
}

void ref_attention(const attention_args *args, int64_t unit, void *scratch DRV_UNUSED) {
    const int g = (int)(unit % args->n_kv_heads), rep = args->n_heads / args->n_kv_heads;
    const int64_t begin = unit / args->n_kv_heads * ATTENTION_BLOCK;
    for (int64_t t = begin; t < begin + ATTENTION_BLOCK && t < args->seq; t++)
        for (int h = g * rep; h < (g + 1) * rep; h++)
            query(args, t, h);
}

// --- a single row. part[head][chunk] = {largest score, sum of exp, sums of the values}
void ref_row_attention(const attention_args *args, int64_t unit, void *part, void *scratch) {
    const dtype acc = dtype_acc(args->dt);
    const int64_t size = row_attention_chunk(args),
                  n_chunks = row_attention_units(args) / args->n_kv_heads, chunk = unit % n_chunks,
                  first = chunk * size, left = args->first + 1 - first,
                  n_keys = left < size ? left : size;
    const int n_rep = args->n_heads / args->n_kv_heads, group = (int)(unit / n_chunks);
    for (int h = group * n_rep; h < (group + 1) * n_rep; h++) {
        const int64_t at = (h * n_chunks + chunk) * (args->head_dim + 2);
        double max = -HUGE_VAL, sum = 0;
        for (int64_t s = 0; s < n_keys; s++)
            max = fmax(max, score(args, 0, first + s, h));
        for (int64_t s = 0; s < n_keys; s++) {
            put(acc, scratch, s, exp(score(args, 0, first + s, h) - max));
            sum += get(acc, scratch, s);
        }
        put(acc, part, at, max);
        put(acc, part, at + 1, sum);
        for (int d = 0; d < args->head_dim; d++) {
            double x = 0;
            for (int64_t s = 0; s < n_keys; s++)
                x += get(acc, scratch, s) * value_at(args, first + s, group, d);
            put(acc, part, at + 2 + d, x);
        }
    }
}

void ref_row_attention_join(const attention_args *args, const void *part) {
    const dtype acc = dtype_acc(args->dt);
    const int64_t n_chunks = row_attention_units(args) / args->n_kv_heads,
                  step = args->head_dim + 2;
    for (int64_t h = 0; h < args->n_heads; h++) {
        double max = -HUGE_VAL, sum = 0;
        for (int64_t c = 0; c < n_chunks; c++)
            max = fmax(max, get(acc, part, (h * n_chunks + c) * step));
        for (int64_t c = 0; c < n_chunks; c++) {
            const int64_t at = (h * n_chunks + c) * step;
            sum += exp(get(acc, part, at) - max) * get(acc, part, at + 1);
        }
        for (int d = 0; d < args->head_dim; d++) {
            double x = 0;
            for (int64_t c = 0; c < n_chunks; c++) {
                const int64_t at = (h * n_chunks + c) * step;
                x += exp(get(acc, part, at) - max) * get(acc, part, at + 2 + d);
            }
            put(args->dt, args->o, h * args->head_dim + d, x / sum);
        }
    }
}

// --- the gradient
// Part one, unit = (head, chunk of keys): dk, dv of the chunk and the chunk's share of dq, as
// part[head] = {dq of each chunk, dk, dv}, each [seq, head_dim]. Part two sums.
static int64_t part_at(const attention_args *args, int h, int64_t which, int64_t t) {
    return ((h * (attention_grad_chunks(args) + 2) + which) * args->seq + t) * args->head_dim;
}

void ref_attention_grad(const attention_args *args, int64_t unit, void *scratch DRV_UNUSED) {
    const int64_t n_chunks = attention_grad_chunks(args), chunk = unit % n_chunks;
    const int head = (int)(unit / n_chunks), group = head / (args->n_heads / args->n_kv_heads);
    const int64_t width = div_up(args->seq, n_chunks), first = chunk * width,
                  end = first + width < args->seq ? first + width : args->seq;
    const double scale = 1 / sqrt((double)args->head_dim);
    const dtype acc = dtype_acc(args->dt);
    void *part = args->part;
    for (int64_t i = 0; i < args->seq * args->head_dim; i++)
        put(acc, part, part_at(args, head, chunk, 0) + i, 0);
    for (int64_t s = first; s < end; s++)
        for (int d = 0; d < args->head_dim; d++) {
            put(acc, part, part_at(args, head, n_chunks, s) + d, 0);
            put(acc, part, part_at(args, head, n_chunks + 1, s) + d, 0);
        }
    for (int64_t query = 0; query < args->seq; query++) {
        const int64_t at = query * attention_o_width(args) + (int64_t)head * args->head_dim,
                      token = args->first + query, begin = attention_first(args, query);
        const double delta = dot(args, args->d_o, at, args->o, at);
        const double lse = get(acc, args->lse, head * args->lse_stride + query);
        for (int64_t s = begin > first ? begin : first; s <= token && s < end; s++) {
            double p = exp(score(args, query, s, head) - lse), dp = 0;
            for (int d = 0; d < args->head_dim; d++)
                dp += get(args->dt, args->d_o, at + d) * value_at(args, s, group, d);
            double ds = p * (dp - delta) * scale;
            p = as_operand(args->dt, p);
            ds = as_operand(args->dt, ds);
            for (int d = 0; d < args->head_dim; d++) {
                double q = get(args->dt, args->qkv, q_at(args, query, head) + d),
                       k = key_at(args, s, group, d);
                accumulate_at(acc, part, part_at(args, head, chunk, query) + d, ds * k);
                accumulate_at(acc, part, part_at(args, head, n_chunks, s) + d, ds * q);
                accumulate_at(acc, part, part_at(args, head, n_chunks + 1, s) + d,
                        p * get(args->dt, args->d_o, at + d));
            }
        }
    }
}

// Puts the sum of head `head`, counted as heads follow each other in qkv.
static void put_sum(const attention_args *args, int64_t t, int head, int d, double x) {
    const int kv = args->n_kv_heads, key = head - args->n_heads;
    if (args->dqkv)
        put(args->dqkv_is_acc ? dtype_acc(args->dt) : args->dt, args->dqkv, q_at(args, t, head) + d,
                x);
    else if (key < 0)
        accumulate_at(dtype_acc(args->dt), args->dq,
                (t * args->n_heads + head) * args->head_dim + d, x);
    else
        accumulate_at(dtype_acc(args->dt), key < kv ? args->dk : args->dv,
                (t * kv + key % kv) * args->head_dim + d, x);
}

// Sums element `at` of heads [first, first + n), which are `blocks` equal reduction blocks, in the
// tree of comm/join.h: other ranks may have some, so the sum of any of them is rounded to the type
// of acc.
static double sum_of_heads(const attention_args *args, int first, int n, int blocks, int64_t which,
        int64_t at) {
    const dtype acc = dtype_acc(args->dt);
    double x = 0;
    if (blocks > 1) {
        int half = 1;
        while (2 * half < blocks)
            half *= 2;
        const int left = n / blocks * half;
        x = sum_of_heads(args, first, left, half, which, at) +
            sum_of_heads(args, first + left, n - left, blocks - half, which, at);
    } else {
        for (int h = first; h < first + n; h++)
            x += get(acc, args->part, part_at(args, h, which, 0) + at);
    }
    return acc == DT_F32 ? (double)(float)x : x;
}

void ref_attention_grad_sum(const attention_args *args, int64_t unit) {
    const int64_t n_chunks = attention_grad_chunks(args), begin = unit * ATTENTION_BLOCK;
    const int rep = args->n_heads / args->n_kv_heads;
    const dtype acc = dtype_acc(args->dt);
    for (int64_t t = begin; t < begin + ATTENTION_BLOCK && t < args->seq; t++) {
        for (int h = 0; h < args->n_heads; h++)
            for (int d = 0; d < args->head_dim; d++) {
                double x = 0;
                for (int64_t c = 0; c < n_chunks; c++)
                    x += get(acc, args->part, part_at(args, h, c, t) + d);
                put_sum(args, t, h, d, x);
            }
        for (int g = 0; g < args->n_kv_heads; g++)
            for (int d = 0; d < args->head_dim; d++)
                for (int which = 0; which < 2; which++)
                    put_sum(args, t, args->n_heads + which * args->n_kv_heads + g, d,
                            sum_of_heads(args, g * rep, rep, args->blocks, n_chunks + which,
                                    t * args->head_dim + d));
    }
}
