// A step: forward and backward of each micro-batch into the gradients; at the end of a lane its sum
// is put aside or joined, as bits of a binary counter are; then the update, which joins ranks.
#include "train/step.h"

#include <math.h>

stepper stepper_new(arena *a, programs *p, comm *c, const mesh *m) {
    const run_config *cfg = p->c;
    const int64_t all = cfg->global_batch_size / cfg->micro_batch_size,
                  share = all / cfg->data_ranks;
    return (stepper){.p = p,
            .comm = c,
            .mesh = *m,
            .n_micro_batches = share,
            .n_lanes = cfg->n_lanes / cfg->data_ranks,
            .first_micro_batch = share * mesh_place(m, comm_rank(c), AXIS_DATA),
            .losses = ARENA_ARRAY(a, double, all)};
}

// Lane number `lane` of this rank is finished. Every slot that holds its left neighbour is added;
// what comes out waits in the first free slot, or, of the last lane, is the sum of all.
static drv_status finish_lane(const stepper *s, int64_t lane) {
    const programs *p = s->p;
    const bool last = lane + 1 == s->n_lanes;
    for (int slot = 0; slot < p->n_slots; slot++) {
        const bool taken = lane >> slot & 1;
        if (!taken && !last) return backend_run(p->b, p->aside[slot]);
        if (taken) DRV_TRY(backend_run(p->b, p->back[slot]));
    }
    return DRV_OK;
}

static drv_status run_micro_batch(stepper *s, const batch *b, int64_t index) {
    programs *p = s->p;
    DRV_TRY(batch_write(b, p, index));
    DRV_TRY(backend_run(p->b, p->step));
    return backend_read(p->b, 0, "loss", 0, sizeof(double), &s->losses[index]);
}

// Losses of all ranks, added in the order of micro-batches.
static drv_status sum_losses(stepper *s, double *sum) {
    comm_group *data = comm_axes(s->comm, &s->mesh, 1u << AXIS_DATA);
    const int64_t all = s->n_micro_batches * group_size(data);
    DRV_TRY(comm_all_gather(data, s->losses + s->first_micro_batch,
            s->n_micro_batches * (int64_t)sizeof(double), NULL, s->losses));
    *sum = 0;
    for (int64_t i = 0; i < all; i++)
        *sum += s->losses[i];
    return DRV_OK;
}

drv_status stepper_gradients(stepper *s, const batch *b, drv_status (*between)(void *ctx),
        void *ctx, double *loss) {
    const int64_t in_lane = s->n_micro_batches / s->n_lanes;
    // Normalised by the counted tokens of the global batch, whatever the micro-batches.
    const double dloss = 1 / (double)b->counted;
    double sum;
    comm_note(s->comm, s->step, "step");
    for (int rank = 0; rank < s->p->b->n_local_ranks; rank++)
        DRV_TRY(backend_write(s->p->b, rank, "dloss", 0, sizeof dloss, &dloss));
    for (int64_t i = 0; i < s->n_micro_batches; i++) {
        if (between) DRV_TRY(between(ctx));
        DRV_TRY(comm_check(s->comm));
        DRV_TRY(run_micro_batch(s, b, s->first_micro_batch + i));
        if ((i + 1) % in_lane == 0) DRV_TRY(finish_lane(s, i / in_lane));
    }
    DRV_TRY(sum_losses(s, &sum));
    *loss = sum * dloss;
    return DRV_OK;
}

drv_status stepper_update(stepper *s, const double hyper[4], double *grad_norm,
        double *param_norm) {
    backend *b = s->p->b;
    comm_note(s->comm, s->step, "update");
    for (int rank = 0; rank < b->n_local_ranks; rank++)
        DRV_TRY(backend_write(b, rank, "hyper", 0, 4 * sizeof *hyper, hyper));
    DRV_TRY(backend_run(b, s->p->update));
    DRV_TRY(backend_read(b, 0, "grad_norm2", 0, sizeof *grad_norm, grad_norm));
    DRV_TRY(backend_read(b, 0, "param_norm2", 0, sizeof *param_norm, param_norm));
    *grad_norm = sqrt(*grad_norm);
    *param_norm = sqrt(*param_norm);
    return DRV_OK;
}
