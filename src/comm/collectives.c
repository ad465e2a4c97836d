// Collectives made of messages. A rank sends every part directly to the rank that needs it, which
// reduces in the order of places. On a fully connected network this sends as few bytes as the best
// algorithms (n - 1 parts out, n - 1 in) and was measured faster than a library's reduce_scatter
// (all_to_all and a tree: 16 MiB on 4 ranks in 16 ms, against 39). The order of sums is fixed.
#include <string.h>

#include "base/clock.h"
#include "comm/comm_internal.h"
#include "comm/join.h"
#include "ir/wire.h"

static void start(comm_group *g, comm_transfer *t, int place, bool sends, const void *p,
        int64_t bytes) {
    *t = (comm_transfer){.peer = g->ranks[place],
            .tag = g->tag,
            .sends = sends,
            .p = (char *)(uintptr_t)p,
            .bytes = bytes,
            .owner = g->c};
    if (sends) g->sent += bytes;
    g->c->v->start(g->c, t);
}

void comm_send(comm_group *g, int to, const void *p, int64_t bytes, comm_transfer *t) {
    start(g, t, to, true, p, bytes);
}

void comm_receive(comm_group *g, int from, void *p, int64_t bytes, comm_transfer *t) {
    start(g, t, from, false, p, bytes);
}

static drv_status finish(comm_group *g, comm_transfer *list, int n) {
    comm *c = g->c;
    bool done = n == 0;
    drv_status status = DRV_OK;
    const double begin = clock_s();
    while (status == DRV_OK && !done) {
        status = c->v->advance(c, list, n, true, &done);
        if (status == DRV_OK && !done) status = comm_check(c);
    }
    c->waited_s += clock_s() - begin;
    if (status != DRV_OK) c->v->cancel(c, list, n);
    return status;
}

drv_status comm_wait(comm_group *g, const char *what, comm_transfer *list, int n) {
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += list[i].sends ? list[i].bytes : 0;
    comm_begin(g, what, bytes);
    DRV_TRY(finish(g, list, n));
    comm_end(g);
    return DRV_OK;
}

void comm_cancel(comm_group *g, comm_transfer *list, int n) {
    g->c->v->cancel(g->c, list, n);
}

drv_status comm_test(comm_group *g, comm_transfer *list, int n, bool *done) {
    *done = n == 0;
    if (n) DRV_TRY(g->c->v->advance(g->c, list, n, false, done));
    return *done ? DRV_OK : comm_check(g->c);
}

// Sends g->to[j] to place j and receives g->from[i] from place i, except for this rank's own.
// Every rank begins with its neighbour, so that no two send to the same rank first.
static drv_status exchange(comm_group *g) {
    int n = 0;
    for (int k = 1; k < g->n; k++) {
        const int from = (g->place + g->n - k) % g->n;
        if (g->from[from].bytes)
            comm_receive(g, from, g->from[from].p, g->from[from].bytes, &g->transfers[n++]);
    }
    for (int k = 1; k < g->n; k++) {
        const int to = (g->place + k) % g->n;
        if (g->to[to].bytes) comm_send(g, to, g->to[to].p, g->to[to].bytes, &g->transfers[n++]);
    }
    return finish(g, g->transfers, n);
}

// Cuts memory into parts, one for each place; sizes NULL: all are n bytes.
static void cut(const comm_group *g, const void *p, const int64_t *sizes, int64_t n, int64_t unit,
        piece *out) {
    char *begin = (char *)(uintptr_t)p;
    for (int i = 0; i < g->n; i++) {
        out[i] = (piece){begin, sizes ? sizes[i] * unit : n};
        if (out[i].bytes) begin += out[i].bytes; // an empty buffer may be NULL
    }
}

static void *scratch_of(comm *c, void *given, int64_t bytes) {
    if (given) return given;
    if (bytes > c->scratch_bytes) {
        c->scratch = mem_realloc(c->scratch, (size_t)bytes);
        c->scratch_bytes = bytes;
    }
    return c->scratch;
}

static bool is_small(dtype dt, int64_t n) {
    return n * dtype_bytes(dt) <= WIRE_SMALL_BYTES;
}

// Reduces the parts received from every place, from[i], and this rank's own.
static void join_received(comm_group *g, dtype dt, comm_join join, const void *own, int64_t n,
        void *out) {
    for (int i = 0; i < g->n; i++)
        g->parts[i] = i == g->place ? own : g->from[i].p;
    join_runs(dt, join, g->parts, g->n, g->run, n, out);
}

// Sends the parts in g->to, and reduces this rank's part to `out`.
static drv_status scatter(comm_group *g, dtype dt, comm_join join, void *out, void *scratch) {
    const piece own = g->to[g->place];
    cut(g, scratch_of(g->c, scratch, own.bytes * g->n), NULL, own.bytes, 1, g->from);
    DRV_TRY(exchange(g));
    join_received(g, dt, join, own.p, own.bytes / dtype_bytes(dt), out);
    return DRV_OK;
}

drv_status comm_reduce_scatter(comm_group *g, dtype dt, comm_join join, const void *in, int64_t n,
        const int64_t *counts, void *out, void *scratch) {
    const int64_t unit = dtype_bytes(dt);
    comm_begin(g, "reduce_scatter", n * unit);
    cut(g, in, counts, n / g->n * unit, unit, g->to);
    DRV_TRY(scatter(g, dt, join, out, scratch));
    comm_end(g);
    return DRV_OK;
}

// Large enough for the network, small compared with the gradients.
enum { BUCKET_BYTES = 16 << 20 };

// Counts the elements of each shard in a bucket.
static int64_t bucket_of_shard(dtype dt, int64_t shard, int ranks) {
    const int64_t most = BUCKET_BYTES / dtype_bytes(dt) / ranks;
    return shard < most ? shard : most > 1 ? most : 1;
}

int64_t comm_bucket_bytes(dtype dt, int64_t shard, int ranks) {
    return bucket_of_shard(dt, shard, ranks) * ranks * dtype_bytes(dt);
}

// Lists elements [first, last) of each shard of p[n].
static void cut_bucket(const comm_group *g, char *p, int64_t n, int64_t shard, int64_t first,
        int64_t last, int64_t unit, piece *out) {
    for (int i = 0; i < g->n; i++) {
        const int64_t begin = i * shard + first, end = i * shard + last;
        out[i] = begin < n ? (piece){p + begin * unit, ((end < n ? end : n) - begin) * unit}
                           : (piece){p, 0};
    }
}

drv_status comm_sum_shards(comm_group *g, dtype dt, void *p, int64_t n, int64_t shard) {
    const int64_t unit = dtype_bytes(dt), step = bucket_of_shard(dt, shard, g->n);
    comm_begin(g, "sum of shards", n * unit);
    for (int64_t first = 0; first < shard; first += step) {
        cut_bucket(g, p, n, shard, first, first + step < shard ? first + step : shard, unit, g->to);
        DRV_TRY(scatter(g, dt, COMM_SUM, g->to[g->place].p, NULL));
    }
    comm_end(g);
    return DRV_OK;
}

drv_status comm_gather_shards(comm_group *g, dtype dt, void *p, int64_t n, int64_t shard) {
    const int64_t unit = dtype_bytes(dt);
    cut_bucket(g, p, n, shard, 0, shard, unit, g->from);
    const piece own = g->from[g->place];
    for (int i = 0; i < g->n; i++)
        g->to[i] = own;
    comm_begin(g, "gather of shards", own.bytes);
    DRV_TRY(exchange(g));
    comm_end(g);
    return DRV_OK;
}

static drv_status reduce_small(comm_group *g, dtype dt, comm_join join, void *p, int64_t n,
        void *scratch) {
    const int64_t bytes = n * dtype_bytes(dt);
    for (int i = 0; i < g->n; i++)
        g->to[i] = (piece){p, bytes};
    cut(g, scratch_of(g->c, scratch, bytes * g->n), NULL, bytes, 1, g->from);
    DRV_TRY(exchange(g));
    join_received(g, dt, join, p, n, p);
    return DRV_OK;
}

// A reduce-scatter, then an all-gather.
static drv_status reduce_large(comm_group *g, dtype dt, comm_join join, void *p, int64_t n,
        void *scratch) {
    const int64_t unit = dtype_bytes(dt);
    for (int i = 0; i < g->n; i++)
        g->sizes[i] = (i + 1) * n / g->n - i * n / g->n;
    cut(g, p, g->sizes, 0, unit, g->to);
    const piece own = g->to[g->place];
    DRV_TRY(scatter(g, dt, join, own.p, scratch));
    cut(g, p, g->sizes, 0, unit, g->from);
    for (int i = 0; i < g->n; i++)
        g->to[i] = own;
    return exchange(g);
}

drv_status comm_all_reduce(comm_group *g, dtype dt, comm_join join, void *p, int64_t n,
        void *scratch) {
    if (g->n == 1 || n == 0) return DRV_OK;
    comm_begin(g, join == COMM_SUM ? "all_reduce" : "all_reduce max", n * dtype_bytes(dt));
    DRV_TRY((is_small(dt, n) ? reduce_small : reduce_large)(g, dt, join, p, n, scratch));
    comm_end(g);
    return DRV_OK;
}

drv_status comm_all_gather(comm_group *g, const void *in, int64_t n, const int64_t *bytes,
        void *out) {
    const piece own = {(char *)(uintptr_t)in, bytes ? bytes[g->place] : n};
    comm_begin(g, "all_gather", own.bytes);
    cut(g, out, bytes, n, 1, g->from);
    for (int i = 0; i < g->n; i++)
        g->to[i] = own;
    DRV_TRY(exchange(g));
    if (own.bytes && in != g->from[g->place].p) memcpy(g->from[g->place].p, in, (size_t)own.bytes);
    comm_end(g);
    return DRV_OK;
}

drv_status comm_all_to_all(comm_group *g, const void *in, const int64_t *in_bytes, void *out,
        const int64_t *out_bytes, int64_t n) {
    cut(g, in, in_bytes, n, 1, g->to);
    cut(g, out, out_bytes, n, 1, g->from);
    const piece *own = &g->to[g->place];
    comm_begin(g, "all_to_all", own->bytes * g->n);
    DRV_TRY(exchange(g));
    if (own->bytes) memcpy(g->from[g->place].p, own->p, (size_t)own->bytes);
    comm_end(g);
    return DRV_OK;
}

// A binomial tree: in round k every rank that has the data sends it to the place 2^k further on.
drv_status comm_broadcast(comm_group *g, int from, void *p, int64_t bytes) {
    const int me = (g->place - from + g->n) % g->n;
    comm_begin(g, "broadcast", bytes);
    for (int hop = 1; hop < g->n; hop *= 2) {
        comm_transfer t;
        const bool sends = me < hop && me + hop < g->n, receives = me >= hop && me < 2 * hop;
        if (sends) comm_send(g, (g->place + hop) % g->n, p, bytes, &t);
        if (receives) comm_receive(g, (g->place - hop + g->n) % g->n, p, bytes, &t);
        DRV_TRY(finish(g, &t, sends || receives));
    }
    comm_end(g);
    return DRV_OK;
}

// A dissemination barrier (Hensgen, Finkel, Manber 1988): log2 n rounds; in round k a byte goes 2^k
// places further.
drv_status comm_barrier(comm_group *g) {
    comm_begin(g, "barrier", 0);
    for (int hop = 1; hop < g->n; hop *= 2) {
        comm_transfer t[2];
        char out = 0, in;
        comm_receive(g, (g->place - hop % g->n + g->n) % g->n, &in, 1, &t[0]);
        comm_send(g, (g->place + hop) % g->n, &out, 1, &t[1]);
        DRV_TRY(finish(g, t, 2));
    }
    comm_end(g);
    return DRV_OK;
}
