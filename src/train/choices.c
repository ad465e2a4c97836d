// Scores of multiple choice: token ids of context and choice, the log-likelihood of each choice,
// many of them in one forward pass, and the two accuracies.
#include "train/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "train/prefix.h"
#include "train/stop.h"

// Rows that are packed together: so many that they are full, so few that progress is seen.
enum { ROWS_TOGETHER = 32 };

typedef struct request { // one choice: ids[begin, begin + n) of the list, the last n_scored count
    int64_t begin, n, n_scored;
    bool again; // the ids of an earlier choice of the record, whose score it has
} request;

typedef struct scoring {
    const choices_opts *opts;
    const choice_set *set;
    tokenizer *tokenizer;
    model_config model;
    encoder *encoder;
    id_list ids, whole; // of all requests; scratch
    request **requests; // [record][choice]
    double *losses;     // by token of ids; NaN: not scored
    choices_result *out;
    int64_t first, end;        // records that are scored together
    int64_t right, right_norm; // of the out->n that are scored
    double begin_s;
    int64_t n_tokens, n_done; // of pieces: all; in records before `first`
} scoring;

// --- ids
static drv_status add_ids(scoring *s, const char *text, size_t n, bool specials, id_list *ids) {
    const int64_t begin = ids->n;
    encoder_run(s->encoder, text, n, specials, ids);
    return prefix_check_ids(ids->p + begin, ids->n - begin, s->model.vocab_size);
}

// lm-evaluation-harness's _encode_pair: white space at the end of the context goes to the choice;
// the ids of the choice are those of the whole text after as many as the context alone has. Where
// there is no context, the prefix token stands for it.
static drv_status encode(scoring *self, const choice_record *record, text_span choice,
        request *out) {
    const text_span context = record->context;
    str text = {0};
    str_add(&text, context.p, context.n);
    str_puts(&text, " ");
    str_add(&text, choice.p, choice.n);
    out->begin = self->ids.n;
    self->whole.n = 0;
    const bool specials = self->opts->specials && context.n > 0;
    drv_status status = add_ids(self, text.p, text.n, specials, &self->whole);
    str_free(&text);
    DRV_TRY(status);
    if (context.n) DRV_TRY(add_ids(self, context.p, record->n_stripped, specials, &self->ids));
    int64_t n_context = self->ids.n - out->begin;
    const int64_t n_known = n_context;
    if (n_context == 0) {
        int32_t prefix;
        DRV_TRY_CTX(prefix_token(self->tokenizer, &prefix), "the context has no token");
        id_list_add(&self->ids, prefix);
        n_context = 1;
        // A choice that brings that token itself does not get it twice.
        if (self->whole.n && self->whole.p[0] == prefix) self->ids.n = out->begin;
    }
    if (self->whole.n > n_known)
        id_list_append(&self->ids, self->whole.p + n_known, self->whole.n - n_known);
    out->n = self->ids.n - out->begin;
    out->n_scored = out->n - n_context;
    return DRV_OK;
}

// The last token is not read, only predicted: so one more than the context fits; the left is cut.
static drv_status fit(scoring *s, request *r) {
    const int64_t most = s->model.max_position_embeddings + 1;
    if (r->n_scored < 1)
        return drv_fail(DRV_E_DATA, "it adds no token to its context, expected one that does");
    if (r->n_scored >= most)
        return drv_fail(DRV_E_DATA,
                "it has %lld tokens, expected at most the model's context of %lld",
                (long long)r->n_scored, (long long)(most - 1));
    if (r->n <= most) return DRV_OK;
    r->begin += r->n - most;
    r->n = most;
    s->out->n_cut++;
    return DRV_OK;
}

// Rounding depends on the place in a row: a choice that is there twice is scored once, so that the
// first of the two is the better one, as where scores are exact.
static void find_again(scoring *s, request *list, int k) {
    for (int i = 0; i < k; i++) {
        if (list[i].n != list[k].n || list[i].n_scored != list[k].n_scored) continue;
        const int32_t *ids = s->ids.p;
        if (memcmp(ids + list[i].begin, ids + list[k].begin, sizeof *ids * (size_t)list[k].n) != 0)
            continue;
        list[k] = list[i];
        list[k].again = true;
        return;
    }
}

static drv_status encode_all(arena *a, scoring *s, int64_t *longest) {
    s->requests = ARENA_ARRAY(a, request *, s->set->n);
    *longest = 0;
    for (int64_t i = 0; i < s->set->n; i++) {
        const choice_record *record = s->set->record + i;
        s->requests[i] = ARENA_ARRAY(a, request, record->n_choices);
        for (int k = 0; k < record->n_choices; k++) {
            request *r = s->requests[i] + k;
            drv_status status = encode(s, record, record->choice[k], r);
            if (status == DRV_OK) status = fit(s, r);
            DRV_TRY_CTX(status, "%s:%lld: choice %d", s->set->path, (long long)record->line, k);
            find_again(s, s->requests[i], k);
            if (r->n - 1 > *longest) *longest = r->n - 1;
            if (!r->again) s->n_tokens += r->n - 1;
        }
        progress("tokens: record %lld of %lld", (long long)i + 1, (long long)s->set->n);
    }
    return DRV_OK;
}

// --- scores
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

// Log-likelihoods of a record; false: it has not been scored, or not all of it.
static bool take_record(const scoring *s, int64_t i) {
    double *values = s->out->log_likelihood[i];
    bool whole = true;
    for (int k = 0; k < s->set->record[i].n_choices; k++) {
        const request *r = s->requests[i] + k;
        values[k] = 0;
        for (int64_t j = r->n - r->n_scored; j < r->n; j++)
            values[k] -= s->losses[r->begin + j];
        whole &= !isnan(values[k]);
    }
    return whole;
}

// Adds those of [first, end) that are scored to the accuracies.
static void summarize(scoring *s) {
    choices_result *out = s->out;
    for (int64_t i = s->first; i < s->end; i++) {
        const choice_record *record = s->set->record + i;
        if (!take_record(s, i)) continue;
        out->n++;
        s->right += best(record, out->log_likelihood[i], false) == record->gold;
        s->right_norm += best(record, out->log_likelihood[i], true) == record->gold;
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
            100 * done / (double)s->n_tokens, (long long)s->set->n, so_far->acc, so_far->acc_norm,
            str_si(done / seconds), str_duration(seconds / done * ((double)s->n_tokens - done)));
    return DRV_OK;
}

static drv_status score_together(scoring *s, scorer *model, int64_t most_tokens) {
    piece_list pieces = {0};
    int64_t n = 0;
    for (s->end = s->first; s->end < s->set->n && n < most_tokens; s->end++)
        for (int k = 0; k < s->set->record[s->end].n_choices; k++) {
            const request *r = s->requests[s->end] + k;
            if (r->again) continue;
            MEM_GROW(pieces.p, pieces.n, pieces.cap);
            pieces.p[pieces.n++] =
                    (row_piece){r->begin, (int32_t)(r->n - 1), (int32_t)(r->n - 1 - r->n_scored)};
            n += r->n - 1;
        }
    const drv_status status = scorer_pieces(model, s->ids.p, &pieces, s->losses, after_pass, s);
    free(pieces.p);
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
    s->out->n_tokens = s->n_tokens;
    free(s->losses);
    return status;
}

static drv_status open_and_score(arena *a, scoring *s) {
    const choices_opts *opts = s->opts;
    int64_t longest;
    scorer *model = NULL;
    scorer_opts how = opts->model;
    DRV_TRY(model_config_read(how.folder, &s->model));
    DRV_TRY(tokenizer_open(a, how.folder, &s->tokenizer));
    s->encoder = encoder_new(s->tokenizer);
    drv_status status = encode_all(a, s, &longest);
    scorer_choose_rows(s->model.max_position_embeddings, longest, s->n_tokens, &how);
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
    return status;
}
