// Text -> tokenised data set, on all threads; the documents come out in the order of the input
// whatever the number of threads.
#pragma once
#include "data/dataset.h"
#include "data/reader.h"

typedef struct build_stats {
    int64_t documents, tokens, bytes; // bytes of text
    int64_t skipped, replaced;
    double seconds;
} build_stats;

typedef struct build_opts {
    reader_opts reader;
    const char *const *inputs;
    int n_inputs;
    const char *tokenizer, *prefix;
    bool append_eod;
} build_opts;

DRV_CHECKED drv_status dataset_build(arena *a, const build_opts *o, build_stats *out);
