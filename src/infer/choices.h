// Scores multiple choice as lm-evaluation-harness does: by the log-likelihood of each choice after
// its context. A record counts as correct if its gold choice has the largest one (acc), or the
// largest one per character (acc_norm).
#pragma once
#include "base/str.h"
#include "infer/scorer.h"

typedef struct choice_record {
    int64_t line;              // in the file, from 1
    str_view context, *choice; // UTF-8, in the arena
    size_t n_stripped;         // length of the context without white space at its end
    int n_choices, gold;
} choice_record;

enum { MAX_BAD_LINES = 10 };
typedef struct choice_set {
    const char *path;
    choice_record *record;
    int64_t n, n_bad;               // n_bad: lines that are not records
    const char *bad[MAX_BAD_LINES]; // the errors of the first such lines
} choice_set;

// Reads JSON lines and skips blank ones. The fields of a record determine its kind:
//   {"context" or "query", "choices": [text], "gold", "label" or "answer": number or text of one}
//   HellaSwag: {"activity_label", "ctx_a", "ctx_b", "endings", "label"}
//   ARC: {"question", "choices": {"text": [...], "label": [...]}, "answerKey"}
// HellaSwag's and ARC's records are formatted as lm-evaluation-harness does. DRV_E_DATA: a line is
// wrong (the message names file, line, value and what was expected), or there is no record. If
// several lines are wrong, a warning names each of the first ones.
DRV_CHECKED drv_status choices_read(arena *a, const char *path, choice_set *out);
// The same from n_bytes bytes; `path` is for messages.
DRV_CHECKED drv_status choices_parse(arena *a, const char *path, const char *bytes, size_t n_bytes,
        choice_set *out);

typedef struct choices_result {
    int64_t n;                    // records that were scored
    double acc, acc_norm;         // shares of n
    double acc_err, acc_norm_err; // standard errors; NaN when n is 1
    double **log_likelihood; // [record][choice], natural logarithm; NaN: not scored, if interrupted
    int64_t n_cut;           // choices whose context was truncated on the left to fit the model's
    int64_t n_tokens;        // tokens computed: each context once, and all choices
    double seconds;          // of scoring
} choices_result;

typedef struct choices_opts {
    scorer_opts model; // choices_score sets its rows
    bool specials;     // add the special tokens that the tokenizer puts around a text
} choices_opts;

// Scores all records. DRV_E_DATA: a choice adds no token or does not fit into the model's context;
// DRV_STOPPED: a signal requested a stop, and *out covers the records scored so far. The result
// lives in `a`.
DRV_CHECKED drv_status choices_score(arena *a, const choices_opts *opts, const choice_set *set,
        choices_result *out);
