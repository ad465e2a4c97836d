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

// DRV_E_USAGE: the schedule is not possible with these numbers.
DRV_CHECKED drv_status pipeline_check_shape(const pipeline_shape *shape);
// Builds the table in `a`. DRV_E_USAGE as pipeline_check_shape.
DRV_CHECKED drv_status pipeline_build(arena *a, const pipeline_shape *shape,
        pipeline_schedule *out);

// Builds the order of one rank alone.
DRV_CHECKED drv_status pipeline_build_rank(arena *a, const pipeline_shape *shape, int rank,
        pipeline_schedule *out);

// Returns a bound on the distance between two micro-batches that a rank has in flight at the same
// time.
int pipeline_depth(const pipeline_shape *shape);
// Returns the shape of a shorter table with the same beginning and end. It omits micro-batches from
// the middle, where the table repeats itself, and keeps at least `depths` times pipeline_depth of
// them, and less than one group more.
pipeline_shape pipeline_shortened(const pipeline_shape *shape, int depths);
enum { PIPELINE_SHORT = 2 }; // depths of a table that ends if the whole one does

// Returns the work after which a rank no longer needs the kept values of a micro-batch.
pipeline_work pipeline_last_work(const pipeline_shape *shape);

// Numbers the micro-batches that a rank has in flight. Each model chunk has as many slots as it
// has micro-batches in flight at a time. Lives in `a`.
typedef struct pipeline_slots {
    int *n;  // by chunk
    int *of; // by chunk x micro_batches + micro-batch
} pipeline_slots;
pipeline_slots pipeline_find_slots(arena *a, const pipeline_schedule *schedule, int rank);

// A span: the values of a micro-batch in a chunk that a rank needs from one part of the work to
// another one, both included: forward, backward and, if they are split off, weight gradients.
enum { PIPELINE_PARTS = 3, PIPELINE_SPANS = PIPELINE_PARTS * PIPELINE_PARTS };
static inline int pipeline_span(int first_part, int last_part) {
    return first_part * PIPELINE_PARTS + last_part;
}

// The memory that all micro-batches in all chunks of a rank share.
typedef struct pipeline_pool {
    int64_t bytes;
    int n_spans;               // of a micro-batch in a chunk
    const int64_t *span_bytes; // by chunk and span: the argument `bytes` of pipeline_place
    int64_t *offset;           // see pipeline_offsets
} pipeline_pool;
// Places the values of each micro-batch in each chunk by their lifetimes in the table of a rank.
// Element (chunk * n_pieces + piece) * PIPELINE_SPANS + span of `bytes` is the size of one span of
// a piece. Pieces of equal size, such as layers, leave no gaps. The offsets live in `a`; `bytes`
// must live as long.
pipeline_pool pipeline_place(arena *a, const pipeline_schedule *schedule, int rank, int n_pieces,
        const int64_t *bytes);
// Returns the offsets in the pool of the spans of a micro-batch in a chunk, by
// piece * PIPELINE_SPANS + span.
static inline const int64_t *pipeline_offsets(const pipeline_schedule *schedule,
        const pipeline_pool *pool, int chunk, int micro_batch) {
    return &pool->offset[(chunk * schedule->shape.micro_batches + micro_batch) * pool->n_spans];
}

// Counts the micro-batches that hold each span of each chunk, by chunk * PIPELINE_SPANS + span,
// at the time when the sum of count * weight is largest on a rank. `weight` has the same order;
// `count` must be 0 before the call.
void pipeline_count_alive(const pipeline_schedule *schedule, int rank, const int *weight,
        int *count);

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
    double bubble;  // share of the time in which a rank is idle, on average
    int *peak;      // by rank: micro-batches whose activations one of its chunks holds, at most
} pipeline_result;

// Checks by a simulation that a table ends. A rank has one pending send per direction (activations,
// gradients) and posts the receive of a task before it begins the preceding task. DRV_E_DATA names
// a rank and its task if the table cannot end: a task is missing, or ranks wait for each other.
DRV_CHECKED drv_status pipeline_check(const pipeline_schedule *schedule);

// Sets shape->group to the smallest number of micro-batches with which the table ends. DRV_E_USAGE:
// there is none; the message is that of pipeline_check_shape for groups of P micro-batches.
DRV_CHECKED drv_status pipeline_find_group(pipeline_shape *shape);

// Computes the time of the table of a shape, and what its ranks hold; `peak` lives in `a`. A long
// table is simulated until it repeats itself. DRV_E_USAGE as pipeline_check_shape.
DRV_CHECKED drv_status pipeline_time(arena *a, const pipeline_shape *shape,
        const pipeline_cost *cost, pipeline_result *out);

// Divides a table that can end into rounds: in each round, a rank does at most one task, and only
// tasks whose inputs were computed in earlier rounds. All ranks may therefore pause, or end, after
// the same round: no rank waits for a later one. Returns the round of each task in `a`, from 1 on.
int *pipeline_rounds(arena *a, const pipeline_schedule *schedule, int rank, int *n_rounds);

const char *pipeline_kind_name(pipeline_kind kind);
