// Collectives that go on during the nodes that follow (docs/adr/0027), on two ranks, each with a
// back end of its own: rank 1 comes late, and what rank 0 does not need of it is done before;
// whoever touches what is still being written, in any way, finds it complete.
#include "ranks.h"

#include "comm/comm_internal.h"
#include "gate.h"
#include "ir/shard.h"

enum { RANKS = 2, N = 1500, FIRST = 1024 }; // element of the second shard
static const mesh both = {{1, RANKS, 1, 1}};

static float value_of(int rank, int64_t i) {
    return (float)((rank * 101 + i * 17) % 256); // sums are exact
}

typedef enum collective { GATHER, SUM_SHARD, SUM_WHOLE, N_COLLECTIVES } collective;
// Who touches the tensor while it is written.
typedef enum toucher {
    SAME_PROGRAM,
    OTHER_PROGRAM,
    AGAIN, // the same collective of it once more
    HOST,
    HOST_WRITES,
    OTHER_THREAD,
    CLOSES, // nobody does before the end
    N_TOUCHERS
} toucher;

typedef struct scene {
    collective what;
    toucher who;
    gate late; // rank 1 waits here
    backend *device;
    comm *self;
    drv_status status; // of rank 0's second thread
} scene;

typedef struct rank_programs {
    backend *device;
    graph *begin, *other;
    plan *planned;
    executable *run, *run_other;
} rank_programs;

// t travels; z = x + x does not touch it; y = t + t in the same program or in another one.
static graph *async_graph(arena *a, const scene *of) {
    graph *built = graph_new(a, "async");
    built->mesh = both;
    const int64_t dim = N, length = shard_length(N, RANKS);
    tensor *x = graph_state(built, TENSOR_INPUT, "x", DT_F32, 1, &dim), *end;
    op_attrs attrs = {.mesh.axis = AXIS_DATA, .mesh.ranks = RANKS, .mesh.async = 1};
    if (of->what == GATHER) {
        tensor *in[] = {graph_state(built, TENSOR_WEIGHT, "t", DT_F32, 1, &dim),
                graph_state(built, TENSOR_OPTIMIZER, "shard", DT_F32, 1, &length)};
        end = graph_add(built, OP_gather_shards, 2, in, &attrs)->out[0];
    } else {
        attrs.sum.data_ranks = RANKS;
        attrs.sum.in_accum_group = 1;
        attrs.mesh.whole = of->what == SUM_WHOLE;
        tensor *in[] = {graph_state(built, TENSOR_GRAD, "t", DT_F32, 1, &dim),
                graph_state(built, TENSOR_INPUT, "last", DT_I32, 1, (int64_t[]){1})};
        end = graph_add(built, OP_sum_shard, 2, in, &attrs)->out[0];
    }
    graph_output(built, graph_add(built, OP_add, 2, (tensor *[]){x, x}, NULL)->out[0], "z");
    if (of->who == SAME_PROGRAM)
        graph_output(built, graph_add(built, OP_add, 2, (tensor *[]){end, end}, NULL)->out[0], "y");
    return built;
}

static graph *reading_graph(arena *a, const scene *of) {
    graph *g = graph_new(a, "reads");
    g->mesh = both;
    tensor *t = graph_state(g, of->what == GATHER ? TENSOR_WEIGHT : TENSOR_GRAD, "t", DT_F32, 1,
            (int64_t[]){N});
    graph_output(g, graph_add(g, OP_add, 2, (tensor *[]){t, t}, NULL)->out[0], "y");
    return g;
}

// What a rank has at first: all of t for a sum; for a gather what is wrong, and its shard of it.
static drv_status fill(comm *self, const scene *of, backend *device) {
    float x[N];
    const int32_t last = 1;
    for (int64_t i = 0; i < N; i++)
        x[i] = value_of(comm_rank(self), i);
    DRV_TRY(backend_write(device, "x", 0, sizeof x, x));
    if (of->what != GATHER) {
        DRV_TRY(backend_write(device, "last", 0, sizeof last, &last));
        return backend_write(device, "t", 0, sizeof x, x);
    }
    const int64_t first = shard_first(N, RANKS, comm_rank(self)),
                  count = shard_count(N, RANKS, comm_rank(self));
    DRV_TRY(backend_write(device, "shard", 0, 4 * count, x + first));
    for (int64_t i = 0; i < N; i++)
        x[i] = -1;
    return backend_write(device, "t", 0, sizeof x, x);
}

static drv_status open_rank(comm *self, arena *a, const scene *of, rank_programs *out) {
    DRV_TRY(backend_open_host(a, &out->device));
    backend_join(out->device, self, &both);
    out->begin = async_graph(a, of);
    out->other = reading_graph(a, of);
    DRV_TRY(backend_compile(a, out->device, out->begin, &out->planned, &out->run));
    DRV_TRY(backend_compile(a, out->device, out->other, NULL, &out->run_other));
    DRV_TRY(backend_prepare(out->device));
    return fill(self, of, out->device);
}

// Of t when all is done: `rounds` collectives of it, one after the other.
static float expected(const scene *of, int rank, int64_t i, int rounds) {
    const bool second = i >= FIRST, own = second == (rank == 1);
    if (of->what == GATHER) return value_of(second, i);
    if (of->what == SUM_SHARD && !own) return value_of(rank, i);
    const float sum = value_of(0, i) + value_of(1, i);
    if (rounds == 1) return sum;
    return of->what == SUM_WHOLE ? 2 * sum : sum + value_of(!rank, i);
}

static drv_status is_complete(comm *self, const scene *of, const char *name, int factor,
        int rounds) {
    float x[N];
    DRV_TRY(backend_read(of->device, name, 0, sizeof x, x));
    for (int64_t i = 0; i < N; i++)
        if (x[i] != (float)factor * expected(of, comm_rank(self), i, rounds))
            return drv_fail(DRV_E_DATA, "collective %d, toucher %d, rank %d: %s[%lld] is %g",
                    (int)of->what, (int)of->who, comm_rank(self), name, (long long)i, (double)x[i]);
    return DRV_OK;
}

static drv_status is_past_others(const scene *of) {
    float z[N];
    DRV_TRY(backend_read(of->device, "z", 0, sizeof z, z));
    for (int64_t i = 0; i < N; i++)
        EXPECT(of->self, z[i] == 2 * value_of(0, i));
    return DRV_OK;
}

// --- rank 0
// Once rank 0 waits for the collective: what comes before that in its program is done.
static drv_status until_it_waits(const scene *of) {
    const char *op = of->what == GATHER ? "gather_shards over data" : "sum_shard over data";
    bool waits = false;
    for (int i = 0; i < 10000 && !waits; i++) {
        waits = strcmp(comm_status_now(of->self).op, op) == 0;
        if (!waits) pause_ms(1);
    }
    EXPECT(of->self, waits);
    return is_past_others(of);
}

static void *second_thread(void *arg) {
    scene *of = arg;
    of->status =
            of->who == OTHER_THREAD ? is_complete(of->self, of, "t", 1, 1) : until_it_waits(of);
    gate_open(&of->late);
    return NULL;
}

static drv_status read_by_other_thread(scene *of) {
    pthread_t thread;
    EXPECT(of->self, pthread_create(&thread, NULL, second_thread, of) == 0);
    pthread_join(thread, NULL);
    if (of->status == DRV_OK) return DRV_OK;
    return drv_fail(of->status, "another thread finds other values");
}

// Touched without a name that another thread could see: what does not touch it is done already,
// and rank 1 comes in a while.
static drv_status touch_by_host(scene *of, const rank_programs *mine) {
    float values[N];
    if (comm_rank(of->self) == 0) {
        DRV_TRY(is_past_others(of));
        gate_open(&of->late);
    }
    switch (of->who) {
    case AGAIN:
        DRV_TRY(backend_run(mine->device, mine->run));
        return is_complete(of->self, of, "t", 1, 2);
    case HOST:
        return is_complete(of->self, of, "t", 1, 1);
    case HOST_WRITES: // what arrives later would be seen
        for (int64_t i = 0; i < N; i++)
            values[i] = 7;
        DRV_TRY(backend_write(mine->device, "t", 0, sizeof values, values));
        pause_ms(20);
        DRV_TRY(backend_read(mine->device, "t", 0, sizeof values, values));
        for (int64_t i = 0; i < N; i++)
            EXPECT(of->self, values[i] == 7);
        return DRV_OK;
    case OTHER_THREAD:
        return read_by_other_thread(of);
    default:
        return DRV_OK;
    }
}

// Touched by a node of this rank, while another thread looks at what it waits for.
static drv_status touch_by_node(scene *of, const rank_programs *mine) {
    pthread_t thread;
    const bool watches = comm_rank(of->self) == 0;
    if (watches) EXPECT(of->self, pthread_create(&thread, NULL, second_thread, of) == 0);
    drv_status status = backend_run(mine->device, mine->run);
    if (status == DRV_OK && of->who == OTHER_PROGRAM)
        status = backend_run(mine->device, mine->run_other);
    if (watches) pthread_join(thread, NULL);
    DRV_TRY(status);
    if (watches && of->status != DRV_OK)
        return drv_fail(of->status, "rank 0 does not wait, or what comes before waits as well");
    return is_complete(of->self, of, "y", 2, 1);
}

static drv_status touch_it(scene *of, const rank_programs *mine) {
    if (of->who == SAME_PROGRAM || of->who == OTHER_PROGRAM) return touch_by_node(of, mine);
    DRV_TRY(backend_run(mine->device, mine->run));
    return touch_by_host(of, mine);
}

static drv_status run_scene(comm *self, arena *a, scene *of) {
    rank_programs mine;
    comm_group *group = comm_axes(self, &both, 1 << AXIS_DATA);
    DRV_TRY(open_rank(self, a, of, &mine));
    of->device = mine.device;
    of->self = self;
    const drv_status status = touch_it(of, &mine);
    gate_open(&of->late); // whatever has failed
    backend_close(mine.device);
    DRV_TRY(status);
    const int64_t to_other = comm_rank(self) == 0 ? N - FIRST : FIRST, own = N - to_other,
                  rounds = of->who == AGAIN ? 2 : 1;
    const int64_t sent = of->what == GATHER ? own : of->what == SUM_SHARD ? to_other : N;
    EXPECT(self, comm_sent(group) == 4 * rounds * sent);
    return DRV_OK;
}

// Each rank has its own of what a scene is but for the gate.
static drv_status play_scene(comm *self, void *ctx) {
    scene *first = ctx;
    arena *a = arena_new("scene");
    drv_status status = DRV_OK;
    if (comm_rank(self) == 0) {
        status = run_scene(self, a, first);
    } else {
        scene mine = {.what = first->what, .who = first->who, .late = GATE_INIT};
        if (!gate_pass(&first->late)) status = drv_fail(DRV_E_DATA, "rank 0 waits too early");
        pause_ms(30);
        if (status == DRV_OK) status = run_scene(self, a, &mine);
    }
    arena_free(a);
    return status;
}

static void whoever_touches_it_waits(void **state) {
    (void)state;
    for (int what = 0; what < N_COLLECTIVES; what++)
        for (int who = 0; who < N_TOUCHERS; who++) {
            scene of = {.what = (collective)what, .who = (toucher)who, .late = GATE_INIT};
            OK(comm_run_threads(RANKS, 1, NULL, play_scene, &of));
        }
}

// --- the last micro-batch alone
static drv_status not_the_last(comm *self, void *ctx) {
    (void)ctx;
    scene of = {.what = SUM_WHOLE, .who = HOST, .self = self};
    arena *a = arena_new("turns");
    rank_programs mine;
    comm_group *group = comm_axes(self, &both, 1 << AXIS_DATA);
    DRV_TRY(open_rank(self, a, &of, &mine));
    of.device = mine.device;
    for (int32_t last = 0; last < 2; last++) {
        DRV_TRY(backend_write(mine.device, "last", 0, sizeof last, &last));
        DRV_TRY(backend_run(mine.device, mine.run));
        float x[N];
        DRV_TRY(backend_read(mine.device, "t", 0, sizeof x, x));
        for (int64_t i = 0; i < N; i++)
            EXPECT(self, x[i] == (last ? expected(&of, comm_rank(self), i, 1)
                                       : value_of(comm_rank(self), i)));
        EXPECT(self, comm_sent(group) == (last ? 4 * N : 0));
    }
    EXPECT(self, mine.planned->wire_bytes[AXIS_DATA] == 4 * N);
    backend_close(mine.device);
    arena_free(a);
    return DRV_OK;
}

static void only_the_last_micro_batch_sums(void **state) {
    (void)state;
    OK(comm_run_threads(RANKS, 1, NULL, not_the_last, NULL));
}

// --- reduce_shard of what is summed: this rank's shard, filled up, and all of the sum cleared
static drv_status run_summed(comm *self, arena *a, backend *device) {
    executable *run;
    plan *planned;
    float values[N];
    graph *built = graph_new(a, "summed");
    built->mesh = both;
    tensor *sum = graph_state(built, TENSOR_GRAD, "t", DT_F32, 1, (int64_t[]){N});
    const op_attrs attrs = {.mesh.axis = AXIS_DATA, .mesh.ranks = RANKS, .mesh.summed = 1};
    graph_output(built, graph_add(built, OP_reduce_shard, 1, &sum, &attrs)->out[0], "mine");
    DRV_TRY(backend_compile(a, device, built, &planned, &run));
    DRV_TRY(backend_prepare(device));
    for (int64_t i = 0; i < FIRST; i++)
        values[i] = 5;
    DRV_TRY(backend_write(device, "mine", 0, 4 * FIRST, values)); // of a step before
    for (int64_t i = 0; i < N; i++)
        values[i] = 1 + value_of(comm_rank(self), i);
    DRV_TRY(backend_write(device, "t", 0, sizeof values, values));
    DRV_TRY(backend_run(device, run));
    const int64_t first = comm_rank(self) * FIRST, count = comm_rank(self) ? N - FIRST : FIRST;
    DRV_TRY(backend_read(device, "mine", 0, 4 * FIRST, values));
    for (int64_t i = 0; i < FIRST; i++)
        EXPECT(self, values[i] == (i < count ? 1 + value_of(comm_rank(self), first + i) : 0));
    DRV_TRY(backend_read(device, "t", 0, sizeof values, values));
    for (int64_t i = 0; i < N; i++)
        EXPECT(self, values[i] == 0);
    EXPECT(self, planned->wire_bytes[AXIS_DATA] == 0);
    return DRV_OK;
}

static drv_status take_summed(comm *self, void *ctx) {
    (void)ctx;
    arena *a = arena_new("summed");
    backend *device;
    DRV_TRY(backend_open_host(a, &device));
    backend_join(device, self, &both);
    DRV_TRY(run_summed(self, a, device));
    backend_close(device);
    EXPECT(self, comm_sent(comm_axes(self, &both, 1 << AXIS_DATA)) == 0);
    arena_free(a);
    return DRV_OK;
}

static void a_summed_shard_is_taken_as_it_is(void **state) {
    (void)state;
    OK(comm_run_threads(RANKS, 1, NULL, take_summed, NULL));
}

// --- failures
// Rank 1 gives up before it comes to the sum: *ctx, whether rank 0 heard of it wherever it waited.
static drv_status hears(backend *device, const rank_programs *mine, bool *heard) {
    float x[N];
    drv_status status = backend_run(device, mine->run);
    if (status == DRV_OK) status = backend_run(device, mine->run_other);
    *heard = status == DRV_E_PEER && backend_read(device, "t", 0, sizeof x, x) == DRV_E_PEER;
    return status;
}

static drv_status gives_up(comm *self, void *ctx) {
    scene of = {.what = SUM_WHOLE, .who = OTHER_PROGRAM};
    arena *a = arena_new("gives up");
    rank_programs mine;
    DRV_TRY(open_rank(self, a, &of, &mine));
    drv_status status = DRV_E_DATA;
    if (comm_rank(self) == 0) status = hears(mine.device, &mine, ctx);
    if (comm_rank(self) == 1) (void)comm_abort(self, drv_fail(DRV_E_DATA, "bad row 17"));
    backend_close(mine.device);
    arena_free(a);
    return comm_rank(self) == 0 ? status : drv_fail(DRV_E_DATA, "bad row 17");
}

static void who_waits_hears_of_a_failure(void **state) {
    (void)state;
    bool heard = false;
    FAILS(comm_run_threads(RANKS, 1, NULL, gives_up, &heard), DRV_E_DATA, "bad row 17");
    assert_true(heard);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whoever_touches_it_waits),
            cmocka_unit_test(only_the_last_micro_batch_sums),
            cmocka_unit_test(a_summed_shard_is_taken_as_it_is),
            cmocka_unit_test(who_waits_hears_of_a_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
