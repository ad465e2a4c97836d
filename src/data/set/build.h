// Builds a tokenised data set from text on all threads. The documents are in the order of the input
// for any number of threads. If a build is killed, the same command resumes it after the last
// finished file, which PREFIX.build.json records. PREFIX.build.lock keeps a second build out.
#pragma once
#include "data/read/reader.h"
#include "data/set/dataset.h"

typedef struct build_counts { // totals written so far, over all runs of the build
    int64_t files;            // finished
    int64_t documents, tokens;
    int64_t bytes;                  // of text read
    int64_t ended_twice;            // texts that end with the token that is put after each
    int64_t skipped, replaced;      // broken records; invalid byte sequences
    int64_t largest_id, largest_at; // -1: none yet; the first token with this id
    int64_t answers, last_answers;  // tokens of answers, and of last answers (sft)
    int64_t no_answer;              // documents without a token of an answer (sft)
} build_counts;

typedef struct build_stats {
    build_counts all;
    double seconds;    // of this run
    int64_t bytes_now; // of text, in this run
} build_stats;

typedef struct build_opts {
    reader_opts reader;
    const char *const *inputs;
    int n_inputs;
    const char *tokenizer, *prefix;
    const char *version; // of drover, for PREFIX.idx.json; NULL: not recorded
    bool append_eod;     // put an end-of-document token after each document
    const char *eod; // that token, as its text or its id; NULL: the tokenizer's end-of-text token
    // The token, as its text or its id, before or after which token ids are cut into documents.
    // NULL: .bin is cut before the token with which the tokenizer begins a text, .npy after its
    // end-of-text token, and rows are not cut.
    const char *cut_before, *cut_after;
    bool sft; // lines of JSON are conversations (data/sft/sft.h); PREFIX.roles marks the answers
    // With `sft`: the records are preference pairs (data/sft/pair.h), two documents each. A broken
    // record ends the build.
    bool preference;
    const char *template; // "chat", "alpaca" or a file, for pairs also "none"; NULL: chat
    const char *date;     // for templates that read it (data/sft/sft.h)
} build_opts;

DRV_CHECKED drv_status dataset_build(arena *a, const build_opts *opts, build_stats *out);
