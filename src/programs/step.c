// A step: forward and backward of each micro-batch into the gradients, one after the other or as
// the table of a pipeline says; at the end of an accumulation group its sum is put aside or joined,
// as bits of a binary counter are; then the update, which joins ranks.
#include "programs/step.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "ir/program_inputs.h"
#include "programs/pipeline_run.h"
#include "programs/stages.h"
#include "setup/run_layout.h"

enum { MAX_VALUES = 4 };
static int n_values_of(const run_config *cfg) {
    return cfg->objective == OBJECTIVE_DPO ? MAX_VALUES : 1;
}

stepper stepper_new(arena *a, programs *p, comm *self, const mesh *ranks) {
    const run_config *cfg = p->held.config;
    const run_layout *l = &p->layout;
    const int n_blocks = l->zigzag.blocks_here, n_partial_sums = l->partial_sums;
    const int64_t n_losses = l->micro_batches * n_partial_sums, n_values = n_values_of(cfg);
    const stepper s = {.p = p,
            .comm = self,
            .mesh = *ranks,
            .n_micro_batches = l->micro_batches,
            .n_accum_groups = l->accum_groups_here,
            .n_blocks = n_blocks,
            .n_partial_sums = n_partial_sums,
            .losses = ARENA_ARRAY(a, double,
                    n_values * l->all_micro_batches * n_partial_sums * cfg->n_context_blocks),
            .mine = ARENA_ARRAY(a, double, n_values *n_blocks *n_partial_sums),
            .n_values = (int)n_values,
            .first_loss = n_losses * n_blocks * mesh_place_in_update(ranks, comm_rank(self)),
            .n_losses = n_losses,
            .poll = stop_poll_new(self, 1)};
    if (p->n_stages) p->link = pipeline_link_new(a, self, ranks, p->message_bytes);
    return s;
}

// Reads the results of the program of graph g as soon as it has ended.
static drv_status read_result(const stepper *s, const graph *g, const char *name, int64_t bytes,
        void *dst) {
    DRV_TRY_CTX(backend_read(s->p->held.b, name, 0, bytes, dst), "step %lld: program \"%s\"",
            (long long)s->step, g->name);
    return DRV_OK;
}

// Stores the values of micro-batch m of this rank, `n` for each partial sum, from value `first` of
// the partial sum on.
static drv_status note(stepper *s, const graph *g, int64_t m, const char *name, int first, int n) {
    const int64_t n_sums = (int64_t)s->n_blocks * s->n_partial_sums;
    DRV_TRY(read_result(s, g, name, n * n_sums * (int64_t)sizeof *s->mine, s->mine));
    for (int64_t i = 0; i < n_sums; i++) {
        const int64_t index = s->first_loss + i / s->n_partial_sums * s->n_losses +
                              m * s->n_partial_sums + i % s->n_partial_sums;
        memcpy(s->losses + index * s->n_values + first, s->mine + i * n,
                sizeof *s->mine * (size_t)n);
    }
    return DRV_OK;
}

static drv_status note_loss(stepper *s, const graph *g, int64_t m) {
    DRV_TRY(note(s, g, m, "loss", 0, 1));
    return s->n_values > 1 ? note(s, g, m, "figures", 1, s->n_values - 1) : DRV_OK;
}

static drv_status run_micro_batch(stepper *s, const batch *b, int64_t m) {
    programs *p = s->p;
    DRV_TRY(batch_feed(b, p, INPUT_ALONE, m));
    DRV_TRY(backend_run(p->held.b, p->step));
    return note_loss(s, p->step_graph, m);
}

static int64_t loss_bytes(const stepper *s) { // of a rank
    return s->n_values * s->n_blocks * s->n_losses * (int64_t)sizeof *s->losses;
}

static double *losses_of_rank(const stepper *s) {
    return s->losses + s->n_values * s->first_loss;
}

// Adds the losses of all ranks in the order of rows, partial sum by partial sum; within a partial
// sum in the order of the reduction blocks of its rows.
static drv_status sum_losses(stepper *s, double sums[MAX_VALUES]) {
    comm_group *ranks = comm_update_ranks(s->comm, &s->mesh);
    const int n_data = s->mesh.size[AXIS_DATA],
              all_blocks = s->mesh.size[AXIS_CONTEXT] * s->n_blocks;
    DRV_TRY(comm_all_gather(ranks, losses_of_rank(s), loss_bytes(s), NULL, s->losses));
    // The micro-batches of this many neighbouring ranks alternate; a partial sum is then a
    // micro-batch.
    const int64_t in_turn = s->p->layout.every_micro, of_turns = in_turn * s->n_losses;
    for (int64_t i = 0; i < n_data * s->n_losses; i++) {
        const int64_t data = i / of_turns * in_turn + i % of_turns % in_turn,
                      at = i % of_turns / in_turn;
        for (int block = 0; block < all_blocks; block++) {
            const int64_t place = block / s->n_blocks * n_data + data,
                          run = place * s->n_blocks + block % s->n_blocks;
            for (int k = 0; k < s->n_values; k++)
                sums[k] += s->losses[(run * s->n_losses + at) * s->n_values + k];
        }
    }
    return DRV_OK;
}

// --- one stage
typedef struct step_call {
    stepper *s;
    const batch *b;
} step_call;

static drv_status heed_stop(stepper *s) {
    return stop_poll_done(&s->poll, 1, "a step was computed");
}

static drv_status run_whole_model(const step_call *call) {
    stepper *s = call->s;
    const int64_t in_accum_group = s->n_micro_batches / s->n_accum_groups;
    for (int64_t i = 0; i < s->n_micro_batches; i++) {
        if (i > 0) DRV_TRY(heed_stop(s));
        DRV_TRY(comm_check(s->comm));
        DRV_TRY(run_micro_batch(s, call->b, i));
        if ((i + 1) % in_accum_group == 0)
            DRV_TRY(programs_finish_accum_group(s->p, &s->p->accum_groups, i / in_accum_group,
                    s->n_accum_groups));
    }
    return DRV_OK;
}

// --- a pipeline
static const cut_part parts[N_WORKS] = {[WORK_FORWARD] = CUT_FORWARD,
        [WORK_BACKWARD] = CUT_BACKWARD,
        [WORK_INPUT_GRAD] = CUT_BACKWARD,
        [WORK_WEIGHT_GRAD] = CUT_WEIGHTS};

static drv_status take(void *ctx, const pipeline_task *item, const void *message) {
    const step_call *call = ctx;
    const stepper *s = call->s;
    programs *p = s->p;
    DRV_TRY(comm_check(s->comm));
    stages_use(p, item->chunk, item->micro_batch);
    if (message) DRV_TRY(stages_put(p, item, message));
    if (item->work != WORK_FORWARD) return DRV_OK;
    return batch_feed(call->b, p, item->chunk, item->micro_batch);
}

static drv_status compute(void *ctx, const pipeline_task *item) {
    const step_call *call = ctx;
    stepper *s = call->s;
    stage_programs *stage = &s->p->stage[item->chunk];
    const cut_part part = parts[item->work];
    const int64_t in_accum_group = s->n_micro_batches / s->n_accum_groups, m = item->micro_batch;
    if (part == CUT_FORWARD || stage_trains(stage))
        DRV_TRY(backend_run(s->p->held.b, stage->run[part]));
    if (part == CUT_BACKWARD && programs_is_last(s->p, item->chunk))
        DRV_TRY(note_loss(s, stage->graph[part], m));
    if (part == CUT_FORWARD || (m + 1) % in_accum_group != 0) return DRV_OK;
    return programs_finish_accum_group(s->p, &stage->accum_groups[part], m / in_accum_group,
            s->n_accum_groups);
}

static drv_status give(void *ctx, const pipeline_task *item, void *message) {
    const step_call *call = ctx;
    return stages_get(call->s->p, item, message);
}

static drv_status after_round(void *ctx) {
    const step_call *call = ctx;
    return heed_stop(call->s);
}

static drv_status run_stages(step_call *call) {
    stepper *s = call->s;
    const pipeline_actions actions = {.ctx = call,
            .take = take,
            .compute = compute,
            .give = give,
            .after_round = after_round,
            .round = s->p->round,
            .n_rounds = s->p->n_rounds};
    DRV_TRY(pipeline_run(s->p->link, &s->p->schedule, &actions));
    // The last stage has the losses.
    comm_group *stages = comm_axes(s->comm, &s->mesh, 1u << AXIS_PIPELINE);
    return comm_broadcast(stages, group_size(stages) - 1, losses_of_rank(s), loss_bytes(s));
}

void stepper_pace(stepper *s, double seconds) {
    stop_poll_pace(&s->poll, s->p->n_stages ? s->p->n_rounds : s->n_micro_batches, seconds);
}

drv_status stepper_gradients(stepper *s, const batch *b, double *loss) {
    step_call call = {s, b};
    const double begin = clock_s();
    // Normalises by the counted tokens or pairs of the global batch, whatever the micro-batches.
    const double dloss = 1 / (double)(b->pair ? b->pairs : b->counted);
    double sums[MAX_VALUES] = {0};
    comm_note(s->comm, s->step, "step");
    s->p->held.b->step = s->step;
    stop_poll_begin(&s->poll);
    if (programs_has_loss(s->p)) DRV_TRY(programs_write_dloss(s->p, dloss));
    DRV_TRY(s->p->n_stages ? run_stages(&call) : run_whole_model(&call));
    DRV_TRY(sum_losses(s, sums));
    *loss = sums[0] * dloss;
    s->gradients_s = clock_s() - begin;
    s->figures = (pair_figures){sums[1] * dloss, sums[2] * dloss, sums[3] * dloss};
    return DRV_OK;
}

int stepper_bad_rank(const stepper *s) {
    const mesh *m = &s->mesh;
    const int places = m->size[AXIS_DATA] * m->size[AXIS_CONTEXT];
    const int64_t of_place = s->n_values * s->n_blocks * s->n_losses;
    for (int64_t i = 0; i < places * of_place; i++) {
        if (isfinite(s->losses[i])) continue;
        const int rank = group_rank(comm_update_ranks(s->comm, m), (int)(i / of_place)),
                  stage = mesh_place(m, rank, AXIS_PIPELINE),
                  last = m->size[AXIS_PIPELINE] - 1; // which has the losses
        return rank + (last - stage) * mesh_stride(m, AXIS_PIPELINE) -
               mesh_place(m, rank, AXIS_TENSOR) * mesh_stride(m, AXIS_TENSOR);
    }
    return 0;
}

drv_status stepper_update(stepper *s, const double hyper[N_HYPER], double *grad_norm,
        double *param_norm) {
    backend *b = s->p->held.b;
    comm_note(s->comm, s->step, "update");
    DRV_TRY(backend_write(b, program_inputs[INPUT_HYPER].name, 0, N_HYPER * sizeof *hyper, hyper));
    DRV_TRY(backend_run(b, s->p->update));
    const graph *g = s->p->update_graph;
    DRV_TRY(read_result(s, g, "grad_norm2", sizeof *grad_norm, grad_norm));
    DRV_TRY(read_result(s, g, "param_norm2", sizeof *param_norm, param_norm));
    *grad_norm = sqrt(*grad_norm);
    *param_norm = sqrt(*param_norm);
    return DRV_OK;
}

// --- whole steps
enum { N_STEP_VALUES = 3 };

drv_status stepper_start(stepper *s, const batch *b, const double hyper[2 * N_HYPER],
        step_values *out) {
    programs *p = s->p;
    const int64_t bytes = sizeof(double);
    *out = (step_values){.dloss = 1 / (double)b->counted};
    comm_note(s->comm, s->step, "step");
    p->held.b->step = s->step;
    DRV_TRY(batch_feed_step(b, p));
    DRV_TRY(programs_write_dloss(p, out->dloss));
    DRV_TRY(backend_write(p->held.b, input_name_of(INPUT_HYPER, INPUT_OF_STEP).text, 0,
            2 * N_HYPER * bytes, hyper));
    DRV_TRY(backend_run(p->held.b, p->whole_step));
    DRV_TRY(backend_fetch(p->held.b, "loss", bytes, &out->loss));
    DRV_TRY(backend_fetch(p->held.b, "grad_norm2", bytes, &out->grad_norm));
    return backend_fetch(p->held.b, "param_norm2", bytes, &out->param_norm);
}

drv_status stepper_finish(stepper *s, step_values *v) {
    DRV_TRY(backend_arrive(s->p->held.b, N_STEP_VALUES));
    v->loss *= v->dloss;
    v->grad_norm = sqrt(v->grad_norm);
    v->param_norm = sqrt(v->param_norm);
    return DRV_OK;
}
