// The failure ring is made while strangers call: they hold up nobody, and its ports are open on the
// address of the hosts alone, for as long as ranks meet.
#include "harness.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm_internal.h"
#include "comm/ring_connect.h"

enum { RANKS = 4, MAX_FD = 256, LONGEST_S = 60 };

// Calls every port that this process listens on, sends one byte and stays.
typedef struct stranger {
    _Atomic bool ends;
    _Atomic int n_calls, n_open_to_all;
} stranger;

static bool listens(int fd, struct sockaddr_in *at) {
    int yes = 0;
    socklen_t n = sizeof yes, n_at = sizeof *at;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &n) == 0 && yes &&
           getsockname(fd, (struct sockaddr *)at, &n_at) == 0 && at->sin_family == AF_INET;
}

static int count_listeners(void) {
    struct sockaddr_in at;
    int n = 0;
    for (int fd = 3; fd < MAX_FD; fd++)
        n += listens(fd, &at);
    return n;
}

static void *call_all(void *arg) {
    stranger *s = arg;
    int held[MAX_FD], n_held = 0;
    uint16_t called[MAX_FD] = {0};
    while (!s->ends)
        for (int fd = 3; fd < MAX_FD && n_held < MAX_FD / 4; fd++) {
            struct sockaddr_in at;
            if (!listens(fd, &at) || called[fd] == at.sin_port) continue;
            called[fd] = at.sin_port;
            s->n_open_to_all += at.sin_addr.s_addr != htonl(INADDR_LOOPBACK);
            at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            const int mine = socket(AF_INET, SOCK_STREAM, 0);
            held[n_held++] = mine;
            if (connect(mine, (struct sockaddr *)&at, sizeof at) == 0)
                s->n_calls += send(mine, "x", 1, MSG_NOSIGNAL) == 1;
        }
    while (n_held > 0)
        close(held[--n_held]);
    return NULL;
}

typedef struct meeting {
    stranger *around;
    _Atomic bool whole[RANKS];
} meeting;

static drv_status meet(comm *self, void *ctx) {
    meeting *m = ctx;
    int fd[2];
    DRV_TRY(ring_connect(self, fd));
    m->whole[comm_rank(self)] = fd[0] >= 0 && fd[1] >= 0;
    // What one end is told, the other one hears.
    char sent = (char)comm_rank(self), heard = -1;
    struct pollfd p = {fd[0], POLLIN, 0};
    if (!m->whole[comm_rank(self)]) return DRV_OK;
    if (send(fd[1], &sent, 1, MSG_NOSIGNAL) != 1 || poll(&p, 1, 1000 * LONGEST_S) != 1 ||
            recv(fd[0], &heard, 1, 0) != 1 || heard != (comm_rank(self) + RANKS - 1) % RANKS)
        m->whole[comm_rank(self)] = false;
    DRV_TRY(comm_barrier(comm_all_ranks(self)));
    close(fd[0]), close(fd[1]);
    return DRV_OK;
}

static drv_status meet_late(comm *self, void *ctx) {
    const meeting *m = ctx;
    // Where ranks listen before all are there, the strangers come first.
    const double end = clock_s() + 1;
    while (comm_rank(self) == RANKS - 1 && m->around->n_calls < RANKS - 1 && clock_s() < end)
        usleep(1000);
    return meet(self, ctx);
}

TEST(strangers_hold_up_nobody) {
    for (int round = 0; round < 20; round++) {
        stranger s = {0};
        meeting m = {.around = &s};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, call_all, &s), 0);
        const double began = clock_s();
        OK(comm_run_threads(RANKS, 1, NULL, round == 0 ? meet_late : meet, &m));
        const double took = clock_s() - began;
        s.ends = true;
        pthread_join(thread, NULL);
        for (int r = 0; r < RANKS; r++)
            if (!m.whole[r]) fail_msg("round %d: rank %d is not connected", round, r);
        assert_int_equal(s.n_open_to_all, 0);
        assert_int_equal(count_listeners(), 0);
        if (took > LONGEST_S) fail_msg("round %d: it took %.1f s", round, took);
    }
}

int main(void) {
    alarm(2 * LONGEST_S);
    return tests_run();
}
