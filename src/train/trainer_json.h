// trainer.json of a checkpoint: where a run stands, and under which conditions it came there.
#pragma once
#include "base/json.h"
#include "data/set/rows.h"
#include "config/config.h"

typedef struct run_state {
    int64_t step;       // optimizer steps done, skipped ones included
    int64_t updates;    // of them applied: what AdamW counts
    int64_t rows_taken; // of the training data, over all ranks
    int64_t tokens;     // counted labels seen
    int64_t bad_steps;  // in a row, skipped because the gradient was not finite
    int64_t evaluated;  // step of the last evaluation; -1: none
    // The position at which the part of the run with this batch and sequence length began: what
    // rows_taken is held against.
    int64_t part_step, part_rows, part_tokens;
    double loss, val_loss; // of the last step, of the last evaluation; NaN: none
} run_state;

run_state run_state_new(void);

// Returns what a checkpoint records beside the counters: the config's keys that bear on the result,
// the data's fingerprint, the arithmetic. The caller owns it.
json_t *trainer_about(const run_config *cfg, const rows *train, const char *arithmetic);

// Records the steps that the run is to have, once they are known.
void trainer_about_lengths(json_t *about, const run_config *cfg);

// Makes the text of trainer.json; free() it.
char *trainer_json_text(const run_state *state, const json_t *about);
// Reads FOLDER/trainer.json and believes nothing: DRV_E_DATA when a counter is missing, out of
// range, or does not fit the others or the folder's name. *about is the whole object; the caller
// owns it.
DRV_CHECKED drv_status trainer_json_read(const char *folder, run_state *out, json_t **about);
// The same for JSON in memory. `named_step`: what the folder's name says; -1: nothing.
DRV_CHECKED drv_status trainer_json_check(const char *path, int64_t named_step, const json_t *o,
        run_state *out);
