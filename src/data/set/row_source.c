// Chooses the part of a data set, lays out its rows, and reads one of them.
#include "data/set/row_source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bus_error.h"
#include "base/log.h"
#include "data/set/pair_rows.h"
#include "data/sft/sft.h"

static const char *packing_name(rows_packing packing) {
    static const char *const names[N_PACKINGS] = {"auto", "documents", "stream", "examples",
            "pairs"};
    return names[packing];
}

static const char *loss_name(rows_loss loss) {
    static const char *const names[N_ROWS_LOSSES] = {"auto", "responses", "last", "all"};
    return names[loss];
}

// --- the part of a data set
typedef struct span { // of tokens
    int64_t begin, end;
} span;

static int64_t boundary(const row_source *src, double share, bool by_tokens) {
    if (by_tokens) return llround(share * (double)src->set->n_tokens);
    if (src->packing == PACKING_PAIRS)
        return dataset_document_start(src->set, 2 * llround(share * (double)src->set->about.pairs));
    return dataset_document_start(src->set, llround(share * (double)src->set->n_documents));
}

static span part_of(const row_source *src, rows_part part, bool by_tokens) {
    double from = 0;
    for (int i = 0; i < (int)part; i++)
        from += src->shares[i];
    const double to = from + src->shares[part];
    if (src->shares[PART_TRAIN] + src->shares[PART_VALID] + src->shares[PART_TEST] == 0)
        return (span){0, src->set->n_tokens};
    return (span){boundary(src, from, by_tokens),
            to > 1 - 1e-12 ? src->set->n_tokens : boundary(src, to, by_tokens)};
}

// Returns whether cutting between documents would leave training or validation without a row. The
// test part is not considered: a run does not read it, and its usual share is so small that most
// sets would be cut between tokens.
static bool needs_cut_by_tokens(const row_source *src) {
    for (rows_part part = PART_TRAIN; part <= PART_VALID; part++) {
        const span x = part_of(src, part, false);
        if (src->shares[part] > 0 && x.end - x.begin < 2) return true;
    }
    return false;
}

// Returns whether a token of the part predicts another one: a document of one token does not.
static bool has_pair(const row_source *src) {
    if (src->end - src->begin < 2) return false;
    if (src->packing == PACKING_STREAM) return true;
    int64_t document = dataset_document_of(src->set, src->begin), begin = src->begin;
    while (begin < src->end) {
        const int64_t next = dataset_document_start(src->set, ++document);
        const int64_t end = next < src->end ? next : src->end;
        if (end - begin >= 2) return true;
        begin = next;
    }
    return false;
}

static drv_status nothing_to_predict(const row_source *src) {
    static const char *const names[N_PARTS] = {"training", "validation", "the test"};
    const dataset *set = src->set;
    if (set->n_tokens >= 2 && src->end - src->begin < 2)
        return drv_fail(DRV_E_DATA,
                "%s: data.split leaves %lld of %lld tokens for %s, expected 2 or more; give it a "
                "larger share, or name another data set in data.valid",
                set->prefix, (long long)(src->end - src->begin), (long long)set->n_tokens,
                names[src->opts->part]);
    return drv_fail(DRV_E_DATA,
            "%s: nothing to predict: none of its documents has 2 tokens or more (%lld documents, "
            "%lld tokens)",
            set->prefix, (long long)set->n_documents, (long long)set->n_tokens);
}

// --- packed rows
static bool role_counts(const row_source *src, int role) {
    return src->loss == LOSS_ALL || role == ROLE_LAST_ANSWER ||
           (src->loss == LOSS_RESPONSES && role == ROLE_ANSWER);
}

// Finds out whether one of tokens [first, first + n) counts.
static drv_status any_counts(const row_source *src, int64_t first, int64_t n, bool *out) {
    *out = src->loss == LOSS_ALL;
    for (int64_t i = 0; i < n && !*out; i += src->opts->row_tokens) {
        const int64_t k = n - i < src->opts->row_tokens ? n - i : src->opts->row_tokens;
        DRV_TRY(dataset_read_roles(src->set, first + i, k, src->scratch.roles));
        for (int64_t j = 0; j < k; j++)
            *out |= role_counts(src, src->scratch.roles[j]);
    }
    return DRV_OK;
}

// Adds tokens [begin, end) of a document as one example, unless none of its tokens has a loss.
static drv_status add_example(row_source *src, int64_t begin, int64_t end, piece_list *list) {
    const int64_t longest = src->opts->row_tokens + 1;
    bool counts = false;
    src->count.examples++;
    if (end - begin > longest) {
        src->count.longer++;
        src->count.dropped += src->opts->drop_long;
        if (src->opts->drop_long) return DRV_OK;
        end = begin + longest;
    }
    if (end - begin >= 2) DRV_TRY(any_counts(src, begin + 1, end - begin - 1, &counts));
    src->count.unanswered += !counts;
    if (counts) piece_windows(list, begin, end, src->opts->row_tokens, src->opts->row_tokens);
    return DRV_OK;
}

static drv_status add_pieces(row_source *src, piece_list *list) {
    if (src->opts->stride && src->packing == PACKING_STREAM) {
        piece_windows(list, src->begin, src->end, src->opts->row_tokens, src->opts->stride);
        return DRV_OK;
    }
    const int64_t first = dataset_document_of(src->set, src->begin);
    for (int64_t i = first, begin = src->begin, end; begin < src->end; begin = end) {
        end = dataset_document_start(src->set, ++i);
        if (end > src->end) end = src->end;
        if (src->opts->stride)
            piece_windows(list, begin, end, src->opts->row_tokens, src->opts->stride);
        else if (end > begin)
            DRV_TRY(add_example(src, begin, end, list));
    }
    dataset_forget(src->set);
    return DRV_OK;
}

// Describes which examples are left out or cut off, and how much shared prompts save: "; 3 longer
// than ..."; "" if there is nothing to say. A row of T tokens fits a document of T + 1, whose last
// token is only predicted; the tokens that fit of a pair depend on what its documents share.
static void describe_left(const row_source *src, str *out) {
    const bool pairs = src->packing == PACKING_PAIRS;
    char which[64] = "too long for a row";
    if (!pairs)
        snprintf(which, sizeof which, "longer than %lld tokens",
                (long long)src->opts->row_tokens + 1);
    str_puts(out, "");
    if (src->count.shared)
        str_printf(out, "; each prompt is computed once, which saves %.1f%% of the tokens",
                100 * (double)src->count.shared / (double)(src->count.shared + src->pack.n_tokens));
    if (src->count.dropped)
        str_printf(out, "; %lld %s are left out (data.too_long: drop)",
                (long long)src->count.dropped, which);
    else if (src->count.longer)
        str_printf(out, "; %lld %s are cut off %s (data.too_long: truncate)",
                (long long)src->count.longer, which,
                pairs ? "so that both responses have a share" : "there");
    if (src->count.unanswered)
        str_printf(out, "; %lld without a token to learn are left out",
                (long long)src->count.unanswered);
    if (src->count.alike)
        str_printf(out, "; %lld whose responses are equal are left out",
                (long long)src->count.alike);
}

static void say_packing(const row_source *src) {
    const long long all = src->count.examples, row_tokens = src->opts->row_tokens,
                    packed = all - src->count.dropped - src->count.unanswered - src->count.alike;
    str of = {0}, left = {0};
    describe_left(src, &left);
    if (packed < all) str_printf(&of, " of %lld", all);
    log_info("%s: %lld%s %s%s in %lld row%s of %lld tokens, %.1f%% filled%s", src->set->prefix,
            packed, of.p ? of.p : "", src->packing == PACKING_PAIRS ? "pair" : "example",
            str_plural(of.p ? all : packed), (long long)src->n_rows, str_plural(src->n_rows),
            row_tokens, 100 * (double)src->pack.n_tokens / (double)(src->n_rows * row_tokens),
            left.p);
    str_free(&of);
    str_free(&left);
}

static drv_status no_answers(const row_source *src) {
    const bool pairs = src->packing == PACKING_PAIRS;
    str left = {0};
    describe_left(src, &left);
    drv_status status = drv_fail(DRV_E_DATA, "%s: nothing to predict in %lld %s%s%s%s%s",
            src->set->prefix, (long long)src->count.examples,
            pairs ? "pairs" : "examples (data.loss: ", pairs ? "" : loss_name(src->loss),
            pairs ? "" : ")", left.p,
            src->count.longer ? "; expected a larger data.sequence_length" : "");
    str_free(&left);
    return status;
}

static drv_status pack_source(row_source *src) {
    piece_list list = {0};
    const bool pairs = src->packing == PACKING_PAIRS;
    if ((pairs || (src->packing == PACKING_EXAMPLES && !src->opts->stride)) && src->by_tokens)
        return drv_fail(DRV_E_DATA,
                "%s: data.split of %lld %s leaves training or validation without one; name another data set in data.valid",
                src->set->prefix,
                (long long)(pairs ? src->set->about.pairs : src->set->n_documents),
                pairs ? "pairs" : "examples");
    const drv_status status = pairs ? pair_pieces(src, &list) : add_pieces(src, &list);
    if (status == DRV_OK) packing_make(&list, src->opts->row_tokens, &src->pack);
    free(list.p);
    src->packed = status == DRV_OK;
    src->n_rows = src->pack.n_rows;
    if (status != DRV_OK || src->n_rows == 0) return status;
    if (pairs || !src->opts->stride) say_packing(src);
    return DRV_OK;
}

// Refuses pairs for other objectives than dpo, and other data sets for dpo.
static drv_status check_pairs(const row_source *src) {
    const bool wanted = src->packing == PACKING_PAIRS, pairs = src->set->about.pairs > 0;
    if (wanted && !pairs)
        return drv_fail(DRV_E_USAGE,
                "%s: not a set of preference pairs, which training.objective: dpo needs: build it with drover data build --preference",
                src->set->prefix);
    if (wanted || !pairs) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: a set of %lld preference pairs, expected a config with training.objective: dpo, or a set of drover data build --sft",
            src->set->prefix, (long long)src->set->about.pairs);
}

static drv_status choose(row_source *src) {
    const bool roles = dataset_has_roles(src->set);
    src->packing = src->opts->packing;
    src->loss = src->opts->loss;
    if (src->packing == PACKING_AUTO) src->packing = roles ? PACKING_EXAMPLES : PACKING_DOCUMENTS;
    if (src->loss == LOSS_AUTO) src->loss = roles ? LOSS_RESPONSES : LOSS_ALL;
    DRV_TRY(check_pairs(src));
    if (src->loss == LOSS_ALL || roles) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: data.loss is %s, but no %s.roles says which tokens are answers: build the set with drover data build --sft, or "
            "give data.loss: all",
            src->set->prefix, loss_name(src->loss), src->set->prefix);
}

static drv_status open_part(void *ctx) {
    row_source *src = ctx;
    DRV_TRY(choose(src));
    src->by_tokens = needs_cut_by_tokens(src);
    const span x = part_of(src, src->opts->part, src->by_tokens);
    src->begin = x.begin;
    src->end = x.end;
    if (src->weight <= 0) return DRV_OK;
    if (!has_pair(src)) return nothing_to_predict(src);
    if (src->opts->stride || src->packing == PACKING_EXAMPLES || src->packing == PACKING_PAIRS) {
        DRV_TRY(pack_source(src));
        return src->n_rows ? DRV_OK : no_answers(src);
    }
    // The last token is only predicted, so it does not begin a row.
    src->n_rows = (src->end - src->begin - 2) / src->opts->row_tokens + 1;
    if (src->by_tokens && src->opts->part == PART_TRAIN)
        log_info("%s: too few documents (%lld) for data.split: cut between tokens, %lld of %lld for "
                 "training",
                src->set->prefix, (long long)src->set->n_documents,
                (long long)(src->end - src->begin), (long long)src->set->n_tokens);
    return DRV_OK;
}

drv_status row_source_open(arena *a, const char *prefix, row_source *src) {
    DRV_TRY(dataset_open(a, prefix, &src->set));
    return bus_error_guard(open_part, src, "the index of a data set");
}

void row_source_close(row_source *src) {
    packing_free(&src->pack);
    if (src->set) dataset_close(src->set);
}

// --- one row
// Removes the label of token `first` + 1 + i, labels[i], unless its role has a loss.
static drv_status keep_answers(const row_source *src, int64_t first, int64_t n, int32_t *labels) {
    if (src->loss == LOSS_ALL || n <= 0) return DRV_OK;
    DRV_TRY(dataset_read_roles(src->set, first + 1, n, src->scratch.roles));
    for (int64_t i = 0; i < n; i++)
        if (!role_counts(src, src->scratch.roles[i])) labels[i] = -1;
    return DRV_OK;
}

// Labels and positions of `n` tokens from `first`; `have` of them plus one may be in the buffer.
static void mark(const row_source *src, int64_t first, int64_t n, int64_t have,
        const row_out *out) {
    const dataset *set = src->set;
    const bool documents = src->packing != PACKING_STREAM;
    int64_t document = dataset_document_of(set, first), start = first;
    int64_t end = documents ? dataset_document_start(set, document + 1) : src->end;
    for (int64_t i = 0; i < n; i++) {
        while (documents && first + i >= end) { // empty documents are skipped
            start = end;
            end = dataset_document_start(set, ++document + 1);
        }
        out->position[i] = (int32_t)(first + i - start);
        const bool known = i + 1 < have && first + i + 1 < end;
        out->labels[i] = known ? src->scratch.tokens[i + 1] : -1;
    }
}

// Tokens [row * T, row * T + T) of the part. *n: how many there are.
static drv_status cut_row(const row_source *src, int64_t row, const row_out *out, int64_t *n) {
    const int64_t width = src->opts->row_tokens, first = src->begin + row * width;
    const int64_t have = src->end - first < width + 1 ? src->end - first : width + 1;
    DRV_TRY(dataset_read(src->set, first, have, src->opts->n_vocab, src->scratch.tokens));
    *n = have < width ? have : width;
    memcpy(out->tokens, src->scratch.tokens, sizeof *out->tokens * (size_t)*n);
    mark(src, first, *n, have, out);
    return keep_answers(src, first, have - 1, out->labels);
}

static drv_status packed_row(const row_source *src, int64_t row, const row_out *out, int64_t *n) {
    *n = 0;
    for (int64_t k = src->pack.row[row]; k < src->pack.row[row + 1]; k++) {
        const row_piece *piece = &src->pack.pieces[k];
        int32_t *labels = out->labels + *n;
        DRV_TRY(dataset_read(src->set, piece->first, piece->n + 1, src->opts->n_vocab,
                src->scratch.tokens));
        memcpy(out->tokens + *n, src->scratch.tokens, sizeof *out->tokens * (size_t)piece->n);
        for (int32_t i = 0; i < piece->n; i++) {
            out->position[*n + i] = i;
            labels[i] = i < piece->skip ? -1 : src->scratch.tokens[i + 1];
        }
        DRV_TRY(keep_answers(src, piece->first, piece->n, labels));
        *n += piece->n;
    }
    return DRV_OK;
}

typedef struct reading {
    const row_source *src;
    int64_t row;
    const row_out *out;
} reading;

static drv_status read_row(void *ctx) {
    const reading *x = ctx;
    const row_source *src = x->src;
    const row_out *out = x->out;
    const int64_t row = x->row;
    int64_t n;
    if (src->packing == PACKING_PAIRS)
        DRV_TRY(pair_row(src, row, out, &n));
    else
        DRV_TRY(src->packed ? packed_row(src, row, out, &n) : cut_row(src, row, out, &n));
    const bool documents = src->packed || src->packing != PACKING_STREAM;
    // Past the end: a document of its own, none of whose tokens is a label.
    for (int64_t i = n; i < src->opts->row_tokens; i++) {
        out->tokens[i] = 0;
        out->position[i] = documents ? (int32_t)(i - n) : (int32_t)i;
        out->labels[i] = -1;
    }
    for (int64_t i = 0; i < n; i++)
        *out->counted += out->labels[i] >= 0;
    return DRV_OK;
}

drv_status row_source_read(const row_source *src, int64_t row, const row_out *out) {
    return bus_error_guard(read_row, &(reading){src, row, out}, "the index of a data set");
}

// --- a bound
static int64_t documents_of_row(const row_source *src, int64_t row) {
    const int64_t width = src->opts->row_tokens;
    int64_t n = 0, documents;
    if (src->packed) {
        documents = src->pack.row[row + 1] - src->pack.row[row];
        for (int64_t k = src->pack.row[row]; k < src->pack.row[row + 1]; k++)
            n += src->pack.pieces[k].n;
    } else {
        const int64_t first = src->begin + row * width;
        n = src->end - first < width ? src->end - first : width;
        documents = dataset_document_of(src->set, first + n - 1) -
                    dataset_document_of(src->set, first) + 1;
    }
    return documents + (n < width);
}

typedef struct row_bound {
    const row_source *src;
    int64_t most;
} row_bound;

static drv_status bound_rows(void *ctx) {
    row_bound *x = ctx;
    for (int64_t row = 0; row < x->src->n_rows; row++) {
        const int64_t n = documents_of_row(x->src, row);
        if (n > x->most) x->most = n;
    }
    dataset_forget(x->src->set);
    return DRV_OK;
}

int64_t row_source_most_documents(const row_source *src) {
    row_bound x = {src, 1};
    if (src->packing == PACKING_PAIRS) return 0;
    if (src->packing == PACKING_STREAM && !src->packed) return x.most;
    return bus_error_guard(bound_rows, &x, "the index of a data set") == DRV_OK ? x.most : 0;
}

// --- the fingerprint that a run records
json_t *row_source_fingerprint(const row_source *src) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)src->set->idx_hash);
    json_t *prefix = json_string(src->set->prefix); // NULL: a path that is not UTF-8
    return json_pack("{s:o?, s:I, s:I, s:s, s:s?, s:s?, s:s, s:s, s:s?, s:f, s:s}", "prefix",
            prefix, "tokens", (json_int_t)src->set->n_tokens, "documents",
            (json_int_t)src->set->n_documents, "idx_xxh3", hash, "tokenizer_xxh3",
            src->set->about.tokenizer_hash, "roles_xxh3",
            dataset_has_roles(src->set) ? src->set->roles_hash : NULL, "packing",
            packing_name(src->packing), "loss", loss_name(src->loss), "long",
            src->packing == PACKING_EXAMPLES || src->packing == PACKING_PAIRS
                    ? src->opts->drop_long ? "dropped" : "truncated"
                    : NULL,
            "weight", src->weight, "split_by", src->by_tokens ? "tokens" : "documents");
}
