// The interpreter of pipeline schedules: one rank's part of a table, with the messages between
// stages. The caller supplies the work of each task: training and evaluation run programs, a test
// waits.
#pragma once
#include "comm/comm.h"
#include "plan/pipeline.h"

typedef struct pipeline_link {      // a rank's neighbours; reused from step to step
    comm_group *forward, *backward; // the ranks of the pipeline, one group for each direction
    int place, ranks;
    int64_t bytes;   // of the message to the next stage, and of its gradient
    char *memory;    // buffers of the messages in flight
    double waited_s; // seconds spent waiting for messages since the caller set it to 0
} pipeline_link;

// Returns the size of the buffers for messages in flight, which the plan counts.
int64_t pipeline_link_bytes(int64_t message_bytes);
pipeline_link *pipeline_link_new(arena *a, comm *c, const mesh *m, int64_t message_bytes);

// The functions that are called for each task, in this order; any status but DRV_OK ends the run.
typedef struct pipeline_actions {
    void *ctx;
    // Receives the message that the task needs (NULL: none), which is valid only during the call.
    drv_status (*take)(void *ctx, const pipeline_task *item, const void *message);
    drv_status (*compute)(void *ctx, const pipeline_task *item);
    // Writes the message that another stage waits for; only if there is one.
    drv_status (*give)(void *ctx, const pipeline_task *item, void *message);
    // Called after each round (pipeline_rounds) but the last; NULL: not called. If it returns
    // DRV_STOPPED, on all ranks after the same round, nothing more is computed, and the remaining
    // messages of the table are empty.
    drv_status (*after_round)(void *ctx);
    const int *round; // by task of this rank
    int n_rounds;
} pipeline_actions;

// Runs all tasks of this rank. It has at most one pending send per direction, and posts the receive
// of a task before it waits for that of the preceding task; pipeline_check assumes both.
DRV_CHECKED drv_status pipeline_run(pipeline_link *link, const pipeline_schedule *schedule,
        const pipeline_actions *actions);
