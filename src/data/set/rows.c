// Rows of training and evaluation from data sets: which tokens, in which order, what each predicts.
#include "data/set/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "data/set/packed_rows.h"
#include "data/sft/sft.h"

static const char *packing_name(rows_packing packing) {
    static const char *const names[N_PACKINGS] = {"auto", "documents", "stream", "examples"};
    return names[packing];
}

static const char *loss_name(rows_loss loss) {
    static const char *const names[N_ROWS_LOSSES] = {"auto", "responses", "last", "all"};
    return names[loss];
}

typedef struct source {
    dataset *set;
    double weight;      // of a sum of 1
    bool by_tokens;     // the parts are cut between tokens, else between documents
    int64_t begin, end; // tokens of this part
    int64_t n_rows, taken;
    rows_packing packing; // what PACKING_AUTO and LOSS_AUTO mean here
    rows_loss loss;
    bool packed; // rows are those of `pack`
    packed_rows pack;
    struct {
        int64_t examples, longer, dropped, unanswered; // not in the rows: dropped, unanswered
    } count;
} source;

struct rows {
    rows_opts opts;
    double shares[N_PARTS]; // of a sum of 1; all 0: no split
    source *sources;
    int64_t taken;
    int64_t n_read;       // rows that were laid out, others passed over
    int32_t *buffer;      // T + 1 tokens
    unsigned char *roles; // T
    char last[512];
};

// --- the part of a data set
typedef struct span { // of tokens
    int64_t begin, end;
} span;

static int64_t boundary(const source *src, double share, bool by_tokens) {
    if (by_tokens) return llround(share * (double)src->set->n_tokens);
    return dataset_document_start(src->set, llround(share * (double)src->set->n_documents));
}

static span part_of(const rows *stream, const source *src, rows_part part, bool by_tokens) {
    double from = 0;
    for (int i = 0; i < (int)part; i++)
        from += stream->shares[i];
    const double to = from + stream->shares[part];
    if (stream->shares[PART_TRAIN] + stream->shares[PART_VALID] + stream->shares[PART_TEST] == 0)
        return (span){0, src->set->n_tokens};
    return (span){boundary(src, from, by_tokens),
            to > 1 - 1e-12 ? src->set->n_tokens : boundary(src, to, by_tokens)};
}

// Training and validation both need a row. The test part does not decide: nothing reads it in a
// run, and its usual share is so small that most sets would be cut between tokens.
static bool needs_cut_by_tokens(const rows *stream, const source *src) {
    for (rows_part part = PART_TRAIN; part <= PART_VALID; part++) {
        const span x = part_of(stream, src, part, false);
        if (stream->shares[part] > 0 && x.end - x.begin < 2) return true;
    }
    return false;
}

// A document of one token predicts nothing and is predicted by nothing.
static bool has_pair(const source *src) {
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

static drv_status nothing_to_predict(const rows *stream, const source *src) {
    static const char *const names[N_PARTS] = {"training", "validation", "the test"};
    const dataset *set = src->set;
    if (set->n_tokens >= 2 && src->end - src->begin < 2)
        return drv_fail(DRV_E_DATA,
                "%s: data.split leaves %lld of %lld tokens for %s, expected 2 or more; give it a "
                "larger share, or name another data set in data.valid",
                set->prefix, (long long)(src->end - src->begin), (long long)set->n_tokens,
                names[stream->opts.part]);
    return drv_fail(DRV_E_DATA,
            "%s: nothing to predict: none of its documents has 2 tokens or more (%lld documents, "
            "%lld tokens)",
            set->prefix, (long long)set->n_documents, (long long)set->n_tokens);
}

// --- packed rows
static bool role_counts(const source *src, int role) {
    return src->loss == LOSS_ALL || role == ROLE_LAST_ANSWER ||
           (src->loss == LOSS_RESPONSES && role == ROLE_ANSWER);
}

// Whether one of tokens [first, first + n) counts.
static drv_status any_counts(const rows *stream, const source *src, int64_t first, int64_t n,
        bool *out) {
    *out = src->loss == LOSS_ALL;
    for (int64_t i = 0; i < n && !*out; i += stream->opts.row_tokens) {
        const int64_t k = n - i < stream->opts.row_tokens ? n - i : stream->opts.row_tokens;
        DRV_TRY(dataset_read_roles(src->set, first + i, k, stream->roles));
        for (int64_t j = 0; j < k; j++)
            *out |= role_counts(src, stream->roles[j]);
    }
    return DRV_OK;
}

// Tokens [begin, end) of a document as one example, if there is something in it to learn.
static drv_status add_example(const rows *stream, source *src, int64_t begin, int64_t end,
        piece_list *list) {
    const int64_t longest = stream->opts.row_tokens + 1;
    bool counts = false;
    src->count.examples++;
    if (end - begin > longest) {
        src->count.longer++;
        src->count.dropped += stream->opts.drop_long;
        if (stream->opts.drop_long) return DRV_OK;
        end = begin + longest;
    }
    if (end - begin >= 2) DRV_TRY(any_counts(stream, src, begin + 1, end - begin - 1, &counts));
    src->count.unanswered += !counts;
    if (counts) piece_windows(list, begin, end, stream->opts.row_tokens, stream->opts.row_tokens);
    return DRV_OK;
}

static drv_status add_pieces(const rows *stream, source *src, piece_list *list) {
    if (stream->opts.stride && src->packing == PACKING_STREAM) {
        piece_windows(list, src->begin, src->end, stream->opts.row_tokens, stream->opts.stride);
        return DRV_OK;
    }
    const int64_t first = dataset_document_of(src->set, src->begin);
    for (int64_t i = first, begin = src->begin, end; begin < src->end; begin = end) {
        end = dataset_document_start(src->set, ++i);
        if (end > src->end) end = src->end;
        if (stream->opts.stride)
            piece_windows(list, begin, end, stream->opts.row_tokens, stream->opts.stride);
        else if (end > begin)
            DRV_TRY(add_example(stream, src, begin, end, list));
    }
    dataset_forget(src->set);
    return DRV_OK;
}

static void say_packing(const rows *stream, const source *src) {
    const long long longest = stream->opts.row_tokens + 1;
    str left = {0};
    if (src->count.dropped)
        str_printf(&left, "; %lld longer than %lld tokens are left out (data.too_long: drop)",
                (long long)src->count.dropped, longest);
    else if (src->count.longer)
        str_printf(&left,
                "; %lld longer than %lld tokens are cut off there (data.too_long: truncate)",
                (long long)src->count.longer, longest);
    if (src->count.unanswered)
        str_printf(&left, "; %lld without a token to learn are left out",
                (long long)src->count.unanswered);
    log_info("%s: %lld examples in %lld rows of %lld tokens, %.1f%% filled%s", src->set->prefix,
            (long long)src->count.examples, (long long)src->n_rows, longest - 1,
            100 * (double)src->pack.n_tokens / (double)(src->n_rows * (longest - 1)),
            left.p ? left.p : "");
    str_free(&left);
}

static drv_status no_answers(const rows *stream, const source *src) {
    return drv_fail(DRV_E_DATA,
            "%s: nothing to predict: of %lld examples %lld are longer than %lld tokens and left out, %lld have no token that "
            "counts (data.loss: %s)",
            src->set->prefix, (long long)src->count.examples, (long long)src->count.dropped,
            (long long)stream->opts.row_tokens + 1, (long long)src->count.unanswered,
            loss_name(src->loss));
}

static drv_status pack_source(const rows *stream, source *src) {
    piece_list list = {0};
    if (src->packing == PACKING_EXAMPLES && src->by_tokens && !stream->opts.stride)
        return drv_fail(DRV_E_DATA,
                "%s: data.split of %lld examples leaves training or validation without one; name another data set in data.valid",
                src->set->prefix, (long long)src->set->n_documents);
    const drv_status status = add_pieces(stream, src, &list);
    if (status == DRV_OK) packing_make(&list, stream->opts.row_tokens, &src->pack);
    free(list.p);
    src->packed = status == DRV_OK;
    src->n_rows = src->pack.n_rows;
    if (status != DRV_OK || src->n_rows == 0) return status;
    if (!stream->opts.stride) say_packing(stream, src);
    return DRV_OK;
}

static drv_status choose(const rows *stream, source *src) {
    const bool roles = dataset_has_roles(src->set);
    src->packing = stream->opts.packing;
    src->loss = stream->opts.loss;
    if (src->packing == PACKING_AUTO) src->packing = roles ? PACKING_EXAMPLES : PACKING_DOCUMENTS;
    if (src->loss == LOSS_AUTO) src->loss = roles ? LOSS_RESPONSES : LOSS_ALL;
    if (src->loss == LOSS_ALL || roles) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: data.loss is %s, but no %s.roles says which tokens are answers: build the set with drover data build --sft, or "
            "give data.loss: all",
            src->set->prefix, loss_name(src->loss), src->set->prefix);
}

static drv_status open_source(arena *mem, rows *stream, int i, double total_weight) {
    source *src = &stream->sources[i];
    const row_source_spec *spec = &stream->opts.sources[i];
    DRV_TRY(dataset_open(mem, spec->prefix, &src->set));
    src->weight = spec->weight / total_weight;
    DRV_TRY(choose(stream, src));
    src->by_tokens = needs_cut_by_tokens(stream, src);
    const span x = part_of(stream, src, stream->opts.part, src->by_tokens);
    src->begin = x.begin;
    src->end = x.end;
    if (src->weight <= 0) return DRV_OK;
    if (!has_pair(src)) return nothing_to_predict(stream, src);
    if (stream->opts.stride || src->packing == PACKING_EXAMPLES) {
        DRV_TRY(pack_source(stream, src));
        return src->n_rows ? DRV_OK : no_answers(stream, src);
    }
    // The last token is only predicted, so it does not begin a row.
    src->n_rows = (src->end - src->begin - 2) / stream->opts.row_tokens + 1;
    if (src->by_tokens && stream->opts.part == PART_TRAIN)
        log_info("%s: too few documents (%lld) for data.split: cut between tokens, %lld of %lld for "
                 "training",
                src->set->prefix, (long long)src->set->n_documents,
                (long long)(src->end - src->begin), (long long)src->set->n_tokens);
    return DRV_OK;
}

drv_status rows_open(arena *mem, const rows_opts *opts, rows **out) {
    rows *stream = ARENA_NEW(mem, rows);
    stream->opts = *opts;
    stream->sources = ARENA_ARRAY(mem, source, opts->n_sources);
    double weight = 0, share = 0;
    for (int i = 0; i < opts->n_sources; i++)
        weight += opts->sources[i].weight;
    if (!(weight > 0))
        return drv_fail(DRV_E_USAGE, "the weights of the data sets sum to %g, expected more than 0",
                weight);
    for (int i = 0; i < N_PARTS; i++)
        share += opts->split[i];
    for (int i = 0; i < N_PARTS && share > 0; i++)
        stream->shares[i] = opts->split[i] / share;
    stream->buffer = ARENA_ARRAY(mem, int32_t, opts->row_tokens + 1);
    stream->roles = ARENA_ARRAY(mem, unsigned char, opts->row_tokens);
    for (int i = 0; i < opts->n_sources; i++) {
        const drv_status status = open_source(mem, stream, i, weight);
        if (status != DRV_OK) {
            rows_close(stream);
            return status;
        }
    }
    *out = stream;
    return DRV_OK;
}

void rows_close(rows *stream) {
    for (int i = 0; i < stream->opts.n_sources; i++) {
        packing_free(&stream->sources[i].pack);
        if (stream->sources[i].set) dataset_close(stream->sources[i].set);
    }
}

// --- the order
int64_t rows_per_epoch(const rows *stream) {
    int64_t n = 0;
    for (int i = 0; i < stream->opts.n_sources; i++)
        n += stream->sources[i].n_rows;
    return n;
}

int64_t rows_longest(const rows *stream) {
    int64_t longest = 0;
    for (int i = 0; i < stream->opts.n_sources; i++) {
        const packed_rows *pack = &stream->sources[i].pack;
        for (int64_t k = 0; k < (pack->n_rows ? pack->row[pack->n_rows] : 0); k++)
            if (pack->pieces[k].n > longest) longest = pack->pieces[k].n;
    }
    return longest;
}

int64_t rows_packed_tokens(const rows *stream) {
    int64_t n = 0;
    for (int i = 0; i < stream->opts.n_sources; i++)
        n += stream->sources[i].pack.n_tokens;
    return n;
}

int64_t rows_taken(const rows *stream) {
    return stream->taken;
}

static source *furthest_behind(rows *stream) {
    source *best = NULL;
    double largest = -HUGE_VAL;
    for (int i = 0; i < stream->opts.n_sources; i++) {
        source *src = &stream->sources[i];
        const double behind = src->weight * (double)(stream->taken + 1) - (double)src->taken;
        if (src->weight > 0 && behind > largest) largest = behind, best = src;
    }
    return best;
}

// In order: the first that has rows of this epoch left.
static source *first_unfinished(rows *stream) {
    const int64_t epoch = stream->taken / rows_per_epoch(stream);
    for (int i = 0; i < stream->opts.n_sources; i++) {
        source *src = &stream->sources[i];
        if (src->taken < (epoch + 1) * src->n_rows) return src;
    }
    return NULL; // not reached: the epoch would be over
}

void rows_seek(rows *stream, int64_t taken) {
    const int64_t n = rows_per_epoch(stream), epoch = taken / n;
    int64_t left = taken % n; // of the epoch that is begun
    for (int i = 0; i < stream->opts.n_sources; i++) {
        source *src = &stream->sources[i];
        const int64_t of_it = left < src->n_rows ? left : src->n_rows;
        src->taken = stream->opts.shuffle ? 0 : epoch * src->n_rows + of_it;
        left -= of_it;
    }
    stream->taken = taken;
    if (!stream->opts.shuffle) return;
    if (stream->opts.n_sources == 1) {
        stream->sources[0].taken = taken;
        return;
    }
    for (stream->taken = 0; stream->taken < taken; stream->taken++)
        furthest_behind(stream)->taken++;
}

void rows_skip(rows *stream, int64_t n) {
    if (!stream->opts.shuffle || stream->opts.n_sources == 1) {
        rows_seek(stream, stream->taken + n);
        return;
    }
    for (int64_t i = 0; i < n; i++, stream->taken++)
        furthest_behind(stream)->taken++;
}

// --- one row
typedef struct row_out { // of rows_next
    int32_t *tokens, *position, *labels;
    int64_t *counted;
} row_out;

// Takes back labels[i], the token `first` + 1 + i, unless its role counts.
static drv_status keep_answers(const rows *stream, const source *src, int64_t first, int64_t n,
        int32_t *labels) {
    if (src->loss == LOSS_ALL || n <= 0) return DRV_OK;
    DRV_TRY(dataset_read_roles(src->set, first + 1, n, stream->roles));
    for (int64_t i = 0; i < n; i++)
        if (!role_counts(src, stream->roles[i])) labels[i] = -1;
    return DRV_OK;
}

// Labels and positions of `n` tokens from `first`; `have` of them plus one may be in the buffer.
static void mark(const rows *stream, const source *src, int64_t first, int64_t n, int64_t have,
        const row_out *out) {
    const dataset *set = src->set;
    const bool documents = src->packing != PACKING_STREAM;
    int64_t document = dataset_document_of(set, first), start = first;
    int64_t end = documents ? dataset_document_start(set, document + 1) : src->end;
    for (int64_t i = 0; i < n; i++) {
        while (documents && first + i >= end) { // empty documents are passed over
            start = end;
            end = dataset_document_start(set, ++document + 1);
        }
        out->position[i] = (int32_t)(first + i - start);
        const bool known = i + 1 < have && first + i + 1 < end;
        out->labels[i] = known ? stream->buffer[i + 1] : -1;
    }
}

// Tokens [row * T, row * T + T) of the part. *n: how many there are.
static drv_status cut_row(const rows *stream, const source *src, int64_t row, const row_out *out,
        int64_t *n) {
    const int64_t width = stream->opts.row_tokens, first = src->begin + row * width;
    const int64_t have = src->end - first < width + 1 ? src->end - first : width + 1;
    DRV_TRY(dataset_read(src->set, first, have, stream->opts.n_vocab, stream->buffer));
    *n = have < width ? have : width;
    memcpy(out->tokens, stream->buffer, sizeof *out->tokens * (size_t)*n);
    mark(stream, src, first, *n, have, out);
    return keep_answers(stream, src, first, have - 1, out->labels);
}

static drv_status packed_row(const rows *stream, const source *src, int64_t row, const row_out *out,
        int64_t *n) {
    *n = 0;
    for (int64_t k = src->pack.row[row]; k < src->pack.row[row + 1]; k++) {
        const row_piece *piece = &src->pack.pieces[k];
        int32_t *labels = out->labels + *n;
        DRV_TRY(dataset_read(src->set, piece->first, piece->n + 1, stream->opts.n_vocab,
                stream->buffer));
        memcpy(out->tokens + *n, stream->buffer, sizeof *out->tokens * (size_t)piece->n);
        for (int32_t i = 0; i < piece->n; i++) {
            out->position[*n + i] = i;
            labels[i] = i < piece->skip ? -1 : stream->buffer[i + 1];
        }
        DRV_TRY(keep_answers(stream, src, piece->first, piece->n, labels));
        *n += piece->n;
    }
    return DRV_OK;
}

static drv_status fill_row(const rows *stream, const source *src, int64_t row, const row_out *out) {
    int64_t n;
    DRV_TRY(src->packed ? packed_row(stream, src, row, out, &n)
                        : cut_row(stream, src, row, out, &n));
    const bool documents = src->packed || src->packing != PACKING_STREAM;
    // Past the end: a document of its own that nobody predicts.
    for (int64_t i = n; i < stream->opts.row_tokens; i++) {
        out->tokens[i] = 0;
        out->position[i] = documents ? (int32_t)(i - n) : (int32_t)i;
        out->labels[i] = -1;
    }
    for (int64_t i = 0; i < n; i++)
        *out->counted += out->labels[i] >= 0;
    return DRV_OK;
}

drv_status rows_next(rows *stream, int32_t *tokens, int32_t *position, int32_t *labels,
        int64_t *counted) {
    source *src = stream->opts.shuffle ? furthest_behind(stream) : first_unfinished(stream);
    const int64_t epoch = src->taken / src->n_rows, index = src->taken % src->n_rows;
    int64_t row = index;
    if (stream->opts.shuffle) {
        permutation p = permutation_of((uint64_t)src->n_rows, stream->opts.seed, (uint64_t)epoch);
        row = (int64_t)permute(&p, (uint64_t)index);
    }
    snprintf(stream->last, sizeof stream->last, "%s row %lld of epoch %lld", src->set->prefix,
            (long long)row, (long long)epoch);
    DRV_TRY(fill_row(stream, src, row, &(row_out){tokens, position, labels, counted}));
    src->taken++;
    stream->taken++;
    if (++stream->n_read % 64 == 0)
        dataset_forget(src->set); // memory must not grow with the data set
    return DRV_OK;
}

const char *rows_last(const rows *stream) {
    return stream->last;
}

// --- what a run records
int rows_n_sources(const rows *stream) {
    return stream->opts.n_sources;
}

int64_t rows_n_vocab(const rows *stream) {
    return stream->opts.n_vocab;
}

const dataset *rows_source(const rows *stream, int i) {
    return stream->sources[i].set;
}

static json_t *source_fingerprint(const rows *stream, const source *src) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)src->set->idx_hash);
    json_t *prefix = json_string(src->set->prefix); // NULL: a path that is not UTF-8
    return json_pack("{s:o?, s:I, s:I, s:s, s:s?, s:s?, s:s, s:s, s:s?, s:f, s:s}", "prefix",
            prefix, "tokens", (json_int_t)src->set->n_tokens, "documents",
            (json_int_t)src->set->n_documents, "idx_xxh3", hash, "tokenizer_xxh3",
            src->set->about.tokenizer_hash, "roles_xxh3",
            dataset_has_roles(src->set) ? src->set->roles_hash : NULL, "packing",
            packing_name(src->packing), "loss", loss_name(src->loss), "long",
            src->packing == PACKING_EXAMPLES ? stream->opts.drop_long ? "dropped" : "truncated"
                                             : NULL,
            "weight", src->weight, "split_by", src->by_tokens ? "tokens" : "documents");
}

json_t *rows_fingerprint(const rows *stream) {
    static const char *const parts[N_PARTS] = {"train", "valid", "test"};
    json_t *sources = json_array(), *split = json_null();
    for (int i = 0; i < stream->opts.n_sources; i++)
        json_array_append_new(sources, source_fingerprint(stream, &stream->sources[i]));
    if (stream->shares[PART_TRAIN] + stream->shares[PART_VALID] + stream->shares[PART_TEST] > 0)
        split = json_pack("[f, f, f]", stream->shares[PART_TRAIN], stream->shares[PART_VALID],
                stream->shares[PART_TEST]);
    json_t *out = json_pack("{s:o, s:s, s:o, s:I, s:b, s:I}", "sources", sources, "part",
            parts[stream->opts.part], "split", split, "row_tokens",
            (json_int_t)stream->opts.row_tokens, "shuffle", (int)stream->opts.shuffle, "seed",
            (json_int_t)stream->opts.seed);
    DRV_ASSERT(out, "out of memory");
    return out;
}
