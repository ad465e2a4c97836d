// The table of formats: each has an opener and four functions on what it opened.
#include "data/read/record_source.h"

#include "data/read/arrow.h"
#include "data/read/mds_shard.h"
#include "data/read/parquet.h"
#include "data/read/parquet_rows.h"
#include "data/read/token_shard.h"
#include "data/read/webdataset.h"

static drv_status open_parquet(const source_job *job, record_source *out) {
    return job->o->fields ? parquet_rows_open(job, out) : parquet_open(job, out);
}

static const struct {
    const char *name;
    bool seeks;
    drv_status (*open)(const source_job *job, record_source *out);
} formats[] = {[INPUT_PARQUET] = {"Parquet", true, open_parquet},
        [INPUT_ARROW] = {"Arrow", true, arrow_open},
        [INPUT_BIN] = {"token ids", false, token_shard_open},
        [INPUT_NPY] = {"token ids", false, token_shard_open},
        [INPUT_MDS] = {"MDS", false, mds_shard_open},
        [INPUT_TAR] = {"WebDataset", false, webdataset_open}};

const char *record_source_format(input_kind kind) {
    return (size_t)kind < sizeof formats / sizeof *formats ? formats[kind].name : NULL;
}

bool record_source_seeks(input_kind kind) {
    return record_source_format(kind) && formats[kind].seeks;
}

drv_status record_source_open(const input_file *file, const char *path, const reader_opts *opts,
        record_source *out) {
    *out = (record_source){0};
    const drv_status status = formats[file->kind].open(&(source_job){file, path, opts}, out);
    if (status != DRV_OK) record_source_close(out);
    return status;
}

drv_status record_source_next(record_source *source, str *bytes, record *out, bool *done) {
    return source->ops->next(source->state, bytes, out, done);
}

const json_row_notes *record_source_notes(const record_source *source) {
    return source->ops->notes ? source->ops->notes(source->state) : NULL;
}

id_use record_source_ids(const record_source *source) {
    return source->ops->ids ? source->ops->ids(source->state) : IDS_TYPED;
}

int64_t record_source_where(const record_source *source) {
    return source->ops->where(source->state);
}

void record_source_close(record_source *source) {
    if (source->ops) source->ops->close(source->state);
    *source = (record_source){0};
}
