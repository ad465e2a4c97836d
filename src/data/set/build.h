// Text -> tokenised data set, on all threads; the documents come out in the order of the input
// whatever the number of threads. After a kill the same command resumes after the last file that
// was finished, by PREFIX.build.json. PREFIX.build.lock excludes a second build.
#pragma once
#include "data/read/reader.h"
#include "data/set/dataset.h"

typedef struct build_counts { // what is written so far, over all runs of the build
    int64_t files;            // done
    int64_t documents, tokens;
    int64_t bytes;                  // of text
    int64_t skipped, replaced;      // broken records; invalid byte sequences
    int64_t largest_id, largest_at; // -1: none yet; the first token that has it
    int64_t answers, last_answers;  // tokens of answers, of the last ones (sft)
    int64_t no_answer;              // documents without a token of an answer (sft)
} build_counts;

typedef struct build_stats {
    build_counts all;
    double seconds;    // of this run
    int64_t bytes_now; // of text, of this run
} build_stats;

typedef struct build_opts {
    reader_opts reader;
    const char *const *inputs;
    int n_inputs;
    const char *tokenizer, *prefix;
    const char *version; // of drover, for PREFIX.idx.json; NULL: not said
    bool append_eod;     // put an end-of-document token after each document
    const char *eod;     // which: a token's text or an id; NULL: the tokenizer's end-of-text token
    // The token at which records of token ids are cut into documents, likewise; NULL: .bin before
    // the token that the tokenizer puts in front, .npy after its end-of-text token, rows not at
    // all.
    const char *cut_before, *cut_after;
    bool sft; // lines of JSON are conversations (data/sft/sft.h); PREFIX.roles marks the answers
    // With `sft`: the records are preference pairs (data/sft/pair.h), two documents each. A broken
    // record ends the build.
    bool preference;
    const char *template; // of their text: "chat", "alpaca" or a file, of pairs also "none"; NULL:
                          // chat
    const char *date;     // for templates that ask for it (data/sft/sft.h)
} build_opts;

DRV_CHECKED drv_status dataset_build(arena *a, const build_opts *opts, build_stats *out);
