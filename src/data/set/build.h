// Text -> tokenised data set, on all threads; the documents come out in the order of the input
// whatever the number of threads. After a kill the same command goes on behind the last file that
// was done: PREFIX.build.json says how far it came.
#pragma once
#include "data/set/dataset.h"
#include "data/read/reader.h"

typedef struct build_stats {
    int64_t documents, tokens, bytes; // bytes of text
    int64_t skipped, replaced;        // broken records; invalid byte sequences
    int64_t files;                    // done
    double seconds;                   // of this run
    int64_t bytes_now;                // of text, of this run
} build_stats;

typedef struct build_opts {
    reader_opts reader;
    const char *const *inputs;
    int n_inputs;
    const char *tokenizer, *prefix;
    const char *version; // of drover, for PREFIX.idx.json; NULL: not said
    bool append_eod;
} build_opts;

DRV_CHECKED drv_status dataset_build(arena *a, const build_opts *o, build_stats *out);
