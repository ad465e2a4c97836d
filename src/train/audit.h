// Replays steps of a run on this machine, compares them with the hashes that the run recorded
// (training.hash_every), and finds the first step, tensor and op that differ. The replay is a
// separate run in its own directory; it starts from the run's checkpoint and saves nothing.
#pragma once
#include "train/run.h"

typedef struct audit_opts {
    const char *run_dir;
    const char *out_dir;     // NULL: RUN_DIR/audit
    int64_t first, last;     // steps; 0: the first and the last one that were recorded
    const char *const *sets; // "KEY=VALUE": keys of the layout, and the present paths of the data
    int n_sets;
} audit_opts;

typedef enum audit_kind {
    AUDIT_EQUAL,
    AUDIT_BATCH,      // other tokens, positions or labels
    AUDIT_WEIGHT,     // weights changed between the previous update and their use
    AUDIT_LOSS,       // losses differ, with equal weights and batch: the forward pass
    AUDIT_GRADIENT,   // gradients differ, with an equal loss: the backward pass
    AUDIT_NORM,       // norms of equal gradients differ
    AUDIT_UPDATE,     // weights differ, with equal gradients: the optimizer or its state
    AUDIT_PARAM_NORM, // norms of equal weights differ
    N_AUDIT_KINDS
} audit_kind;

typedef struct audit_result {
    bool leads;              // rank 0, which has the report
    const char *checkpoint;  // the replay started from it; NULL: from step 0
    const char *arithmetic;  // of the run and the replay
    int64_t first, last;     // steps to compare
    int64_t compared, ranks; // steps compared; ranks of the replay
    audit_kind kind;         // of the first difference
    int64_t step,
            equal_to;   // step of the difference; the last earlier step that is known to be equal
    const char *tensor; // the first one in the order of the computation; NULL: none
    int n_tensors;      // number of tensors that differ in it
    const char *op; // "data", "memory", "forward", "update", "squares", or the ops that compute a
                    // gradient, such as "matmul"; NULL: no difference
    uint64_t recorded, replayed; // hashes of the tensor or the batch
    int64_t element; // the element whose single flipped bit explains the difference; -1: not a
                     // single bit
    int bit;         // that bit of the element as a float, counted from the lowest
} audit_result;

// DRV_OK: all steps are equal. DRV_E_DATA: they differ as out->kind and drv_message() say.
// DRV_E_USAGE: this run or these steps cannot be audited here.
DRV_CHECKED drv_status audit_run(arena *a, const audit_opts *opts, audit_result *out);
const char *audit_kind_name(audit_kind kind); // "gradient"

// --- for the loop; r->audit is set
// Returns the checkpoint folder to start from; NULL: step 0.
const char *audit_checkpoint(const run *r);
// Checks, once the run is open, that this machine computes with the run's arithmetic.
DRV_CHECKED drv_status audit_open(run *r);
// Compare the hashes that exist after hashes_begin of a step, and those after the step. Every rank
// calls them; at the first difference all return DRV_E_DATA.
DRV_CHECKED drv_status audit_begin_step(run *r, const step_metrics *m);
DRV_CHECKED drv_status audit_end_step(run *r, const step_metrics *m);
