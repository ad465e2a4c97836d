// Scores how well a model predicts texts: each token with the context that it has in its document,
// as lm-evaluation-harness's loglikelihood_rolling. (Validation during training takes the rows of
// the run instead, evaluate.h.)
#pragma once
#include "data/set/documents.h"
#include "infer/scorer.h"

typedef struct score_opts {
    scorer_opts model;       // its rows are chosen here
    int64_t context, stride; // tokens that a window holds, and by which the next one is further
} score_opts;

typedef struct score_result {
    double loss;              // sum of -log p, nats
    int64_t tokens, computed; // predicted; read, with the context of windows that overlap
    int64_t documents;        // 0: not counted
    // Bytes and words of the texts, or, for a data set, of what is predicted; 0: not known, as for
    // a data set that was built with another tokenizer than the model's.
    int64_t bytes, words;
    // Preference pairs, over which `loss` is then a sum, and those of them whose chosen response
    // has the greater reward; 0: there are none. Then the sums of the rewards of both responses.
    int64_t pairs, right;
    double chosen, rejected;
    int64_t longest; // tokens of the longest window
    double seconds;
    bool complete;
} score_result;

// Scores texts: the first token of each is predicted from the prefix. DRV_STOPPED: a signal asked
// for it, *out is what was scored so far; DRV_E_DATA: nothing to predict, or a loss is not finite.
DRV_CHECKED drv_status score_documents(arena *a, const score_opts *opts, const documents *texts,
        score_result *out);
// Scores the validation rows of a config of training.objective dpo, whole pairs as in training and
// with sums of parallel.tensor_blocks leaves, against the reference of the run that wrote the
// model. DRV_E_USAGE: the model names no reference; DRV_E_DATA: its log-probabilities of these
// pairs are not kept. The same statuses.
DRV_CHECKED drv_status score_pairs(arena *a, const score_opts *opts, const run_config *cfg,
        score_result *out);
// Scores the validation rows of another config, cut as windows: the first token of each document is
// context alone, and what data.loss does not count is not counted. The same statuses.
DRV_CHECKED drv_status score_rows(arena *a, const score_opts *opts, const run_config *cfg,
        score_result *out);
