// Replays steps of a run on this machine and compares them with the hashes that it recorded
// (training.hash_every): which step, tensor and op is the first that differs. The replay is a run
// of its own, in a directory of its own, from the run's checkpoint; it saves nothing.
#pragma once
#include "train/run.h"

typedef struct audit_opts {
    const char *run_dir;
    const char *out_dir;     // NULL: RUN_DIR/audit
    int64_t first, last;     // steps; 0: the first and the last one that were recorded
    const char *const *sets; // keys of the layout, and where the data are now
    int n_sets;
} audit_opts;

typedef enum audit_kind {
    AUDIT_EQUAL,
    AUDIT_BATCH,      // other tokens, positions or labels
    AUDIT_WEIGHT,     // weights are others when they are used than after the update before
    AUDIT_LOSS,       // from equal weights and an equal batch: the forward pass
    AUDIT_GRADIENT,   // from an equal loss: the backward pass
    AUDIT_NORM,       // of equal gradients
    AUDIT_UPDATE,     // from equal gradients: the optimizer or its state
    AUDIT_PARAM_NORM, // of equal weights
    N_AUDIT_KINDS
} audit_kind;

typedef struct audit_result {
    bool leads;              // this rank has the report: rank 0
    const char *checkpoint;  // it was replayed from; NULL: from the beginning
    const char *arithmetic;  // of both
    int64_t first, last;     // steps that were asked for
    int64_t compared, ranks; // steps that were; ranks of the replay
    audit_kind kind;         // of the first difference
    int64_t step, equal_to;  // where; the last step before it that is known to be equal
    const char *tensor;      // the first one in the order of the computation; NULL: none
    int n_tensors;           // that differ there
    const char *op; // "data", "memory", "forward", "update", "squares", or the ops of the graph
                    // that compute a gradient, as "matmul"; NULL: equal
    uint64_t recorded, replayed; // hashes of the tensor or the batch
    int64_t element;             // whose one bit explains the difference; -1: not one
    int bit;                     // of the element as a float, from the lowest
} audit_result;

// DRV_OK: all steps are equal. DRV_E_DATA: out->kind tells where they part, drv_message() as a
// sentence. DRV_E_USAGE: why this run, or these steps, cannot be audited here.
DRV_CHECKED drv_status audit_run(arena *a, const audit_opts *opts, audit_result *out);
const char *audit_kind_name(audit_kind kind); // "gradient"

// --- for the loop; r->audit is set
// Returns the folder to begin with; NULL: the beginning.
const char *audit_checkpoint(const run *r);
// Checks, after the run is open, that this machine computes as the run did.
DRV_CHECKED drv_status audit_open(run *r);
// Compare what there is after hashes_begin of a step, and after the step. Every rank calls them,
// and all end at the first difference, with DRV_E_DATA.
DRV_CHECKED drv_status audit_begin_step(run *r, const step_metrics *m);
DRV_CHECKED drv_status audit_end_step(run *r, const step_metrics *m);
