// Scores multiple choice: encodes contexts and choices, computes the log-likelihoods of many
// choices in one forward pass, and both accuracies.
#include "infer/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/str.h"
#include "infer/prefix.h"
#include "infer/resolve.h"

// Rows that are packed together: enough to be full, few enough to report progress often.
enum { ROWS_TOGETHER = 32 };
// A window may have this many tokens more than with its first choice alone, since memory grows with
// the longest row.
enum { MORE_TOKENS = SCORER_TOKENS / 2 };

// ids[first] is the last token of the context; the n_scored tokens of the choice follow it.
typedef struct request {
    int64_t first, n_scored;
    int64_t cut; // tokens of the context that do not fit, on its left
    bool again;  // the same ids as an earlier choice of the record, whose score it takes
} request;

typedef struct scoring {
    const choices_opts *opts;
    const choice_set *set;
    tokenizer *tokenizer;
    model_config model;
    encoder *encoder;
    id_list ids, whole;  // of all contexts and choices; scratch memory
    request **requests;  // [record][choice]
    window_list windows; // of all records
    int64_t *window;     // [record + 1]: the first window of each record
    double *losses;      // by token of ids; NaN: not scored
    choices_result *out;
    int64_t first, end; // records that are scored together
    int64_t right,
            right_norm; // correct by acc and by acc_norm
    double begin_s;
    int64_t n_done; // tokens of the windows of records before `first`
} scoring;

// --- ids
static drv_status add_ids(scoring *s, const char *text, size_t n, bool specials, id_list *ids) {
    const int64_t begin = ids->n;
    encoder_run(s->encoder, text, n, specials, ids);
    return prefix_check_ids(ids->p + begin, ids->n - begin, s->model.vocab_size);
}

// Encodes a context. An empty one becomes the prefix token, which *prefix is then; else -1.
static drv_status encode_context(scoring *self, const choice_record *record, token_run *out,
        int32_t *prefix) {
    const bool specials = self->opts->specials;
    out->first = self->ids.n;
    *prefix = -1;
    if (record->context.n)
        DRV_TRY(add_ids(self, record->context.p, record->n_stripped, specials, &self->ids));
    if (self->ids.n == out->first) {
        DRV_TRY_CTX(prefix_token(self->tokenizer, prefix), "the context has no token");
        id_list_add(&self->ids, *prefix);
    }
    out->n = (int32_t)(self->ids.n - out->first);
    return DRV_OK;
}

// Like lm-evaluation-harness's _encode_pair: white space at the end of the context belongs to the
// choice, and the ids of the choice are those of the whole text after as many as the context alone
// has. So all choices have the same context, even if its end and a choice merge into one token.
static drv_status encode_choice(scoring *self, const choice_record *record, str_view choice,
        const token_run *context, int32_t prefix, request *out) {
    str text = {0};
    str_add(&text, record->context.p, record->context.n);
    str_puts(&text, " ");
    str_add(&text, choice.p, choice.n);
    self->whole.n = 0;
    const bool specials = self->opts->specials && record->context.n > 0;
    const drv_status status = add_ids(self, text.p, text.n, specials, &self->whole);
    str_free(&text);
    DRV_TRY(status);
    int64_t n_known = prefix < 0 ? context->n : 0;
    // A choice that begins with the prefix token does not get it twice.
    if (prefix >= 0 && self->whole.n && self->whole.p[0] == prefix) n_known = 1;
    const int32_t last = self->ids.p[context->first + context->n - 1];
    out->first = self->ids.n;
    out->n_scored = self->whole.n - n_known;
    id_list_add(&self->ids, last);
    if (out->n_scored > 0) id_list_append(&self->ids, self->whole.p + n_known, out->n_scored);
    return DRV_OK;
}

// The last token is predicted but not read, so one token more than the model's context fits. A
// longer context is truncated on the left.
static drv_status truncate_context(scoring *s, const token_run *context, request *r) {
    const int64_t most = s->model.max_position_embeddings + 1, n = context->n + r->n_scored;
    if (r->n_scored < 1)
        return drv_fail(DRV_E_DATA, "it adds no token to its context, expected one that does");
    if (r->n_scored >= most)
        return drv_fail(DRV_E_DATA,
                "it has %lld tokens, expected at most the model's context of %lld",
                (long long)r->n_scored, (long long)(most - 1));
    if (n <= most) return DRV_OK;
    r->cut = n - most;
    s->out->n_cut++;
    return DRV_OK;
}

// Rounding depends on the position in a row. Equal choices are scored once, so that the first wins.
static void reuse_equal(scoring *s, request *list, int k) {
    for (int i = 0; i < k; i++) {
        const int64_t n = list[k].n_scored;
        const int32_t *ids = s->ids.p;
        if (list[i].n_scored != n ||
                memcmp(ids + list[i].first, ids + list[k].first, sizeof *ids * (size_t)n) != 0 ||
                ids[list[i].first + n] != ids[list[k].first + n])
            continue;
        list[k] = list[i];
        list[k].again = true;
        return;
    }
}

static drv_status encode_record(scoring *s, const choice_record *record, request *list,
        token_run *context) {
    int32_t prefix;
    const char *path = s->set->path;
    DRV_TRY_CTX(encode_context(s, record, context, &prefix), "%s:%lld", path,
            (long long)record->line);
    for (int k = 0; k < record->n_choices; k++) {
        drv_status status = encode_choice(s, record, record->choice[k], context, prefix, list + k);
        if (status == DRV_OK) status = truncate_context(s, context, list + k);
        DRV_TRY_CTX(status, "%s:%lld: choice %d", path, (long long)record->line, k);
        reuse_equal(s, list, k);
    }
    return DRV_OK;
}

// --- windows: a context is read once for all choices that truncate it equally
// Each choice reads the last token of the context again, since its prediction is scored.
static void add_windows(scoring *s, const token_run *context, const request *list, int n) {
    for (int k = 0; k < n; k++) {
        bool taken = list[k].again; // its window exists already
        for (int i = 0; i < k && !taken; i++)
            taken = list[i].cut == list[k].cut;
        if (taken) continue;
        const token_run stem = {context->first + list[k].cut,
                (int32_t)(context->n - 1 - list[k].cut)};
        const int64_t most = stem.n + list[k].n_scored + MORE_TOKENS;
        window_add(&s->windows, stem);
        for (int i = k; i < n; i++) {
            if (list[i].again || list[i].cut != list[k].cut) continue;
            if (s->windows.p[s->windows.n - 1].n_tokens + list[i].n_scored > most)
                window_add(&s->windows, stem);
            window_add_continuation(&s->windows,
                    (token_run){list[i].first, (int32_t)list[i].n_scored});
        }
    }
}

static drv_status encode_all(arena *a, scoring *s) {
    s->requests = ARENA_ARRAY(a, request *, s->set->n);
    s->window = ARENA_ARRAY(a, int64_t, s->set->n + 1);
    for (int64_t i = 0; i < s->set->n; i++) {
        const choice_record *record = s->set->record + i;
        token_run context = {0};
        s->requests[i] = ARENA_ARRAY(a, request, record->n_choices);
        DRV_TRY(encode_record(s, record, s->requests[i], &context));
        add_windows(s, &context, s->requests[i], record->n_choices);
        s->window[i + 1] = s->windows.n;
        progress("tokens: record %lld of %lld", (long long)i + 1, (long long)s->set->n);
    }
    return DRV_OK;
}

// --- scores
static int64_t n_characters(str_view text) {
    int64_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += ((unsigned char)text.p[i] & 0xc0) != 0x80;
    return n;
}

// Returns the first choice with the largest log-likelihood, per character if `norm` is set.
static int best_choice(const choice_record *record, const double *log_likelihood, bool norm) {
    int index = 0;
    double largest = (double)-INFINITY;
    for (int k = 0; k < record->n_choices; k++) {
        const int64_t n = n_characters(record->choice[k]);
        const double value = !norm ? log_likelihood[k]
                             : n   ? log_likelihood[k] / (double)n
                                   : (double)-INFINITY;
        if (value > largest) {
            largest = value;
            index = k;
        }
    }
    return index;
}

static double standard_error(double share, int64_t n) {
    return n > 1 ? sqrt(share * (1 - share) / (double)(n - 1)) : (double)NAN;
}

// Adds up the log-likelihoods of a record; false: not all of its choices were scored.
static bool take_record(const scoring *s, int64_t i) {
    double *values = s->out->log_likelihood[i];
    bool whole = true;
    for (int k = 0; k < s->set->record[i].n_choices; k++) {
        const request *r = s->requests[i] + k;
        values[k] = 0;
        for (int64_t j = 1; j <= r->n_scored; j++)
            values[k] -= s->losses[r->first + j];
        whole &= !isnan(values[k]);
    }
    return whole;
}

// Adds the scored records among [first, end) to the accuracies.
static void summarize(scoring *s) {
    choices_result *out = s->out;
    for (int64_t i = s->first; i < s->end; i++) {
        const choice_record *record = s->set->record + i;
        if (!take_record(s, i)) continue;
        out->n++;
        s->right += best_choice(record, out->log_likelihood[i], false) == record->gold;
        s->right_norm += best_choice(record, out->log_likelihood[i], true) == record->gold;
    }
    const double n = (double)(out->n ? out->n : 1);
    out->acc = (double)s->right / n;
    out->acc_norm = (double)s->right_norm / n;
    out->acc_err = standard_error(out->acc, out->n);
    out->acc_norm_err = standard_error(out->acc_norm, out->n);
}

static drv_status after_pass(void *ctx, int64_t n_tokens) {
    const scoring *s = ctx;
    const double done = (double)(s->n_done + n_tokens), seconds = clock_s() - s->begin_s;
    const choices_result *so_far = s->out;
    if (stop_requested()) return drv_fail(DRV_STOPPED, "%s while scoring", stop_requested());
    progress("scoring: %.1f%% of %lld records, acc %.4f, acc_norm %.4f, %s tokens/s, %s left",
            100 * done / (double)s->windows.total, (long long)s->set->n, so_far->acc,
            so_far->acc_norm, str_si(done / seconds),
            str_duration(seconds / done * ((double)s->windows.total - done)));
    return DRV_OK;
}

static drv_status score_together(scoring *s, scorer *model, int64_t most_tokens) {
    const int64_t begin = s->window[s->first];
    int64_t n = 0, end = begin;
    for (s->end = s->first; s->end < s->set->n && n < most_tokens; s->end++)
        for (; end < s->window[s->end + 1]; end++)
            n += s->windows.p[end].n_tokens;
    const drv_status status = scorer_windows(model, s->ids.p, &s->windows, begin, end - begin,
            s->losses, after_pass, s);
    summarize(s);
    s->n_done += n;
    s->first = s->end;
    return status;
}

static drv_status score_all(arena *a, scoring *s, scorer *model) {
    const batch *b = scorer_batch(model);
    s->losses = mem_alloc(sizeof *s->losses * (size_t)(s->ids.n + 1));
    for (int64_t i = 0; i < s->ids.n; i++)
        s->losses[i] = (double)NAN;
    s->out->log_likelihood = ARENA_ARRAY(a, double *, s->set->n);
    for (int64_t i = 0; i < s->set->n; i++)
        s->out->log_likelihood[i] = ARENA_ARRAY(a, double, s->set->record[i].n_choices);
    s->begin_s = clock_s();
    drv_status status = DRV_OK;
    while (status == DRV_OK && s->first < s->set->n)
        status = score_together(s, model, ROWS_TOGETHER * b->rows * b->row_tokens);
    s->out->seconds = clock_s() - s->begin_s;
    s->out->n_tokens = s->windows.total;
    free(s->losses);
    return status;
}

static drv_status open_and_score(arena *a, scoring *s) {
    const choices_opts *opts = s->opts;
    scorer *model = NULL;
    scorer_opts how = opts->model;
    how.continuations = true;
    DRV_TRY(model_config_read(how.folder, &s->model));
    DRV_TRY(tokenizer_open(a, model_tokenizer_folder(a, how.folder, how.adapter), &s->tokenizer));
    s->encoder = encoder_new(s->tokenizer);
    drv_status status = encode_all(a, s);
    const int64_t context = s->model.max_position_embeddings, longest = s->windows.longest;
    scorer_choose_rows(context > longest ? context : longest, longest, s->windows.total, &how);
    if (status == DRV_OK) status = scorer_open(a, &how, &model);
    if (status == DRV_OK) status = score_all(a, s, model);
    scorer_close(model);
    encoder_free(s->encoder);
    tokenizer_close(s->tokenizer);
    return status;
}

drv_status choices_score(arena *a, const choices_opts *opts, const choice_set *set,
        choices_result *out) {
    *out = (choices_result){0};
    scoring s = {.opts = opts, .set = set, .out = out};
    const drv_status status = open_and_score(a, &s);
    progress_end();
    id_list_free(&s.ids);
    id_list_free(&s.whole);
    window_list_free(&s.windows);
    return status;
}
