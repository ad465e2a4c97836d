// trainer.json of a checkpoint: the progress of a run, and the settings that led to it.
#pragma once
#include "base/json.h"
#include "data/set/rows.h"
#include "config/config.h"

typedef struct run_state {
    int64_t step;       // optimizer steps done, skipped ones included
    int64_t updates;    // steps that were applied, AdamW's step count
    int64_t rows_taken; // of the training data, over all ranks
    int64_t tokens;     // counted labels seen
    int64_t bad_steps;  // consecutive steps that were skipped because the gradient was not finite
    int64_t evaluated;  // step of the last evaluation; -1: none
    // The position at which the present batch and sequence length began; rows_taken is checked
    // against it.
    int64_t part_step, part_rows, part_tokens;
    double loss, val_loss; // of the last step, of the last evaluation; NaN: none
} run_state;

run_state run_state_new(void);

// Returns the other content of trainer.json: the config's keys that affect the result, the data's
// fingerprint, the arithmetic. The caller owns it.
json_t *trainer_about(const run_config *cfg, const rows *train, const char *arithmetic);

// Records the number of steps of the run, once it is known.
void trainer_about_lengths(json_t *about, const run_config *cfg);

// Makes the text of trainer.json; free() it.
char *trainer_json_text(const run_state *state, const json_t *about);
// Reads and checks FOLDER/trainer.json. DRV_E_DATA: a counter is missing, out of range, or
// contradicts the others or the folder's name. *about is the whole object; the caller owns it.
DRV_CHECKED drv_status trainer_json_read(const char *folder, run_state *out, json_t **about);
// The same for JSON in memory. `named_step`: the step in the folder's name; -1: none.
DRV_CHECKED drv_status trainer_json_check(const char *path, int64_t named_step, const json_t *o,
        run_state *out);
