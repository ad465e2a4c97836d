// The counter of each data set: how many of its rows the run has taken. trainer.json keeps them, so
// that a resume with other weights, data sets or row lengths continues each data set where it
// stopped.
#pragma once
#include "base/json.h"
#include "data/set/rows.h"

// Returns the counters in the form of trainer.json: an object for each data set that has rows, with
// prefix, idx_xxh3, token_range (begin and end of the tokens of its rows), row_tokens, rows (of an
// epoch), weight, taken, blended; then the objects of `kept` (NULL: none). The caller owns it.
json_t *set_counters_json(const rows *stream, const row_count *counts, const json_t *kept);
// Checks the member "sets" of trainer.json, which files of earlier versions do not have.
DRV_CHECKED drv_status set_counters_check(const char *path, const json_t *trainer);

// Seeks the rows of a run to the position in `before`, a checked trainer.json, after rows_taken
// rows, and logs data sets that changed. Returns the counters of data sets that have no rows in
// this run (removed, or of weight 0), which later checkpoints keep; the caller owns it.
json_t *set_counters_resume(rows *stream, const json_t *before, int64_t rows_taken);

// Returns the number of rows taken from the data sets that have rows in this run.
int64_t set_counters_taken(const rows *stream);
