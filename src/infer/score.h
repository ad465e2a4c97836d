// Scores how well a model predicts texts: each token with its context in the document, as
// lm-evaluation-harness's loglikelihood_rolling does. (Validation during training uses the rows of
// the run instead, evaluate.h.)
#pragma once
#include "data/set/documents.h"
#include "infer/scorer.h"

typedef struct score_opts {
    scorer_opts model;       // the functions below set its rows
    int64_t context, stride; // tokens of a window, and the distance between windows
} score_opts;

typedef struct score_result {
    double loss; // sum of -log p, nats
    int64_t tokens,
            computed;  // tokens predicted; tokens computed, with the context that windows repeat
    int64_t documents; // 0: not counted
    // Bytes and words of the texts or, for a data set, of its predicted tokens; 0: not known, as
    // for a data set that was built with another tokenizer than the model's.
    int64_t bytes, words;
    // Preference pairs (then `loss` is a sum over pairs), and those of them whose chosen response
    // has the larger reward; 0: none. Then the sums of the rewards of both responses.
    int64_t pairs, right;
    double chosen, rejected;
    int64_t longest; // tokens of the longest window
    double seconds;
    bool complete;
} score_result;

// Scores texts; the first token of each is predicted from the prefix token. DRV_STOPPED: a signal
// requested a stop, and *out has the scores so far. DRV_E_DATA: there is no token to predict, or a
// loss is not finite.
DRV_CHECKED drv_status score_documents(arena *a, const score_opts *opts, const documents *texts,
        score_result *out);
// Scores the validation rows of a config with training.objective dpo, in whole pairs as in training
// and with sums in parallel.tensor_blocks reduction blocks, against the reference of the run that
// wrote the model. DRV_E_USAGE: the model names no reference; DRV_E_DATA: its log-probabilities of
// these pairs are not stored. Otherwise as above.
DRV_CHECKED drv_status score_pairs(arena *a, const score_opts *opts, const run_config *cfg,
        score_result *out);
// Scores the validation rows of any other config in windows. The first token of each document is
// context and is not predicted; tokens that data.loss leaves out are not scored. The statuses are
// those of score_documents.
DRV_CHECKED drv_status score_rows(arena *a, const score_opts *opts, const run_config *cfg,
        score_result *out);
