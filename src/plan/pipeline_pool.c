// The memory of micro-batches in flight: spans with lifetimes over the table of a rank.
#include "plan/pipeline.h"
#include "plan/place.h"

static int part_of(pipeline_work work) {
    static const int parts[N_WORKS] =
            {[WORK_FORWARD] = 0, [WORK_BACKWARD] = 1, [WORK_INPUT_GRAD] = 1, [WORK_WEIGHT_GRAD] = 2};
    return parts[work];
}

// Returns when a rank does each part of each micro-batch in each chunk.
static int *find_times(arena *a, const pipeline_schedule *schedule, int rank) {
    const pipeline_shape *shape = &schedule->shape;
    int *when = ARENA_ARRAY(a, int, shape->chunks * shape->micro_batches * PIPELINE_PARTS);
    for (int i = 0; i < schedule->n_tasks; i++) {
        const pipeline_task *task = &schedule->order[rank][i];
        const int of = task->chunk * shape->micro_batches + task->micro_batch;
        when[of * PIPELINE_PARTS + part_of(task->work)] = i;
    }
    return when;
}

pipeline_pool pipeline_place(arena *a, const pipeline_schedule *schedule, int rank, int n_pieces,
        const int64_t *bytes) {
    const int n_spans = n_pieces * PIPELINE_SPANS,
              per_chunk = schedule->shape.micro_batches * n_spans,
              n_all = schedule->shape.chunks * per_chunk;
    pipeline_pool pool = {.n_spans = n_spans,
            .span_bytes = bytes,
            .offset = ARENA_ARRAY(a, int64_t, n_all)};
    arena *scratch = arena_new("pipeline_place");
    const int *when = find_times(scratch, schedule, rank);
    place_item *items = ARENA_ARRAY(scratch, place_item, n_all);
    int n_items = 0;
    for (int i = 0; i < n_all; i++) {
        const int span = i % PIPELINE_SPANS, *parts = &when[i / n_spans * PIPELINE_PARTS];
        const int64_t size = bytes[i / per_chunk * n_spans + i % n_spans];
        if (size == 0) continue;
        items[n_items++] = (place_item){.bytes = size,
                .first = parts[span / PIPELINE_PARTS],
                .last = parts[span % PIPELINE_PARTS],
                .id = i};
    }
    pool.bytes = place_items(items, n_items, schedule->n_tasks, NULL);
    for (int i = 0; i < n_items; i++)
        pool.offset[items[i].id] = items[i].offset;
    arena_free(scratch);
    return pool;
}

// Adds up the spans of a chunk that begin with a part of the work, or that end with it.
static int sum_begun(const int *spans, int part) {
    int sum = 0;
    for (int last = part; last < PIPELINE_PARTS; last++)
        sum += spans[pipeline_span(part, last)];
    return sum;
}

static int sum_ended(const int *spans, int part) {
    int sum = 0;
    for (int first = 0; first <= part; first++)
        sum += spans[pipeline_span(first, part)];
    return sum;
}

void pipeline_count_alive(const pipeline_schedule *schedule, int rank, const int *weight,
        int *count) {
    const pipeline_task *order = schedule->order[rank];
    int held = 0, most = 0, n = 0; // n: tasks until it holds most, that one included
    for (int i = 0; i < schedule->n_tasks; i++) {
        const int *heavy = &weight[order[i].chunk * PIPELINE_SPANS], part = part_of(order[i].work);
        held += sum_begun(heavy, part);
        if (held > most) {
            most = held;
            n = i + 1;
        }
        held -= sum_ended(heavy, part);
    }
    for (int i = 0; i < n; i++) {
        int *spans = &count[order[i].chunk * PIPELINE_SPANS];
        const int part = part_of(order[i].work);
        for (int last = part; last < PIPELINE_PARTS; last++)
            spans[pipeline_span(part, last)]++;
        for (int first = 0; first <= part && i + 1 < n; first++)
            spans[pipeline_span(first, part)]--;
    }
}
