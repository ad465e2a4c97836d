// Measures pairs of nodes: their links, their clocks, and the directory that they share.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "measure/node_check.h"

// A message begins with the length of the next one; 0: there is none. The first messages hold only
// that, to measure the latency; then they grow until one takes so much of the time that only a few
// more fit.
enum { PINGS = 64, FIRST_BYTES = 1 << 18, MOST_BYTES = 1 << 24, CLOCK_PINGS = 8 };
#define GROW_SHARE    0.1
// Latencies take at most this share of a pair's time, since each takes long where many ranks share
// a core.
#define PING_SHARE    0.25
// A shared file system may show a file to other machines late.
#define SEEN_WITHIN_S 10.0

// --- the pairs: the first rounds of a round-robin tournament
int node_rounds(int n_nodes) {
    int rounds = 0;
    for (int reach = 1; reach < n_nodes; reach *= 2)
        rounds++;
    return rounds;
}

int node_partner(int n_nodes, int node, int round) {
    const int circle =
            n_nodes % 2 ? n_nodes : n_nodes - 1; // of an even number of nodes one keeps its place
    if (n_nodes < 2) return -1;
    if (n_nodes % 2 == 0 &&
            node == circle) { // its partner is the node that the circle would pair with itself
        for (int other = 0; other < circle; other++)
            if (2 * other % circle == round % circle) return other;
    }
    const int other = ((round - node) % circle + circle) % circle;
    if (other != node) return other;
    return n_nodes % 2 ? -1 : circle;
}

// --- a pair
static drv_status move(comm *nodes, bool sends, int to, void *p, int64_t bytes) {
    comm_transfer t;
    if (sends)
        comm_send(comm_all_ranks(nodes), to, p, bytes, &t);
    else
        comm_receive(comm_all_ranks(nodes), to, p, bytes, &t);
    return comm_wait(comm_all_ranks(nodes), "doctor: a link", &t, 1);
}

// Sends a message there and back; the leader sets the length of the next one. *seconds: for both
// ways.
static drv_status ping(comm *nodes, int partner, bool leads, char *buffer, int64_t bytes,
        int64_t *next, double *seconds) {
    const double begin = clock_s();
    if (leads) memcpy(buffer, next, sizeof *next);
    DRV_TRY(move(nodes, leads, partner, buffer, bytes));
    DRV_TRY(move(nodes, !leads, partner, buffer, bytes));
    if (!leads) memcpy(next, buffer, sizeof *next);
    *seconds = clock_s() - begin;
    return DRV_OK;
}

static drv_status measure_pair(comm *nodes, int partner, double seconds, char *buffer,
        double *bandwidth, double *latency) {
    const bool leads = comm_rank(nodes) < partner;
    int64_t bytes = sizeof bytes, next = bytes;
    double took;
    *latency = HUGE_VAL;
    *bandwidth = 0;
    const double begin = clock_s(), until = begin + seconds;
    for (int i = 1; bytes < FIRST_BYTES; bytes = next, i++) {
        const bool again = i < PINGS && clock_s() < begin + PING_SHARE * seconds;
        if (leads) next = again ? bytes : FIRST_BYTES;
        DRV_TRY(ping(nodes, partner, leads, buffer, bytes, &next, &took));
        if (took / 2 < *latency) *latency = took / 2;
    }
    for (; bytes > 0; bytes = next) {
        // The leader decides before it knows how long this message takes, so it goes by the
        // previous one.
        if (leads)
            next = clock_s() > until                                        ? 0
                   : took < GROW_SHARE * seconds && 2 * bytes <= MOST_BYTES ? 2 * bytes
                                                                            : bytes;
        DRV_TRY(ping(nodes, partner, leads, buffer, bytes, &next, &took));
        const double rate = 2 * (double)bytes / took;
        if (rate > *bandwidth) *bandwidth = rate;
    }
    return DRV_OK;
}

static drv_status measure_links(arena *a, comm *nodes, double seconds, node_result *out) {
    const int n = comm_size(nodes), rounds = node_rounds(n);
    char *buffer = arena_alloc(a, MOST_BYTES);
    for (int round = 0; round < rounds; round++) {
        const int partner = node_partner(n, comm_rank(nodes), round);
        double bandwidth, latency;
        DRV_TRY(comm_barrier(comm_all_ranks(nodes)));
        if (partner < 0) continue;
        DRV_TRY(measure_pair(nodes, partner, seconds / rounds, buffer, &bandwidth, &latency));
        // The best of them counts: a slow link may be the other node's fault.
        if (!(out->value[NODE_BANDWIDTH] >= bandwidth)) out->value[NODE_BANDWIDTH] = bandwidth;
        if (!(out->value[NODE_LATENCY] <= latency)) out->value[NODE_LATENCY] = latency;
    }
    return DRV_OK;
}

// --- clocks
// Node 0 answers each node in turn with its time; the fastest answer counts.
static drv_status measure_clock(comm *nodes, node_result *out) {
    double best = HUGE_VAL, theirs;
    const int rank = comm_rank(nodes);
    for (int other = 1; other < comm_size(nodes); other++)
        for (int i = 0; i < CLOCK_PINGS && (rank == 0 || rank == other); i++) {
            const double begin = clock_utc_s();
            theirs = begin;
            DRV_TRY(move(nodes, rank != 0, rank ? 0 : other, &theirs, sizeof theirs));
            if (rank == 0) theirs = clock_utc_s();
            DRV_TRY(move(nodes, rank == 0, rank ? 0 : other, &theirs, sizeof theirs));
            const double end = clock_utc_s();
            if (rank == 0 || end - begin >= best) continue;
            best = end - begin;
            out->clock_s = (begin + end) / 2 - theirs;
        }
    return DRV_OK;
}

// --- the directory
// Tests whether a lock that node 0 holds excludes this node; -1: no lock could be taken.
static drv_status look_for_lock(arena *a, comm *nodes, const char *dir, node_result *out) {
    const char *path = path_join(a, dir, ".drover-node.lock");
    const bool holds = comm_rank(nodes) == 0;
    int32_t taken = 0;
    int fd = holds ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0) taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
    DRV_TRY(comm_broadcast(comm_all_ranks(nodes), 0, &taken, sizeof taken));
    if (!holds) fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (!taken)
        out->sees_lock = -1;
    else
        out->sees_lock =
                holds || (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
    const drv_status status = comm_barrier(comm_all_ranks(nodes)); // wait until all have looked
    if (fd >= 0) close(fd);
    if (holds) unlink(path);
    return status;
}

static bool has_bytes(const char *path, const char *expected, size_t n) {
    char got[32] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    const ssize_t read_now = fd >= 0 ? read(fd, got, sizeof got) : -1;
    if (fd >= 0) close(fd);
    return read_now == (ssize_t)n && memcmp(got, expected, n) == 0;
}

// Tests whether this node sees a file that node 0 has renamed into place, with its content.
static drv_status look_for_rename(arena *a, comm *nodes, const char *dir, node_result *out) {
    const char *path = path_join(a, dir, ".drover-node.seen");
    char text[24] = "";
    int32_t made = 0;
    if (comm_rank(nodes) == 0) {
        snprintf(text, sizeof text, "%.17g", clock_utc_s());
        made = file_write_atomic(path, text, sizeof text) == DRV_OK;
    }
    DRV_TRY(comm_broadcast(comm_all_ranks(nodes), 0, text, sizeof text));
    DRV_TRY(comm_broadcast(comm_all_ranks(nodes), 0, &made, sizeof made));
    const double until = clock_s() + SEEN_WITHIN_S;
    bool seen = has_bytes(path, text, sizeof text);
    while (made && !seen && clock_s() < until) {
        usleep(100000);
        seen = has_bytes(path, text, sizeof text);
    }
    out->sees_rename = seen || !made; // only node 0 is at fault
    DRV_TRY(comm_barrier(comm_all_ranks(nodes)));
    if (comm_rank(nodes) == 0) unlink(path);
    return DRV_OK;
}

drv_status node_measure_others(arena *a, comm *nodes, const char *dir, double seconds,
        node_result *out) {
    if (comm_size(nodes) == 1) return DRV_OK;
    DRV_TRY(measure_links(a, nodes, seconds, out));
    DRV_TRY(comm_barrier(comm_all_ranks(nodes)));
    DRV_TRY(measure_clock(nodes, out));
    DRV_TRY(look_for_lock(a, nodes, dir, out));
    return look_for_rename(a, nodes, dir, out);
}
