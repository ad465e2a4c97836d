// The counter of each data set: how many of its rows the run has taken. trainer.json keeps them, so
// that a resume with other weights, data sets or row lengths continues each data set where it
// stopped.
#pragma once
#include "base/json.h"
#include "data/set/rows.h"

// Returns the counters as trainer.json has them: an object for each data set that has rows, with
// prefix, idx_xxh3, token_range (the first and the end of those that its rows are made of),
// row_tokens, rows (of an epoch), weight, taken, blended; then those of `kept` (NULL: none). The
// caller owns it.
json_t *set_counters_json(const rows *stream, const row_count *counts, const json_t *kept);
// Checks "sets" of trainer.json, which earlier versions do not have.
DRV_CHECKED drv_status set_counters_check(const char *path, const json_t *trainer);

// Moves the rows of a run to where `before`, a trainer.json that was checked, says that it stopped
// after rows_taken rows, and says what is not as it was. Returns the counters of sets that have no
// rows here (left out, or of weight 0), to be kept; the caller owns it.
json_t *set_counters_resume(rows *stream, const json_t *before, int64_t rows_taken);

// Counts the rows taken of the data sets that have rows here.
int64_t set_counters_taken(const rows *stream);
