// Pipeline schedules as tables (design D3): the order of the tasks of each rank. A simulator checks
// that a table ends, and computes its time and memory.
//
// Legend: P ranks, V model chunks per rank (virtual stages), M micro-batches. Chunk v of rank p is
// stage v P + p of the model, so that a micro-batch visits the ranks in order, V times.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum pipeline_kind {
    PIPELINE_GPIPE,       // all forwards, then all backwards (arXiv:1811.06965)
    PIPELINE_1F1B,        // one forward, one backward (arXiv:2104.04473, section 2.2)
    PIPELINE_INTERLEAVED, // the same with V > 1 chunks per rank (arXiv:2104.04473, section 2.3)
    PIPELINE_ZB_H1,       // weight gradients fill the bubble (arXiv:2401.10241, section 2)
    N_PIPELINE_KINDS,
} pipeline_kind;

typedef enum pipeline_work {
    WORK_FORWARD,
    WORK_BACKWARD,    // both gradients
    WORK_INPUT_GRAD,  // the previous stage waits for it
    WORK_WEIGHT_GRAD, // no other stage waits for it
    N_WORKS,
} pipeline_work;

typedef struct pipeline_task {
    pipeline_work work;
    int chunk, micro_batch; // 0 .. V - 1, 0 .. M - 1
} pipeline_task;

typedef struct pipeline_shape {
    pipeline_kind kind;
    int ranks, chunks, micro_batches; // P, V, M; V is 1 unless the kind is interleaved
    int group; // interleaved: micro-batches that pass a chunk before they pass the next one; 0: P
    bool forward_only; // an evaluation: any kind, any number of micro-batches
} pipeline_shape;

typedef struct pipeline_schedule {
    pipeline_shape shape;
    pipeline_task **order; // by rank
    int n_tasks;           // of each rank
} pipeline_schedule;

// Builds the table in `a`. DRV_E_USAGE: the schedule is not possible with these numbers.
DRV_CHECKED drv_status pipeline_build(arena *a, const pipeline_shape *shape,
        pipeline_schedule *out);

// Returns the work after which a rank no longer needs the kept values of a micro-batch.
pipeline_work pipeline_last_work(const pipeline_shape *shape);

// The slots in which a rank keeps values from the forward to the backward of a micro-batch. Each
// model chunk has as many slots as it needs at a time. Lives in `a`.
typedef struct pipeline_slots {
    int *n;  // by chunk
    int *of; // by chunk x micro_batches + micro-batch
} pipeline_slots;
pipeline_slots pipeline_find_slots(arena *a, const pipeline_schedule *schedule, int rank);

// Returns the stage of the model to which a task of a rank belongs.
static inline int pipeline_stage(const pipeline_shape *shape, int rank, const pipeline_task *item) {
    return item->chunk * shape->ranks + rank;
}
// Return whether a task needs an input from another rank (the first stage's forward and the last
// stage's backward do not), and whether another rank needs its result.
bool pipeline_receives(const pipeline_shape *shape, int rank, const pipeline_task *task);
bool pipeline_sends(const pipeline_shape *shape, int rank, const pipeline_task *task);

// Seconds by stage, of one micro-batch; a backward takes the sum of its two gradients.
typedef struct pipeline_cost {
    const double *forward, *input_grad, *weight_grad;
    double transfer; // from one rank to the next
} pipeline_cost;

typedef struct pipeline_result {
    double seconds; // from the first forward to the end of the last task
    double bubble;  // share of them in which a rank, on average, has nothing to do
    int *peak;      // by rank: micro-batches whose activations one of its chunks holds, at most
} pipeline_result;

// Simulates the table. A rank has one pending send per direction (activations, gradients) and posts
// the receive of a task before it begins the preceding task. DRV_E_DATA names a rank and its task
// if the table cannot end: a task is missing, or ranks wait for each other.
DRV_CHECKED drv_status pipeline_simulate(arena *a, const pipeline_schedule *schedule,
        const pipeline_cost *cost, pipeline_result *out);

// Deals a table that can end out in rounds: in each, a rank does at most one task, and only tasks
// whose inputs were computed in earlier rounds. So all ranks may pause, or end, after the same
// round: nobody waits for what comes after it. Returns the round of each task of the rank, from 1
// on, which lives in `a`.
int *pipeline_rounds(arena *a, const pipeline_schedule *schedule, int rank, int *n_rounds);

const char *pipeline_kind_name(pipeline_kind kind);
