// The table of the formats that cut their records themselves.
#include "data/read/record_source.h"

static const struct {
    const char *name;
    bool seeks;
    drv_status (*open)(const input_file *file, const reader_opts *opts, record_source *out);
} formats[] = {[INPUT_PARQUET] = {"Parquet", true, parquet_open},
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

drv_status record_source_open(const input_file *file, const reader_opts *opts, record_source *out) {
    *out = (record_source){0};
    const drv_status status = formats[file->kind].open(file, opts, out);
    if (status != DRV_OK) record_source_close(out);
    return status;
}

drv_status record_source_next(record_source *source, str *bytes, record *out, bool *done) {
    return source->ops->next(source->state, bytes, out, done);
}

void record_source_close(record_source *source) {
    if (source->ops) source->ops->close(source->state);
    *source = (record_source){0};
}
