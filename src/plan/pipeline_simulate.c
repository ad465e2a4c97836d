// The simulator of pipeline schedules. Times assume that sends never block. Whether the table ends
// is checked with one pending send per rank and direction and no buffer at the receiver but the
// posted one, so the result holds for any transport.
#include "plan/pipeline.h"

#include <math.h>

typedef enum direction { ACTIVATION, GRADIENT, N_DIRECTIONS } direction;

typedef struct simulation {
    const pipeline_schedule *schedule;
    const pipeline_cost *cost;
    int n_stages;
    double *end[N_DIRECTIONS]; // by stage and micro-batch: when it was computed; -1: not yet
    int *taken[N_DIRECTIONS];  // the same: which task of its rank computes it
    int *next;                 // by rank: the task at hand
    int round;                 // the one under way (pipeline_rounds); 0: there are none
} simulation;

static int stage_of(const simulation *s, int rank, const pipeline_task *task) {
    return pipeline_stage(&s->schedule->shape, rank, task);
}

static int at_stage(const simulation *s, int stage, int micro_batch) {
    return stage * s->schedule->shape.micro_batches + micro_batch;
}

static direction result_of(const pipeline_task *task) {
    return task->work == WORK_FORWARD ? ACTIVATION : GRADIENT;
}

// The stage whose result of the same direction this task waits for; -1: none.
static int source_of(const simulation *s, int stage, const pipeline_task *task) {
    if (task->work == WORK_FORWARD) return stage - 1;
    if (task->work == WORK_WEIGHT_GRAD || stage + 1 == s->n_stages) return -1;
    return stage + 1;
}

// The stage that waits for this task's result; -1: none.
static int target_of(const simulation *s, int stage, const pipeline_task *task) {
    if (task->work == WORK_WEIGHT_GRAD) return -1;
    if (task->work != WORK_FORWARD) return stage - 1;
    return stage + 1 < s->n_stages ? stage + 1 : -1;
}

// Returns when the inputs of the rank's next task are there; -1: they are not yet.
static double inputs_at(const simulation *s, int rank, const pipeline_task *task) {
    const int stage = stage_of(s, rank, task), m = task->micro_batch;
    double when = 0;
    if (task->work != WORK_FORWARD) { // its own stage went before
        const direction own = task->work == WORK_WEIGHT_GRAD ? GRADIENT : ACTIVATION;
        when = s->end[own][at_stage(s, stage, m)];
        if (when < 0) return -1;
    }
    const int source = source_of(s, stage, task);
    if (source < 0) return when;
    double arrives = s->end[result_of(task)][at_stage(s, source, m)];
    if (arrives < 0) return -1;
    if (source % s->schedule->shape.ranks != rank) arrives += s->cost->transfer;
    return arrives > when ? arrives : when;
}

static double seconds_of(const simulation *s, int stage, const pipeline_task *task) {
    const double input = s->cost->input_grad[stage], weight = s->cost->weight_grad[stage];
    const double seconds[N_WORKS] = {s->cost->forward[stage], input + weight, input, weight};
    return seconds[task->work];
}

static void computed(simulation *s, int rank, const pipeline_task *task, double when) {
    if (task->work == WORK_WEIGHT_GRAD) return;
    s->end[result_of(task)][at_stage(s, stage_of(s, rank, task), task->micro_batch)] = when;
}

static void forget_results(simulation *s) {
    const int n = s->n_stages * s->schedule->shape.micro_batches;
    for (int d = 0; d < N_DIRECTIONS; d++)
        for (int i = 0; i < n; i++)
            s->end[d][i] = -1;
    for (int rank = 0; rank < s->schedule->shape.ranks; rank++)
        s->next[rank] = 0;
}

// --- whether it ends
static drv_status cannot_end(const simulation *s, const char *why) {
    static const char *const works[N_WORKS] = {"forward", "backward", "input gradient",
            "weight gradient"};
    int rank = 0;
    while (s->next[rank] == s->schedule->n_tasks)
        rank++;
    const pipeline_task *task = &s->schedule->order[rank][s->next[rank]];
    return drv_fail(DRV_E_DATA, "schedule %s cannot end: %s, rank %d at the %s of micro-batch %d",
            pipeline_kind_name(s->schedule->shape.kind), why, rank, works[task->work],
            task->micro_batch);
}

// Returns whether the result of this task has been sent: the receiver posts the receive one task
// before it needs the result.
static bool has_left(const simulation *s, int rank, const pipeline_task *task) {
    const int target = target_of(s, stage_of(s, rank, task), task);
    if (target < 0) return true;
    const int taker = target % s->schedule->shape.ranks;
    const int takes = s->taken[result_of(task)][at_stage(s, target, task->micro_batch)];
    return taker == rank || s->next[taker] + 1 >= takes;
}

// Advances the rank as far as possible with one pending send per direction; `sending`: the task
// whose result is being sent, by direction and rank. In a round it advances by one task, whose
// inputs were computed in earlier rounds.
static bool advance(simulation *s, int rank, const pipeline_task **sending[N_DIRECTIONS]) {
    const int begin = s->next[rank];
    for (; s->next[rank] < s->schedule->n_tasks; s->next[rank]++) {
        const pipeline_task *task = &s->schedule->order[rank][s->next[rank]];
        const double inputs = inputs_at(s, rank, task);
        if (inputs < 0 || (s->round && (inputs >= s->round || s->next[rank] > begin))) break;
        if (task->work == WORK_WEIGHT_GRAD) continue;
        const pipeline_task **under_way = &sending[result_of(task)][rank];
        if (*under_way && !has_left(s, rank, *under_way)) break;
        *under_way = task;
        computed(s, rank, task, s->round);
    }
    return s->next[rank] > begin;
}

typedef const pipeline_task **sends[N_DIRECTIONS];

static void begin_sends(arena *a, simulation *s, sends sending) {
    for (int d = 0; d < N_DIRECTIONS; d++)
        sending[d] = ARENA_ARRAY(a, const pipeline_task *, s->schedule->shape.ranks);
    forget_results(s);
}

static drv_status try_to_end(arena *a, simulation *s) {
    const int n_ranks = s->schedule->shape.ranks;
    sends sending;
    begin_sends(a, s, sending);
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < n_ranks; rank++)
            moved = advance(s, rank, sending) || moved;
    }
    for (int rank = 0; rank < n_ranks; rank++)
        if (s->next[rank] < s->schedule->n_tasks) return cannot_end(s, "ranks wait for each other");
    return DRV_OK;
}

// --- how long it takes and what it holds
enum { FIRST_DEPTHS = 4 };
// Times that differ by such a part of themselves are the same.
#define SAME 1e-12

static bool run(simulation *s, int rank, double *now) {
    const int begin = s->next[rank];
    for (; s->next[rank] < s->schedule->n_tasks; s->next[rank]++) {
        const pipeline_task *task = &s->schedule->order[rank][s->next[rank]];
        const double inputs = inputs_at(s, rank, task);
        if (inputs < 0) break;
        *now = (inputs > *now ? inputs : *now) + seconds_of(s, stage_of(s, rank, task), task);
        computed(s, rank, task, *now);
    }
    return s->next[rank] > begin;
}

// Returns when the last task ends.
static double run_all(arena *a, simulation *s) {
    const int n_ranks = s->schedule->shape.ranks;
    double *now = ARENA_ARRAY(a, double, n_ranks), end = 0;
    forget_results(s);
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < n_ranks; rank++)
            moved = run(s, rank, &now[rank]) || moved;
    }
    for (int rank = 0; rank < n_ranks; rank++) {
        DRV_ASSERT(s->next[rank] == s->schedule->n_tasks, "rank %d waits for ever", rank);
        end = fmax(end, now[rank]);
    }
    return end;
}

// Returns whether the table repeats itself before its last micro-batches: for one depth each result
// comes *later seconds after that of a group before. All that follows depends on these alone, so it
// goes on until the last depth of micro-batches, however many there are.
static bool repeats(const simulation *s, double *later) {
    const pipeline_shape *shape = &s->schedule->shape;
    const int depth = pipeline_depth(shape), end = shape->micro_batches - depth;
    if (end - depth - shape->group < depth) return false;
    *later = s->end[ACTIVATION][end - 1] - s->end[ACTIVATION][end - 1 - shape->group];
    for (int d = 0; d < N_DIRECTIONS; d++)
        for (int stage = 0; stage < s->n_stages; stage++)
            for (int m = end - depth; m < end; m++) {
                const double *when = &s->end[d][at_stage(s, stage, m)];
                if (fabs(when[0] - when[-shape->group] - *later) > SAME * when[0]) return false;
            }
    return true;
}

static double bubble_of(const pipeline_shape *shape, const pipeline_cost *cost, double seconds) {
    double busy = 0;
    for (int stage = 0; stage < shape->ranks * shape->chunks; stage++)
        busy += cost->forward[stage] +
                (shape->forward_only ? 0 : cost->input_grad[stage] + cost->weight_grad[stage]);
    return seconds > 0 ? 1 - busy * shape->micro_batches / (shape->ranks * seconds) : 0;
}

// Activations are held from the forward to the last task that reads them.
static int peak_of(const pipeline_schedule *schedule, int rank) {
    const pipeline_work last = pipeline_last_work(&schedule->shape);
    int held = 0, peak = 0;
    for (int i = 0; i < schedule->n_tasks; i++) {
        const pipeline_work work = schedule->order[rank][i].work;
        if (work == WORK_FORWARD && ++held > peak) peak = held;
        if (work == last) held--;
    }
    return peak;
}

// Finds the task that computes each result, which is computed once.
static drv_status find_tasks(simulation *s) {
    const pipeline_shape *shape = &s->schedule->shape;
    const int n = s->n_stages * shape->micro_batches;
    for (int d = 0; d < N_DIRECTIONS; d++)
        for (int i = 0; i < n; i++)
            s->taken[d][i] = -1;
    for (int rank = 0; rank < shape->ranks; rank++)
        for (int i = 0; i < s->schedule->n_tasks; i++) {
            const pipeline_task *task = &s->schedule->order[rank][i];
            if (task->work == WORK_WEIGHT_GRAD) continue;
            int *taken = &s->taken[result_of(task)]
                                  [at_stage(s, stage_of(s, rank, task), task->micro_batch)];
            s->next[rank] = i;
            if (*taken >= 0) return cannot_end(s, "a task comes twice");
            *taken = i;
        }
    return DRV_OK;
}

static simulation open_simulation(arena *a, const pipeline_schedule *schedule,
        const pipeline_cost *cost) {
    const pipeline_shape *shape = &schedule->shape;
    simulation s = {.schedule = schedule, .cost = cost, .n_stages = shape->ranks * shape->chunks};
    for (int d = 0; d < N_DIRECTIONS; d++) {
        s.end[d] = ARENA_ARRAY(a, double, s.n_stages * shape->micro_batches);
        s.taken[d] = ARENA_ARRAY(a, int, s.n_stages * shape->micro_batches);
    }
    s.next = ARENA_ARRAY(a, int, shape->ranks);
    return s;
}

// --- rounds
int *pipeline_rounds(arena *a, const pipeline_schedule *schedule, int rank, int *n_rounds) {
    static const pipeline_cost no_time;
    arena *scratch = arena_new("pipeline_rounds");
    simulation s = open_simulation(scratch, schedule, &no_time);
    int *round = ARENA_ARRAY(a, int, schedule->n_tasks);
    sends sending;
    *n_rounds = 0;
    bool moved = find_tasks(&s) == DRV_OK;
    begin_sends(scratch, &s, sending);
    while (moved) {
        moved = false;
        s.round = *n_rounds + 1;
        for (int r = 0; r < schedule->shape.ranks; r++) {
            if (!advance(&s, r, sending)) continue;
            moved = true;
            if (r == rank) round[s.next[r] - 1] = s.round;
        }
        if (moved) *n_rounds = s.round;
    }
    DRV_ASSERT(s.next[rank] == schedule->n_tasks, "a schedule that does not end");
    arena_free(scratch);
    return round;
}

drv_status pipeline_check(const pipeline_schedule *schedule) {
    static const pipeline_cost no_time;
    arena *a = arena_new("pipeline_check");
    simulation s = open_simulation(a, schedule, &no_time);
    drv_status status = find_tasks(&s);
    if (status == DRV_OK) status = try_to_end(a, &s);
    arena_free(a);
    return status;
}

// Checks the group of a shape. Tables whose groups have as many micro-batches as there are ranks
// end; in many with larger groups the ranks wait for each other.
static drv_status check_ends(const pipeline_shape *shape) {
    DRV_TRY(pipeline_check_shape(shape));
    if (shape->group <= shape->ranks) return DRV_OK;
    const pipeline_shape tried = pipeline_shortened(shape, PIPELINE_SHORT);
    arena *a = arena_new("a table");
    pipeline_schedule table;
    drv_status status = pipeline_build(a, &tried, &table);
    if (status == DRV_OK) status = pipeline_check(&table);
    arena_free(a);
    return status;
}

// Larger groups than these never end, as test_pipeline shows for all small shapes: while the first
// rank sends on a whole group, the others can hold no more of it than this.
static int largest_group(const pipeline_shape *shape) {
    if (shape->kind != PIPELINE_INTERLEAVED) return shape->ranks;
    const int most = 2 * shape->ranks - 1;
    return most < shape->micro_batches ? most : shape->micro_batches;
}

drv_status pipeline_find_group(pipeline_shape *shape) {
    drv_saved why;
    shape->group = shape->ranks;
    drv_save(check_ends(shape), &why);
    for (drv_status status = why.status; status != DRV_OK; status = check_ends(shape))
        if (++shape->group > largest_group(shape)) return drv_restore(&why);
    return DRV_OK;
}

drv_status pipeline_time(arena *a, const pipeline_shape *shape, const pipeline_cost *cost,
        pipeline_result *out) {
    bool done = false;
    *out = (pipeline_result){.peak = ARENA_ARRAY(a, int, shape->ranks)};
    for (int depths = FIRST_DEPTHS; !done; depths *= 2) {
        const pipeline_shape tried = pipeline_shortened(shape, depths);
        const int more = shape->micro_batches - tried.micro_batches;
        double later = 0;
        pipeline_schedule schedule;
        arena *scratch = arena_new("pipeline_time");
        const drv_status status = pipeline_build(scratch, &tried, &schedule);
        if (status == DRV_OK) {
            simulation s = open_simulation(scratch, &schedule, cost);
            const double seconds = run_all(scratch, &s);
            done = more == 0 || repeats(&s, &later);
            out->seconds = seconds + later * (more / tried.group);
            for (int rank = 0; rank < shape->ranks; rank++)
                out->peak[rank] = peak_of(&schedule, rank);
        }
        arena_free(scratch);
        DRV_TRY(status);
    }
    out->bubble = bubble_of(shape, cost, out->seconds);
    return DRV_OK;
}
