// Attention from its formula, a query at a time.
//
// Legend: a the call; n how many operands there are of what stands before it; R rows of S tokens, H
// query heads, K key-value heads, D of a head, M segments of a row. Operands lie as [R, S, heads,
// D], and so do results, whose dims are [R, heads, S, D]: their layout says so.
#include "cudnn_definition.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

enum { Q, KEYS, VALUES, N_QKV, MOST = 12 };

typedef struct attention {
    int64_t rows, seq, heads, kv_heads, d, segments, window;
    double scale;
    bool causal;
    const uint16_t *q, *k, *v, *mask;
    int64_t mask_rows, mask_heads;
    // Of each of n parts that do not see each other: a row, or a segment.
    int64_t n_parts;
    const int32_t *q_length, *kv_length, *q_first, *kv_first; // NULL: rows
    const char *wrong;                                        // NULL: nothing is
} attention;

typedef struct part {
    int64_t n_queries, n_keys;
    int64_t q_at, kv_at; // elements before its first token
} part;

// --- what the call says
static const char *config_of(const ffi_frame *frame, size_t *n) {
    for (int64_t i = 0; i < frame->attributes.n; i++) {
        const ffi_span *name = frame->attributes.names[i], *value = frame->attributes.values[i];
        if (name->n != 6 || memcmp(name->text, "config", 6) != 0) continue;
        *n = value->n;
        return value->text;
    }
    return NULL;
}

// The text after "key":
static const char *after(const char *config, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *found = strstr(config, name);
    return found ? found + strlen(name) : "";
}

static void read_config(attention *a, const char *config) {
    const char *mask = after(config, "mask_type");
    a->scale = strtod(after(config, "fmha_scale"), NULL);
    a->window = strtol(after(config, "sliding_window_length"), NULL, 10);
    a->segments = strtol(after(config, "max_seg_per_batch"), NULL, 10);
    a->causal = strncmp(mask, "\"CAUSAL\"", 8) == 0 || strncmp(mask, "\"PADDING_CAUSAL\"", 16) == 0;
    if (!a->causal) a->wrong = "mask_type is no causal one";
    if ((a->segments > 1) != (strncmp(mask, "\"PADDING", 8) == 0))
        a->wrong = "segments are for a mask with padding";
    if (strncmp(after(config, "is_flash_attention"), "true", 4) != 0)
        a->wrong = "not flash attention";
}

static bool has_dims(const ffi_buffer *b, int64_t rank, const int64_t *dims) {
    if (b->rank != rank) return false;
    for (int64_t i = 0; i < rank; i++)
        if (b->dims[i] != dims[i]) return false;
    return true;
}

// Takes the operands behind the first n: lengths and first tokens of segments.
static void take_segments(attention *a, const ffi_frame *frame, int64_t n) {
    const int64_t lengths[] = {a->rows, a->segments}, firsts[] = {a->rows, a->segments + 1};
    const int64_t expected = a->segments > 1 ? n + 4 : n;
    if (frame->in.n != expected) {
        a->wrong = "another number of operands";
        return;
    }
    a->n_parts = a->rows;
    if (a->segments <= 1) return;
    ffi_buffer **in = frame->in.list + n;
    if (!has_dims(in[0], 2, lengths) || !has_dims(in[1], 2, lengths) ||
            !has_dims(in[2], 2, firsts) || !has_dims(in[3], 2, firsts)) {
        a->wrong = "segments of another shape";
        return;
    }
    a->n_parts = a->rows * a->segments;
    a->q_length = in[0]->data;
    a->kv_length = in[1]->data;
    a->q_first = in[2]->data;
    a->kv_first = in[3]->data;
}

static void take_mask(attention *a, const ffi_buffer *mask) {
    if (mask->rank != 4 || mask->dims[2] != a->seq || mask->dims[3] != a->seq) {
        a->wrong = "a mask of another shape";
        return;
    }
    a->mask = mask->data;
    a->mask_rows = mask->dims[0];
    a->mask_heads = mask->dims[1];
}

// mask_at: the operand that is the mask; 0: none. n: operands before those of segments.
static attention open_call(const ffi_frame *frame, int64_t mask_at, int64_t n) {
    size_t n_config;
    const char *text = config_of(frame, &n_config);
    attention a = {.wrong = text ? NULL : "no configuration"};
    if (!text || frame->in.n < n) return a;
    char *config = calloc(n_config + 1, 1);
    if (!config) abort();
    memcpy(config, text, n_config);
    read_config(&a, config);
    free(config);
    const ffi_buffer *q = frame->in.list[Q], *k = frame->in.list[KEYS];
    a.rows = q->dims[0];
    a.seq = q->dims[1];
    a.heads = q->dims[2];
    a.d = q->dims[3];
    a.kv_heads = k->dims[2];
    a.q = q->data;
    a.k = k->data;
    a.v = frame->in.list[VALUES]->data;
    if (!has_dims(frame->in.list[VALUES], 4, k->dims) || k->dims[1] != a.seq)
        a.wrong = "keys and values differ";
    if (mask_at) take_mask(&a, frame->in.list[mask_at]);
    take_segments(&a, frame, n);
    return a;
}

static part part_of(attention *a, int64_t i) {
    if (!a->q_first)
        return (part){a->seq, a->seq, i * a->seq * a->heads * a->d,
                i * a->seq * a->kv_heads * a->d};
    const part p = {a->q_length[i], a->kv_length[i], a->q_first[i], a->kv_first[i]};
    const int64_t tokens = a->rows * a->seq, q = a->heads * a->d, kv = a->kv_heads * a->d;
    if (p.n_queries < 0 || p.n_queries > a->seq || p.n_keys != p.n_queries || p.q_at % q ||
            p.kv_at % kv || p.q_at / q != p.kv_at / kv || p.q_at < 0 ||
            p.q_at / q + p.n_queries > tokens) {
        a->wrong = "a segment lies outside of the rows";
        return (part){0};
    }
    return p;
}

// --- arithmetic
static double number(const uint16_t *x, int64_t at) {
    return (double)bf16_to_f32(x[at]);
}

// The first key that a query sees.
static int64_t first_key(const attention *a, int64_t query) {
    return a->window && query >= a->window ? query - a->window + 1 : 0;
}

static int64_t q_place(const attention *a, const part *p, int64_t token, int64_t head) {
    return p->q_at + (token * a->heads + head) * a->d;
}

static int64_t kv_place(const attention *a, const part *p, int64_t token, int64_t head) {
    return p->kv_at + (token * a->kv_heads + head * a->kv_heads / a->heads) * a->d;
}

static double score(const attention *a, const part *p, int64_t i, int64_t head, int64_t query,
        int64_t key) {
    const int64_t q = q_place(a, p, query, head), k = kv_place(a, p, key, head);
    double sum = 0;
    for (int64_t d = 0; d < a->d; d++)
        sum += number(a->q, q + d) * number(a->k, k + d);
    sum *= a->scale;
    if (!a->mask) return sum;
    const int64_t row = a->mask_rows == 1 ? 0 : i, of = a->mask_heads == 1 ? 0 : head;
    return sum + number(a->mask, ((row * a->mask_heads + of) * a->seq + query) * a->seq + key);
}

static void fill_nan(ffi_buffer *b, bool wide) {
    int64_t n = 1;
    for (int64_t i = 0; i < b->rank; i++)
        n *= b->dims[i];
    for (int64_t i = 0; i < n; i++)
        if (wide)
            ((float *)b->data)[i] = NAN;
        else
            ((uint16_t *)b->data)[i] = f32_to_bf16(NAN);
}

// One query of a head; p has room for the scores of a row.
static void attend(const attention *a, const part *at, int64_t i, int64_t head, int64_t query,
        double *p, uint16_t *o, float *lse) {
    const int64_t first = first_key(a, query), end = query + 1;
    double most = -HUGE_VAL, sum = 0;
    for (int64_t key = first; key < end; key++) {
        p[key] = score(a, at, i, head, query, key);
        if (p[key] > most) most = p[key];
    }
    for (int64_t key = first; key < end; key++)
        sum += p[key] = exp(p[key] - most);
    *lse = (float)(most + log(sum));
    for (int64_t d = 0; d < a->d; d++) {
        double out = 0;
        for (int64_t key = first; key < end; key++)
            out += p[key] / sum * number(a->v, kv_place(a, at, key, head) + d);
        o[q_place(a, at, query, head) + d] = f32_to_bf16((float)out);
    }
}

static ffi_error *refuse(const ffi_frame *frame, const char *why) {
    ffi_error_args args = {.message = why, .code = FFI_CODE_INVALID_ARGUMENT};
    args.head.size = offsetof(ffi_error_args, code) + sizeof args.code;
    return frame->api->make_error(&args);
}

static ffi_error *forward(ffi_frame *frame, bool masked) {
    attention a = open_call(frame, masked ? N_QKV : 0, masked ? N_QKV + 1 : N_QKV);
    const int64_t statistics[] = {a.n_parts, a.heads, a.seq},
                  o_dims[] = {a.rows, a.heads, a.seq, a.d};
    if (!a.wrong && (frame->out.n != 3 || !has_dims(frame->out.list[0], 4, o_dims) ||
                            !has_dims(frame->out.list[1], 3, statistics)))
        a.wrong = "results of another shape";
    if (a.wrong) return refuse(frame, a.wrong);
    uint16_t *o = frame->out.list[0]->data;
    float *lse = frame->out.list[1]->data;
    double *p = malloc(sizeof *p * (size_t)a.seq);
    if (!p) abort();
    fill_nan(frame->out.list[0], false);
    fill_nan(frame->out.list[1], true);
    for (int64_t i = 0; i < a.n_parts; i++) {
        const part at = part_of(&a, i);
        for (int64_t head = 0; head < a.heads; head++)
            for (int64_t query = 0; query < at.n_queries; query++)
                attend(&a, &at, i, head, query, p, o, &lse[(i * a.heads + head) * a.seq + query]);
    }
    free(p);
    return a.wrong ? refuse(frame, a.wrong) : NULL;
}

// --- the gradient
typedef struct gradient {
    const uint16_t *o, *d_o;
    const float *lse;
    double *dq, *dk, *dv; // [N, heads, D]
} gradient;

static double dot(const uint16_t *x, int64_t at, const uint16_t *y, int64_t other, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += number(x, at + i) * number(y, other + i);
    return sum;
}

static void attend_back(const attention *a, const part *at, int64_t i, int64_t head, int64_t query,
        const gradient *g) {
    const int64_t q = q_place(a, at, query, head);
    const double delta = dot(g->d_o, q, g->o, q, a->d),
                 lse = (double)g->lse[(i * a->heads + head) * a->seq + query];
    for (int64_t key = first_key(a, query); key <= query; key++) {
        const int64_t k = kv_place(a, at, key, head);
        const double p = exp(score(a, at, i, head, query, key) - lse),
                     ds = p * (dot(g->d_o, q, a->v, k, a->d) - delta) * a->scale;
        for (int64_t d = 0; d < a->d; d++) {
            g->dq[q + d] += ds * number(a->k, k + d);
            g->dk[k + d] += ds * number(a->q, q + d);
            g->dv[k + d] += p * number(g->d_o, q + d);
        }
    }
}

// Rounds what was written; the rest stays NaN.
static void write_part(const double *x, ffi_buffer *out, int64_t first, int64_t n) {
    for (int64_t i = first; i < first + n; i++)
        ((uint16_t *)out->data)[i] = f32_to_bf16((float)x[i]);
}

static void differentiate(attention *a, gradient *g, ffi_buffer **out) {
    for (int64_t i = 0; i < a->n_parts; i++) {
        const part at = part_of(a, i);
        for (int64_t head = 0; head < a->heads; head++)
            for (int64_t query = 0; query < at.n_queries; query++)
                attend_back(a, &at, i, head, query, g);
        write_part(g->dq, out[0], at.q_at, at.n_queries * a->heads * a->d);
        write_part(g->dk, out[1], at.kv_at, at.n_keys * a->kv_heads * a->d);
        write_part(g->dv, out[2], at.kv_at, at.n_keys * a->kv_heads * a->d);
    }
}

// cuDNN reads statistics by blocks, also those past the end of a segment.
static bool all_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static ffi_error *backward(ffi_frame *frame, bool masked) {
    enum { STATISTICS = N_QKV, D_O, MASK };
    const int64_t o_at = masked ? MASK + 1 : MASK;
    attention a = open_call(frame, masked ? MASK : 0, o_at + 1);
    const int64_t statistics[] = {a.n_parts, a.heads, a.seq},
                  dq_dims[] = {a.rows, a.heads, a.seq, a.d},
                  dkv_dims[] = {a.rows, a.kv_heads, a.seq, a.d};
    ffi_buffer **in = frame->in.list, **out = frame->out.list;
    if (!a.wrong && (frame->out.n != 4 || !has_dims(in[STATISTICS], 3, statistics) ||
                            !has_dims(in[D_O], 4, in[Q]->dims) ||
                            !has_dims(in[o_at], 4, in[Q]->dims) || !has_dims(out[0], 4, dq_dims) ||
                            !has_dims(out[1], 4, dkv_dims) || !has_dims(out[2], 4, dkv_dims)))
        a.wrong = "operands or results of another shape";
    if (!a.wrong && !all_finite(in[STATISTICS]->data, a.n_parts * a.heads * a.seq))
        a.wrong = "statistics that are not finite";
    if (a.wrong) return refuse(frame, a.wrong);
    const size_t tokens = (size_t)(a.rows * a.seq);
    const size_t nq = tokens * (size_t)(a.heads * a.d), nkv = tokens * (size_t)(a.kv_heads * a.d);
    gradient g = {.o = in[o_at]->data, .d_o = in[D_O]->data, .lse = in[STATISTICS]->data};
    g.dq = calloc(nq + 2 * nkv, sizeof *g.dq);
    if (!g.dq) abort();
    g.dk = g.dq + nq;
    g.dv = g.dk + nkv;
    for (int i = 0; i < 3; i++)
        fill_nan(out[i], false);
    differentiate(&a, &g, out);
    free(g.dq);
    return a.wrong ? refuse(frame, a.wrong) : NULL;
}

// --- the handlers
// Answers the question for a handler's version; true: it was one, or nothing is to be computed.
static bool is_asked(const ffi_frame *frame) {
    for (ffi_extension *e = frame->head.extensions; e; e = e->next)
        if (e->type == FFI_EXTENSION_METADATA) {
            ffi_metadata *said = ((ffi_metadata_extension *)(void *)e)->metadata;
            said->version.major = frame->api->version.major;
            said->version.minor = frame->api->version.minor;
            said->traits = 0;
            return true;
        }
    return frame->stage != FFI_STAGE_EXECUTE;
}

ffi_error *cudnn_forward(ffi_frame *frame) {
    return is_asked(frame) ? NULL : forward(frame, false);
}
ffi_error *cudnn_forward_masked(ffi_frame *frame) {
    return is_asked(frame) ? NULL : forward(frame, true);
}
ffi_error *cudnn_backward(ffi_frame *frame) {
    return is_asked(frame) ? NULL : backward(frame, false);
}
ffi_error *cudnn_backward_masked(ffi_frame *frame) {
    return is_asked(frame) ? NULL : backward(frame, true);
}
