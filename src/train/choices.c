// Scores of multiple choice: token ids of context and choice, the log-likelihood of each choice by
// a generator, and the two accuracies.
#include "train/choices.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

typedef struct request { // one choice: ids[begin, begin + n) of the list, the last n_scored count
    int64_t begin, n, n_scored;
} request;

typedef struct scoring {
    generator *g;
    const choice_set *set;
    bool specials;
    id_list ids, whole; // of all requests; scratch
    request **requests; // [record][choice]
    int64_t n_cut;
} scoring;

// --- ids
// What stands where there is no context: the token that begins a text, else the one that ends it.
static drv_status add_prefix(scoring *s) {
    const tokenizer *t = generator_tokenizer(s->g);
    const int32_t id = tokenizer_bos(t) >= 0 ? tokenizer_bos(t) : tokenizer_eos(t);
    if (id < 0)
        return drv_fail(DRV_E_DATA,
                "the context has no token and the tokenizer no beginning or end of a text, expected a context");
    id_list_add(&s->ids, id);
    return DRV_OK;
}

// lm-evaluation-harness's _encode_pair: white space at the end of the context goes to the choice;
// the ids of the choice are those of the whole text after as many as the context alone has.
static drv_status encode(scoring *s, const choice_record *record, text_span choice, request *out) {
    const text_span context = record->context;
    str text = {0};
    str_add(&text, context.p, context.n);
    str_puts(&text, " ");
    str_add(&text, choice.p, choice.n);
    out->begin = s->ids.n;
    s->whole.n = 0;
    const bool specials = s->specials && context.n > 0;
    drv_status status = generator_encode(s->g, text.p, text.n, specials, &s->whole);
    str_free(&text);
    DRV_TRY(status);
    if (context.n)
        DRV_TRY(generator_encode(s->g, context.p, record->n_stripped, specials, &s->ids));
    int64_t n_context = s->ids.n - out->begin;
    const int64_t n_known = n_context;
    if (n_context == 0) {
        DRV_TRY(add_prefix(s));
        n_context = 1;
        // A choice that brings that token itself does not get it twice.
        if (s->whole.n && s->whole.p[0] == s->ids.p[out->begin]) s->ids.n = out->begin;
    }
    if (s->whole.n > n_known) id_list_append(&s->ids, s->whole.p + n_known, s->whole.n - n_known);
    out->n = s->ids.n - out->begin;
    out->n_scored = out->n - n_context;
    return DRV_OK;
}

// The last token is not read, only predicted: so one more than the context fits; the left is cut.
static drv_status fit(scoring *s, request *r) {
    const int64_t most = generator_context(s->g) + 1;
    if (r->n_scored < 1)
        return drv_fail(DRV_E_DATA, "it adds no token to its context, expected one that does");
    if (r->n_scored >= most)
        return drv_fail(DRV_E_DATA,
                "it has %lld tokens, expected at most the model's context of %lld",
                (long long)r->n_scored, (long long)(most - 1));
    if (r->n <= most) return DRV_OK;
    r->begin += r->n - most;
    r->n = most;
    s->n_cut++;
    return DRV_OK;
}

static drv_status encode_all(arena *a, scoring *s, int64_t *capacity) {
    s->requests = ARENA_ARRAY(a, request *, s->set->n);
    *capacity = 0;
    for (int64_t i = 0; i < s->set->n; i++) {
        const choice_record *record = s->set->record + i;
        s->requests[i] = ARENA_ARRAY(a, request, record->n_choices);
        for (int k = 0; k < record->n_choices; k++) {
            request *r = s->requests[i] + k;
            drv_status status = encode(s, record, record->choice[k], r);
            if (status == DRV_OK) status = fit(s, r);
            DRV_TRY_CTX(status, "%s:%lld: choice %d", s->set->path, (long long)record->line, k);
            if (r->n - 1 > *capacity) *capacity = r->n - 1;
        }
    }
    return DRV_OK;
}

// --- scores
static double log_softmax(const float *logits, int64_t n, int32_t id) {
    double max = (double)logits[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        if ((double)logits[i] > max) max = (double)logits[i];
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}

static drv_status score(const scoring *s, const request *r, double *out) {
    const int32_t *ids = s->ids.p + r->begin;
    const int64_t n_vocab = generator_model(s->g)->vocab_size;
    prompt_cost cost;
    *out = 0;
    DRV_TRY(generator_prompt(s->g, ids, r->n - r->n_scored, &cost));
    for (int64_t i = r->n - r->n_scored; i < r->n; i++) {
        float *logits;
        DRV_TRY(generator_logits(s->g, &logits));
        *out += log_softmax(logits, n_vocab, ids[i]);
        if (i + 1 < r->n) generator_add(s->g, ids[i]);
    }
    if (!isfinite(*out)) return drv_fail(DRV_E_DATA, "the log-likelihood is not finite");
    return DRV_OK;
}

static int64_t n_characters(text_span text) {
    int64_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += ((unsigned char)text.p[i] & 0xc0) != 0x80;
    return n;
}

// The first of the largest, by itself or per character (a choice of none is -infinity).
static int best(const choice_record *record, const double *log_likelihood, bool norm) {
    int at = 0;
    double largest = (double)-INFINITY;
    for (int k = 0; k < record->n_choices; k++) {
        const int64_t n = n_characters(record->choice[k]);
        const double value = !norm ? log_likelihood[k]
                             : n   ? log_likelihood[k] / (double)n
                                   : (double)-INFINITY;
        if (value > largest) {
            largest = value;
            at = k;
        }
    }
    return at;
}

static double standard_error(double share, int64_t n) {
    return n > 1 ? sqrt(share * (1 - share) / (double)(n - 1)) : (double)NAN;
}

static drv_status score_all(arena *a, const scoring *s, choices_result *out) {
    const double begin = clock_s();
    double shown = begin;
    int64_t right = 0, right_norm = 0;
    out->log_likelihood = ARENA_ARRAY(a, double *, s->set->n);
    for (int64_t i = 0; i < s->set->n; i++) {
        const choice_record *record = s->set->record + i;
        double *values = out->log_likelihood[i] = ARENA_ARRAY(a, double, record->n_choices);
        if (generator_interrupted(s->g))
            return drv_fail(DRV_STOPPED, "interrupted while scoring choices");
        for (int k = 0; k < record->n_choices; k++)
            DRV_TRY_CTX(score(s, s->requests[i] + k, values + k), "%s:%lld: choice %d",
                    s->set->path, (long long)record->line, k);
        right += best(record, values, false) == record->gold;
        right_norm += best(record, values, true) == record->gold;
        const double now = clock_s(), n_done = (double)(i + 1);
        if (now - shown < 1) continue;
        shown = now;
        progress("scoring: record %lld of %lld, acc %.4f, acc_norm %.4f, %s left", (long long)i + 1,
                (long long)s->set->n, (double)right / n_done, (double)right_norm / n_done,
                str_duration((now - begin) / n_done * (double)(s->set->n - i - 1)));
    }
    out->n = s->set->n;
    out->n_cut = s->n_cut;
    out->acc = (double)right / (double)out->n;
    out->acc_norm = (double)right_norm / (double)out->n;
    out->acc_err = standard_error(out->acc, out->n);
    out->acc_norm_err = standard_error(out->acc_norm, out->n);
    return DRV_OK;
}

drv_status choices_score(arena *a, generator *g, const choice_set *set, bool specials,
        choices_result *out) {
    scoring s = {.g = g, .set = set, .specials = specials};
    int64_t capacity;
    drv_status status = encode_all(a, &s, &capacity);
    if (status == DRV_OK) status = generator_load(g, capacity);
    if (status == DRV_OK) status = score_all(a, &s, out);
    progress_end();
    id_list_free(&s.ids);
    id_list_free(&s.whole);
    return status;
}
