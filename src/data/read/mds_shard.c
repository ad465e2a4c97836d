// A shard: u32 number of samples n, u32 offsets[n + 1] of the samples and the end, a JSON text that
// describes the columns, the samples. A sample: u32 size of each column of variable size, then the
// values (mosaicml/streaming, streaming/base/format/mds/writer.py, encodings.py).
#include <string.h>

#include "base/json.h"
#include "data/read/byte_stream.h"
#include "data/read/mds_column.h"
#include "data/read/record_source.h"

enum { MAX_SAMPLES = 1 << 24, MAX_SAMPLE = 1 << 28, MAX_CONFIG = 1 << 20 };

typedef enum mds_gives { MDS_GIVES_TEXT, MDS_GIVES_JSON, MDS_GIVES_IDS } mds_gives;

typedef struct mds_shard {
    arena *a;
    const input_file *file;
    byte_stream *stream;
    mds_gives gives;
    mds_column *columns;
    int n_columns;
    int column; // of text or ids
    uint32_t n_samples, next;
    str offsets; // uint32_t[n_samples + 1]
    str sample;
} mds_shard;

static uint32_t offset_at(const mds_shard *shard, uint32_t i) {
    uint32_t x;
    memcpy(&x, shard->offsets.p + 4 * (size_t)i, sizeof x);
    return x;
}

// Reads n bytes into `to`, which grows with the bytes that were read, not with n.
static drv_status take(const mds_shard *shard, size_t n, const char *of, str *to) {
    enum { STEP = 1 << 20 };
    while (n) {
        const size_t want = n < STEP ? n : STEP;
        size_t got;
        str_reserve(to, want);
        DRV_TRY(byte_stream_read_all(shard->stream, to->p + to->n, want, &got));
        to->n += got;
        to->p[to->n] = 0;
        if (got < want)
            return drv_fail(DRV_E_DATA, "%s: cut short within %s", shard->file->name, of);
        n -= want;
    }
    return DRV_OK;
}

// --- the header
static drv_status read_offsets(mds_shard *shard) {
    const input_file *file = shard->file;
    str head = {0};
    drv_status status = take(shard, 4, "the number of its samples", &head);
    if (status == DRV_OK) memcpy(&shard->n_samples, head.p, 4);
    str_free(&head);
    if (status != DRV_OK) return status;
    const uint32_t n_samples = shard->n_samples;
    if (n_samples > MAX_SAMPLES)
        return drv_fail(DRV_E_DATA, "%s: its header has %u samples, expected at most %d",
                file->name, n_samples, MAX_SAMPLES);
    if (file->samples && file->samples != n_samples)
        return drv_fail(DRV_E_DATA, "%s: has %u samples, expected %lld, as index.json says",
                file->name, n_samples, (long long)file->samples);
    DRV_TRY(take(shard, 4 * ((size_t)n_samples + 1), "the offsets of its samples",
            &shard->offsets));
    uint64_t least = 4 + 4 * ((uint64_t)n_samples + 1);
    for (uint32_t i = 0; i <= n_samples; i++) {
        if (offset_at(shard, i) < least)
            return drv_fail(DRV_E_DATA, "%s: offset %u is %u, expected %llu or more", file->name, i,
                    offset_at(shard, i), (unsigned long long)least);
        least = offset_at(shard, i);
    }
    if (file->unpacked && least != (uint64_t)file->unpacked)
        return drv_fail(DRV_E_DATA,
                "%s: ends at byte %llu by its offsets, expected %lld, as index.json says",
                file->name, (unsigned long long)least, (long long)file->unpacked);
    if (byte_stream_packing(shard->stream) == PACKED_NOT && file->bytes &&
            least != (uint64_t)file->bytes)
        return drv_fail(DRV_E_DATA, "%s: %lld bytes long, but ends at byte %llu by its offsets",
                file->name, (long long)file->bytes, (unsigned long long)least);
    return DRV_OK;
}

static drv_status read_columns(mds_shard *shard) {
    const char *name = shard->file->name;
    const size_t at = 4 + 4 * ((size_t)shard->n_samples + 1), n = offset_at(shard, 0) - at;
    if (n > MAX_CONFIG)
        return drv_fail(DRV_E_DATA,
                "%s: offset 0 is %u, so that %zu bytes describe its columns, expected at most %d",
                name, offset_at(shard, 0), n, MAX_CONFIG);
    str text = {0};
    json_t *root = NULL;
    drv_status status = take(shard, n, "the description of its columns", &text);
    if (status == DRV_OK) status = json_read_bytes(name, text.p ? text.p : "", n, &root);
    if (status == DRV_OK)
        status = mds_columns_parse(shard->a, name, root, &shard->columns, &shard->n_columns);
    json_decref(root);
    str_free(&text);
    return status;
}

// --- which columns
static drv_status no_column(const mds_shard *shard, const char *expected) {
    str names = {0};
    for (int i = 0; i < shard->n_columns && i < 20; i++)
        str_printf(&names, "%s\"%.60s\" (%.60s)", i ? ", " : "", shard->columns[i].name,
                shard->columns[i].encoding);
    const drv_status status = drv_fail(DRV_E_DATA, "%s: no column %s; it has %s", shard->file->name,
            expected, names.p ? names.p : "none");
    str_free(&names);
    return status;
}

static int find(const mds_shard *shard, const char *name) {
    for (int i = 0; i < shard->n_columns; i++)
        if (strcmp(shard->columns[i].name, name) == 0) return i;
    return -1;
}

static bool take_column(mds_shard *shard, const char *name, mds_gives gives) {
    const int i = find(shard, name);
    if (i < 0) return false;
    if (gives == MDS_GIVES_TEXT ? shard->columns[i].kind != MDS_TEXT
                                : !mds_column_may_hold_ids(&shard->columns[i]))
        return false;
    shard->column = i;
    shard->gives = gives;
    return true;
}

// Chooses the columns of the options: of the text or of ids, or those of a conversation.
static drv_status choose(mds_shard *shard, const reader_opts *opts) {
    bool any = false;
    if (opts->fields) {
        shard->gives = MDS_GIVES_JSON;
        for (int i = 0; opts->fields[i]; i++) {
            const int k = find(shard, opts->fields[i]);
            if (k < 0 || (shard->columns[k].kind != MDS_TEXT && shard->columns[k].kind != MDS_JSON))
                continue;
            any = shard->columns[k].wanted = true;
        }
        return any ? DRV_OK : no_column(shard, "of text named like a field of a conversation");
    }
    if (take_column(shard, opts->key, MDS_GIVES_TEXT)) return DRV_OK;
    any = opts->ids.taken && take_column(shard, opts->key, MDS_GIVES_IDS);
    if (!any && opts->ids.taken && !opts->is_key_given)
        any = take_column(shard, "tokens", MDS_GIVES_IDS) ||
              take_column(shard, "input_ids", MDS_GIVES_IDS);
    if (!any) {
        char expected[200];
        snprintf(expected, sizeof expected, "\"%.100s\" of text%s", opts->key,
                !opts->ids.taken     ? ""
                : opts->is_key_given ? " or of token ids"
                                     : ", nor \"tokens\" or \"input_ids\" of token ids");
        return no_column(shard, expected);
    }
    mds_column *column = &shard->columns[shard->column];
    if (column->kind == MDS_BYTES) column->type = opts->ids.type;
    if (column->kind == MDS_BYTES && !column->type.bytes) column->type = (token_type){8, true};
    return DRV_OK;
}

// --- samples
static drv_status odd_sample(const mds_shard *shard, const char *why) {
    return drv_fail(DRV_E_DATA, "%s: sample %u: %s", shard->file->name, shard->next, why);
}

// Finds the value of each column in the current sample.
static drv_status find_values(mds_shard *shard) {
    size_t head = 0;
    for (int i = 0; i < shard->n_columns; i++)
        head += shard->columns[i].fixed ? 0 : 4;
    if (head > shard->sample.n)
        return odd_sample(shard, "is shorter than the sizes of its columns");
    size_t at = head, size_at = 0;
    for (int i = 0; i < shard->n_columns; i++) {
        mds_column *column = &shard->columns[i];
        uint32_t n = column->fixed;
        if (!n) {
            memcpy(&n, shard->sample.p + size_at, 4);
            size_at += 4;
        }
        if (n > shard->sample.n - at)
            return odd_sample(shard, "the sizes of its columns are more than its bytes");
        column->value = (str_view){shard->sample.p + at, n};
        at += n;
    }
    if (at != shard->sample.n)
        return odd_sample(shard, "the sizes of its columns are less than its bytes");
    return DRV_OK;
}

static void add_object(const mds_shard *shard, str *out) {
    const char *between = "{";
    for (int i = 0; i < shard->n_columns; i++) {
        const mds_column *column = &shard->columns[i];
        if (!column->wanted) continue;
        str_puts(out, between);
        str_add_json(out, column->name, strlen(column->name));
        str_puts(out, ": ");
        if (column->kind == MDS_JSON)
            str_add(out, column->value.p, column->value.n);
        else
            str_add_json(out, column->value.p, column->value.n);
        between = ", ";
    }
    str_puts(out, "}");
}

static drv_status check_end(mds_shard *shard) {
    char more;
    size_t got;
    DRV_TRY(byte_stream_read_all(shard->stream, &more, 1, &got));
    if (got)
        return drv_fail(DRV_E_DATA, "%s: has more bytes after byte %u, the end of its last sample",
                shard->file->name, offset_at(shard, shard->n_samples));
    return DRV_OK;
}

static drv_status next(void *state, str *out, record *to, bool *done) {
    mds_shard *shard = state;
    to->json = shard->gives == MDS_GIVES_JSON;
    to->ids = shard->gives == MDS_GIVES_IDS;
    to->broken = NULL;
    *done = shard->next == shard->n_samples;
    if (*done) return check_end(shard);
    const uint32_t n = offset_at(shard, shard->next + 1) - offset_at(shard, shard->next);
    if (n > MAX_SAMPLE) return odd_sample(shard, "is longer than 256 MiB");
    str_clear(&shard->sample);
    DRV_TRY(take(shard, n, "a sample", &shard->sample));
    DRV_TRY(find_values(shard));
    shard->next++;
    const mds_column *column = &shard->columns[shard->column];
    if (shard->gives == MDS_GIVES_JSON)
        add_object(shard, out);
    else if (shard->gives == MDS_GIVES_TEXT)
        str_add(out, column->value.p, column->value.n);
    else
        to->broken = mds_column_add_ids(column, out);
    return DRV_OK;
}

static int64_t where(const void *state) {
    return byte_stream_where(((const mds_shard *)state)->stream);
}

static id_use ids_of(const mds_shard *shard) {
    if (shard->gives != MDS_GIVES_IDS) return IDS_NONE;
    return shard->columns[shard->column].kind == MDS_BYTES ? IDS_UNTYPED : IDS_TYPED;
}

static void close_shard(void *state) {
    mds_shard *shard = state;
    byte_stream_close(shard->stream);
    str_free(&shard->offsets);
    str_free(&shard->sample);
    arena_free(shard->a);
}

drv_status mds_shard_open(const input_file *file, const reader_opts *opts, record_source *out) {
    static const record_source_ops ops = {next, where, close_shard};
    arena *a = arena_new("mds");
    mds_shard *shard = ARENA_NEW(a, mds_shard);
    *shard = (mds_shard){.a = a, .file = file};
    *out = (record_source){.ops = &ops, .state = shard};
    DRV_TRY(byte_stream_open(file, false, &shard->stream));
    DRV_TRY(read_offsets(shard));
    DRV_TRY(read_columns(shard));
    DRV_TRY(choose(shard, opts));
    out->ids = ids_of(shard);
    return DRV_OK;
}
