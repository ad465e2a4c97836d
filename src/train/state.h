// The state of a run as checkpoint tensors, and its few numbers as trainer.json.
#pragma once
#include "ckpt/ckpt.h"
#include "train/programs.h"

typedef struct run_state {
    int64_t step;       // optimizer steps done, skipped ones included
    int64_t updates;    // of them applied: what AdamW counts
    int64_t rows_taken; // of the training data, over all ranks
    int64_t tokens;     // counted labels seen
    int64_t bad_steps;  // in a row, skipped because the gradient was not finite
} run_state;

// Every Hugging Face parameter, read from the fp32 masters.
ckpt_tensor *state_model(arena *a, const programs *p, int *n);
// Both moments of every parameter.
ckpt_tensor *state_optimizer(arena *a, const programs *p, int *n);

// Weights of any Hugging Face folder.
DRV_CHECKED drv_status state_load_weights(programs *p, const char *folder);
// The same for a back end that holds only the compute copies (evaluation, generation).
DRV_CHECKED drv_status state_load_eval_weights(programs *p, const char *folder);
// Everything of a checkpoint of ours.
DRV_CHECKED drv_status state_load(programs *p, const char *folder, run_state *out);

char *state_json(const run_config *c, const run_state *s); // free() it
