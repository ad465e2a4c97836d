// One table of formats; each has an opener and four functions on what it opened.
#include "data/read/record_source.h"

#include "data/read/arrow.h"
#include "data/read/mds_shard.h"
#include "data/read/parquet.h"
#include "data/read/parquet_rows.h"
#include "data/read/token_shard.h"
#include "data/read/webdataset.h"

struct record_source_ops {
    drv_status (*next)(void *state, str *bytes, record *out, bool *done);
    int64_t (*where)(const void *state);
    const json_row_notes *(*notes)(const void *state); // NULL: its rows are no JSON
    void (*close)(void *state);
};

typedef struct source_job {
    const input_file *file;
    const char *path;
    const reader_opts *o;
} source_job;

// --- Parquet: one column
static drv_status column_next(void *state, str *bytes, record *out, bool *done) {
    bool null, row;
    DRV_TRY(parquet_next(state, bytes, &null, &row));
    *done = !row;
    if (null) out->broken = "is null";
    return DRV_OK;
}
static int64_t column_where(const void *state) {
    return parquet_where(state);
}
static void column_close(void *state) {
    parquet_close(state);
}
static const record_source_ops column_ops = {column_next, column_where, NULL, column_close};

// --- Parquet: whole rows
static drv_status rows_next(void *state, str *bytes, record *out, bool *done) {
    bool row;
    out->json = true;
    DRV_TRY(parquet_rows_next(state, bytes, &row));
    *done = !row;
    return DRV_OK;
}
static int64_t rows_where(const void *state) {
    return parquet_rows_where(state);
}
static const json_row_notes *rows_notes(const void *state) {
    return parquet_rows_notes(state);
}
static void rows_close(void *state) {
    parquet_rows_close(state);
}
static const record_source_ops rows_ops = {rows_next, rows_where, rows_notes, rows_close};

static drv_status open_parquet(const source_job *job, record_source *out) {
    if (job->o->fields) {
        parquet_rows *rows;
        DRV_TRY(parquet_rows_open(job->path, job->o->fields, &rows));
        *out = (record_source){&rows_ops, rows};
        return DRV_OK;
    }
    parquet_reader *column;
    DRV_TRY(parquet_open(job->path, job->o->key, &column));
    *out = (record_source){&column_ops, column};
    return DRV_OK;
}

// --- Arrow
static drv_status arrow_row(void *state, str *bytes, record *out, bool *done) {
    const arrow_gives gives = arrow_reader_gives(state);
    bool row;
    out->json = gives == ARROW_GIVES_JSON;
    out->labels = gives == ARROW_GIVES_LABELLED_IDS;
    out->ids = out->labels || gives == ARROW_GIVES_IDS;
    DRV_TRY(arrow_next(state, bytes, &out->broken, &row));
    *done = !row;
    return DRV_OK;
}
static int64_t arrow_passed(const void *state) {
    return arrow_where(state);
}
static const json_row_notes *arrow_noted(const void *state) {
    return arrow_notes(state);
}
static void arrow_end(void *state) {
    arrow_close(state);
}
static const record_source_ops arrow_ops = {arrow_row, arrow_passed, arrow_noted, arrow_end};

static drv_status open_arrow(const source_job *job, record_source *out) {
    const reader_opts *o = job->o;
    arrow_reader *arrow;
    DRV_TRY(arrow_open(job->path,
            &(arrow_opts){.column = o->key,
                    .is_named = o->is_key_given,
                    .fields = o->fields,
                    .ids = o->ids.taken},
            &arrow));
    *out = (record_source){&arrow_ops, arrow};
    return DRV_OK;
}

// --- files of token ids
static drv_status shard_next(void *state, str *bytes, record *out, bool *done) {
    out->ids = true;
    return token_shard_next(state, bytes, done);
}
static int64_t shard_where(const void *state) {
    return token_shard_where(state);
}
static void shard_close(void *state) {
    token_shard_close(state);
}
static const record_source_ops shard_ops = {shard_next, shard_where, NULL, shard_close};

static drv_status open_shard(const source_job *job, record_source *out) {
    const id_opts *ids = &job->o->ids;
    token_shard *shard;
    if (!ids->taken) return drv_fail(DRV_E_DATA, "%s: token ids, expected text", job->file->name);
    // As OLMo chooses the type of its arrays.
    const token_type by_size = {ids->n_vocab <= 65536 ? 2 : 4, false};
    const bool is_said = ids->type.bytes != 0;
    DRV_TRY(token_shard_open(job->file, is_said ? ids->type : by_size, is_said, &shard));
    *out = (record_source){&shard_ops, shard};
    return DRV_OK;
}

// --- MosaicML's shards
static drv_status mds_next(void *state, str *bytes, record *out, bool *done) {
    const mds_gives gives = mds_shard_gives(state);
    out->json = gives == MDS_GIVES_JSON;
    out->ids = gives == MDS_GIVES_IDS;
    return mds_shard_next(state, bytes, &out->broken, done);
}
static int64_t mds_where(const void *state) {
    return mds_shard_where(state);
}
static void mds_close(void *state) {
    mds_shard_close(state);
}
static const record_source_ops mds_ops = {mds_next, mds_where, NULL, mds_close};

static drv_status open_mds(const source_job *job, record_source *out) {
    const reader_opts *o = job->o;
    mds_shard *shard;
    DRV_TRY(mds_shard_open(job->file,
            &(mds_opts){.column = o->key,
                    .is_named = o->is_key_given,
                    .fields = o->fields,
                    .ids = o->ids.taken,
                    .bytes_hold = o->ids.type},
            &shard));
    *out = (record_source){&mds_ops, shard};
    return DRV_OK;
}

// --- WebDataset
static drv_status sample_next(void *state, str *bytes, record *out, bool *done) {
    webdataset_gives gives;
    DRV_TRY(webdataset_next(state, bytes, &gives, &out->broken, done));
    out->json = gives == WEBDATASET_GIVES_JSON;
    out->ids = gives == WEBDATASET_GIVES_IDS;
    return DRV_OK;
}
static int64_t sample_where(const void *state) {
    return webdataset_where(state);
}
static void sample_close(void *state) {
    webdataset_close(state);
}
static const record_source_ops sample_ops = {sample_next, sample_where, NULL, sample_close};

static drv_status open_samples(const source_job *job, record_source *out) {
    const reader_opts *o = job->o;
    webdataset *set;
    DRV_TRY(webdataset_open(job->file,
            &(webdataset_opts){.is_named = o->is_key_given, .lines = o->lines, .ids = o->ids.taken},
            &set));
    *out = (record_source){&sample_ops, set};
    return DRV_OK;
}

// --- the table
static const struct {
    const char *name;
    bool seeks;
    drv_status (*open)(const source_job *job, record_source *out);
} formats[] = {[INPUT_PARQUET] = {"Parquet", true, open_parquet},
        [INPUT_ARROW] = {"Arrow", true, open_arrow},
        [INPUT_BIN] = {"token ids", false, open_shard},
        [INPUT_NPY] = {"token ids", false, open_shard},
        [INPUT_MDS] = {"MDS", false, open_mds},
        [INPUT_TAR] = {"WebDataset", false, open_samples}};

const char *record_source_format(input_kind kind) {
    return (size_t)kind < sizeof formats / sizeof *formats ? formats[kind].name : NULL;
}

bool record_source_seeks(input_kind kind) {
    return record_source_format(kind) && formats[kind].seeks;
}

drv_status record_source_open(const input_file *file, const char *path, const reader_opts *opts,
        record_source *out) {
    return formats[file->kind].open(&(source_job){file, path, opts}, out);
}

drv_status record_source_next(record_source *source, str *bytes, record *out, bool *done) {
    return source->ops->next(source->state, bytes, out, done);
}

const json_row_notes *record_source_notes(const record_source *source) {
    return source->ops->notes ? source->ops->notes(source->state) : NULL;
}

int64_t record_source_where(const record_source *source) {
    return source->ops->where(source->state);
}

void record_source_close(record_source *source) {
    if (source->ops) source->ops->close(source->state);
    *source = (record_source){0};
}
