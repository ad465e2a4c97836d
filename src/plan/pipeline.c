// The tables of the pipeline schedules.
#include "plan/pipeline.h"

static const char *const kind_names[N_PIPELINE_KINDS] = {"gpipe", "1f1b", "interleaved", "zb-h1"};

const char *pipeline_kind_name(pipeline_kind kind) {
    return kind_names[kind];
}

typedef struct table {
    const pipeline_shape *shape;
    int rank;
    pipeline_task *order;
    int n;
} table;

static void put(table *t, pipeline_work work, pipeline_task task) {
    t->order[t->n++] = (pipeline_task){work, task.chunk, task.micro_batch};
}

// Returns the i-th task of a rank. With several chunks, a group of micro-batches passes chunk 0,
// then chunk 1, and so on, before the next group begins; the last group may be short. Backward goes
// through the chunks from the last to the first.
static pipeline_task nth_task(const pipeline_shape *shape, int i, bool backward) {
    const int per_group = shape->group * shape->chunks, begin = i / per_group * shape->group;
    const int left = shape->micro_batches - begin;
    const int n = left < shape->group ? left : shape->group; // of this group
    const int k = i % per_group, chunk = k / n;
    return (pipeline_task){.chunk = backward ? shape->chunks - 1 - chunk : chunk,
            .micro_batch = begin + k % n};
}

// Forwards of a rank before its first backward.
static int warm_up(const pipeline_shape *shape, int rank) {
    const int n = shape->chunks * shape->micro_batches, after = shape->ranks - 1 - rank;
    int w = n;
    if (shape->kind == PIPELINE_1F1B || shape->kind == PIPELINE_ZB_H1) w = after;
    if (shape->kind == PIPELINE_INTERLEAVED) w = 2 * after + (shape->chunks - 1) * shape->group;
    return w < n ? w : n;
}

// Adds one backward. ZB-H1 splits it and delays weight gradients until as many are waiting as fill
// the bubble of this rank.
static void put_backward(table *t, int i) {
    const pipeline_shape *shape = t->shape;
    if (shape->kind != PIPELINE_ZB_H1) {
        put(t, WORK_BACKWARD, nth_task(shape, i, true));
        return;
    }
    put(t, WORK_INPUT_GRAD, nth_task(shape, i, true));
    if (i >= t->rank) put(t, WORK_WEIGHT_GRAD, nth_task(shape, i - t->rank, true));
}

static int fill(const pipeline_shape *shape, int rank, pipeline_task *order) {
    table t = {.shape = shape, .rank = rank, .order = order};
    const int n = shape->chunks * shape->micro_batches;
    const int warm = shape->forward_only ? n : warm_up(shape, rank);
    for (int i = 0; i < warm; i++)
        put(&t, WORK_FORWARD, nth_task(shape, i, false));
    for (int i = 0; i < n && !shape->forward_only; i++) {
        if (warm + i < n) put(&t, WORK_FORWARD, nth_task(shape, warm + i, false));
        put_backward(&t, i);
    }
    if (shape->kind == PIPELINE_ZB_H1 && !shape->forward_only) // those that still wait
        for (int i = n > rank ? n - rank : 0; i < n; i++)
            put(&t, WORK_WEIGHT_GRAD, nth_task(shape, i, true));
    return t.n;
}

// Returns the shape with its group as tables have it.
static pipeline_shape with_group(const pipeline_shape *shape) {
    pipeline_shape s = *shape;
    if (s.kind != PIPELINE_INTERLEAVED) s.group = 1; // one chunk: a group is a micro-batch
    if (s.group == 0) s.group = s.ranks;
    if (s.forward_only && s.group > s.micro_batches) s.group = s.micro_batches;
    return s;
}

static drv_status check(const pipeline_shape *shape) {
    if (shape->ranks < 1 || shape->chunks < 1 || shape->micro_batches < 1 || shape->group < 0)
        return drv_fail(DRV_E_USAGE, "a pipeline of %d ranks, %d chunks and %d micro-batches",
                shape->ranks, shape->chunks, shape->micro_batches);
    if (shape->kind != PIPELINE_INTERLEAVED) {
        if (shape->chunks == 1) return DRV_OK;
        return drv_fail(DRV_E_USAGE, "schedule %s has one chunk per rank, not %d",
                pipeline_kind_name(shape->kind), shape->chunks);
    }
    if (shape->forward_only) return DRV_OK;
    if (shape->group < shape->ranks || shape->group > shape->micro_batches)
        return drv_fail(DRV_E_USAGE,
                "schedule interleaved uses groups of %d micro-batches, expected from %d (the "
                "ranks) to %d (all of them)",
                shape->group, shape->ranks, shape->micro_batches);
    const int rest = shape->micro_batches % shape->group;
    if (rest && rest < shape->ranks)
        return drv_fail(DRV_E_USAGE,
                "schedule interleaved: %d micro-batches in groups of %d leave %d, expected none "
                "or at least %d (the ranks)",
                shape->micro_batches, shape->group, rest, shape->ranks);
    return DRV_OK;
}

drv_status pipeline_check_shape(const pipeline_shape *shape) {
    const pipeline_shape s = with_group(shape);
    return check(&s);
}

// A rank of an interleaved pipeline has less than three groups in flight.
int pipeline_depth(const pipeline_shape *shape) {
    if (shape->kind == PIPELINE_GPIPE) return shape->micro_batches;
    return shape->kind == PIPELINE_INTERLEAVED ? 3 * with_group(shape).group : shape->ranks;
}

pipeline_shape pipeline_shortened(const pipeline_shape *shape, int depths) {
    pipeline_shape s = with_group(shape);
    const int more = s.micro_batches - depths * pipeline_depth(&s);
    if (more > 0) s.micro_batches -= more / s.group * s.group;
    return s;
}

// Builds the orders of ranks [first, end).
static drv_status build(arena *a, const pipeline_shape *shape, int first, int end,
        pipeline_schedule *out) {
    const pipeline_shape s = with_group(shape);
    DRV_TRY(check(&s));
    const int works = s.forward_only ? 1 : s.kind == PIPELINE_ZB_H1 ? 3 : 2;
    *out = (pipeline_schedule){.shape = s, .n_tasks = works * s.chunks * s.micro_batches};
    out->order = ARENA_ARRAY(a, pipeline_task *, s.ranks);
    for (int rank = first; rank < end; rank++) {
        out->order[rank] = ARENA_ARRAY(a, pipeline_task, out->n_tasks);
        const int n = fill(&out->shape, rank, out->order[rank]);
        DRV_ASSERT(n == out->n_tasks, "rank %d has %d tasks of %d", rank, n, out->n_tasks);
    }
    return DRV_OK;
}

drv_status pipeline_build(arena *a, const pipeline_shape *shape, pipeline_schedule *out) {
    return build(a, shape, 0, shape->ranks, out);
}

drv_status pipeline_build_rank(arena *a, const pipeline_shape *shape, int rank,
        pipeline_schedule *out) {
    return build(a, shape, rank, rank + 1, out);
}

bool pipeline_receives(const pipeline_shape *shape, int rank, const pipeline_task *task) {
    const int stage = pipeline_stage(shape, rank, task);
    if (task->work == WORK_FORWARD) return stage > 0;
    return task->work != WORK_WEIGHT_GRAD && stage + 1 < shape->ranks * shape->chunks;
}

bool pipeline_sends(const pipeline_shape *shape, int rank, const pipeline_task *task) {
    const int stage = pipeline_stage(shape, rank, task);
    if (task->work == WORK_FORWARD) return stage + 1 < shape->ranks * shape->chunks;
    return task->work != WORK_WEIGHT_GRAD && stage > 0;
}

pipeline_work pipeline_last_work(const pipeline_shape *shape) {
    if (shape->forward_only) return WORK_FORWARD;
    return shape->kind == PIPELINE_ZB_H1 ? WORK_WEIGHT_GRAD : WORK_BACKWARD;
}

// Gives each micro-batch the lowest slot that is free at its forward.
pipeline_slots pipeline_find_slots(arena *a, const pipeline_schedule *schedule, int rank) {
    const pipeline_shape *shape = &schedule->shape;
    const int m = shape->micro_batches;
    const pipeline_slots s = {ARENA_ARRAY(a, int, shape->chunks),
            ARENA_ARRAY(a, int, shape->chunks *m)};
    bool *taken = ARENA_ARRAY(a, bool, shape->chunks *m);
    for (int i = 0; i < schedule->n_tasks; i++) {
        const pipeline_task *task = &schedule->order[rank][i];
        bool *of_chunk = &taken[task->chunk * m];
        int *slot = &s.of[task->chunk * m + task->micro_batch];
        if (task->work == WORK_FORWARD) {
            for (*slot = 0; of_chunk[*slot];)
                ++*slot;
            of_chunk[*slot] = true;
            if (*slot >= s.n[task->chunk]) s.n[task->chunk] = *slot + 1;
        }
        if (task->work == pipeline_last_work(shape)) of_chunk[*slot] = false;
    }
    return s;
}
