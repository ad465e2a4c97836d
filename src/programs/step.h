// A training step on one rank: its micro-batches in accumulation groups, the sum of the losses of
// all ranks, and the update. With equal accumulation groups the result has the same bits on any
// number of data ranks (docs/adr/0009).
#pragma once
#include "comm/comm.h"
#include "ir/hyper.h"
#include "programs/batch_feed.h"
#include "programs/stop_poll.h"

// The figures of the pairs of a batch: the mean reward of a chosen and of a rejected response, and
// the share of pairs whose chosen response has the greater one (ir/ops/preference.c).
typedef struct pair_figures {
    double chosen, rejected, accuracy;
} pair_figures;

typedef struct stepper {
    programs *p;
    comm *comm;
    mesh mesh;
    int64_t n_micro_batches, n_accum_groups; // of this rank
    int n_blocks;                            // of each row, on this rank
    int n_partial_sums;                      // of a micro-batch (docs/adr/0026)
    // The values of all partial sums of a step, by place in the data axis of the update, then by
    // block: the loss, and for rows of pairs also the three numbers of pair_figures. `mine`: the
    // values of one micro-batch, as its program returns them.
    double *losses, *mine;
    int n_values;
    int64_t first_loss, n_losses; // of this rank; of a reduction block
    int64_t step;                 // number, for the messages of other ranks
    stop_poll poll;               // by micro-batches, or by rounds of a pipeline
    double gradients_s;           // seconds that the last gradients took on this rank
    pair_figures figures;         // of the last step, if rows hold preference pairs
} stepper;

stepper stepper_new(arena *a, programs *p, comm *self, const mesh *ranks);

// Runs the forward and backward passes of this rank's micro-batches. *loss and s->figures are those
// of the global batch on every rank. DRV_STOPPED, on all ranks: a stop was requested, and the step
// ended between two micro-batches without changing a weight.
DRV_CHECKED drv_status stepper_gradients(stepper *s, const batch *b, double *loss);
// Sets how often ranks check for a stop within a step, from the seconds that the last gradients took
// on the slowest rank, the same number on all ranks: about twice a second, in short steps never.
void stepper_pace(stepper *s, double seconds);
// Returns, after stepper_gradients, the rank that computed the first loss of the step that is not
// finite (the first of its tensor ranks); rank 0 if all are finite.
int stepper_bad_rank(const stepper *s);
// A whole step as one program (programs.h: whole_step). stepper_start starts it and returns;
// stepper_finish waits for the oldest one and fills in its values. hyper: as in step_parts.
typedef struct step_values {
    double loss;                  // sum over the batch; then its mean
    double grad_norm, param_norm; // squares; then norms
    double dloss;
} step_values;
DRV_CHECKED drv_status stepper_start(stepper *s, const batch *b, const double hyper[2 * N_HYPER],
        step_values *out);
DRV_CHECKED drv_status stepper_finish(stepper *s, step_values *v);

// Runs the update. hyper: see ir/hyper.h. Both norms are global.
DRV_CHECKED drv_status stepper_update(stepper *s, const double hyper[N_HYPER], double *grad_norm,
        double *param_norm);
