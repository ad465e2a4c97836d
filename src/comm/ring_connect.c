// Connects the failure ring: every rank listens for the previous one, announces its address over
// the transport, and connects to the next. A secret drawn by rank 0 keeps strangers out
// (handshake.h).
#include "comm/ring_connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/handshake.h"
#include "comm/host_address.h"

// A busy machine may take long to schedule a rank. A refused or dropped connection is retried.
#define MEET_S  60.0
#define PAUSE_S 0.05

typedef struct introduction { // a rank's addresses
    job_secret secret;        // of rank 0: that of all
    host_addresses here;
} introduction;

typedef struct endpoint { // where a rank listens, in network order; 0: nowhere
    uint32_t address;
    uint32_t port;
} endpoint;

typedef struct meeting {
    const job_secret *secret;
    endpoint next;
    char to_next[PURPOSE_BYTES];
    int listener;
    reception *callers;
    handshake call; // to the next
    bool connected; // the call's socket is
    double again_s; // clock: no call before
    int fd[2];      // proven, as ring_connect gives them
} meeting;

static int listen_at(endpoint *e) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = e->address};
    socklen_t n = sizeof in;
    if (!e->address) return -1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (bind(fd, (struct sockaddr *)&in, n) != 0 || listen(fd, MAX_CALLERS) != 0 ||
            getsockname(fd, (struct sockaddr *)&in, &n) != 0) {
        close(fd);
        return -1;
    }
    e->port = in.sin_port;
    return fd;
}

// --- the rank before
static void stop_listening(meeting *m) {
    reception_close(m->callers);
    m->callers = NULL;
    if (m->listener >= 0) close(m->listener);
    m->listener = -1;
}

static void serve(meeting *m) {
    if (!m->callers || (m->fd[0] = reception_serve(m->callers, NULL)) < 0) return;
    stop_listening(m); // the previous rank has connected
}

// --- the rank after
static void drop_connection(meeting *m) {
    if (m->call.fd >= 0) close(m->call.fd);
    m->call.fd = -1;
    m->again_s = clock_s() + PAUSE_S;
}

static void call_next(meeting *m) {
    const struct sockaddr_in in = {.sin_family = AF_INET,
            .sin_port = (in_port_t)m->next.port,
            .sin_addr.s_addr = m->next.address};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    handshake_begin(&m->call, fd, true, m->secret, m->to_next, MEET_S);
    m->connected = fd >= 0 && connect(fd, (const struct sockaddr *)&in, sizeof in) == 0;
    if (!m->connected && (fd < 0 || errno != EINPROGRESS)) drop_connection(m);
}

static bool is_connected(meeting *m) {
    struct pollfd p = {m->call.fd, POLLOUT, 0};
    int error = 0;
    socklen_t n = sizeof error;
    if (m->connected) return true;
    if (poll(&p, 1, 0) != 1) return false;
    m->connected = getsockopt(m->call.fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error == 0;
    if (!m->connected) drop_connection(m);
    return m->connected;
}

static void go_on_calling(meeting *m) {
    if (m->fd[1] >= 0 || m->next.port == 0) return;
    if (m->call.fd < 0 && clock_s() >= m->again_s) call_next(m);
    if (m->call.fd < 0 || !is_connected(m)) return;
    const handshake_state state = handshake_go_on(&m->call);
    if (state == HANDSHAKE_REFUSED) drop_connection(m);
    if (state != HANDSHAKE_PROVEN) return;
    m->fd[1] = m->call.fd;
    m->call.fd = -1;
}

// --- both at once, since the others do so too
static void wait_a_moment(const meeting *m) {
    struct pollfd fds[MAX_CALLERS + 2];
    int n = m->callers ? reception_fds(m->callers, fds) : 0;
    if (m->call.fd >= 0) fds[n++] = (struct pollfd){m->call.fd, m->connected ? POLLIN : POLLOUT, 0};
    poll(fds, (nfds_t)n, (int)(1000 * PAUSE_S));
}

static void meet(meeting *m) {
    const double end = clock_s() + MEET_S;
    while ((m->fd[0] < 0 || m->fd[1] < 0) && clock_s() < end) {
        wait_a_moment(m);
        serve(m);
        go_on_calling(m);
    }
    if (m->call.fd >= 0) close(m->call.fd);
    stop_listening(m);
}

static void name_link(char purpose[PURPOSE_BYTES], int from, int to) {
    snprintf(purpose, PURPOSE_BYTES, "drover ring %d to %d", from, to);
}

// Tells all ranks the address by which the rank before reaches this one, as the transport gives it.
static drv_status exchange_endpoints(comm *self, meeting *made, introduction *all, bool *open) {
    introduction mine = {0};
    drv_status status = host_addresses_find(&mine.here);
    if (status == DRV_OK && self->rank == 0) status = secret_make(&mine.secret);
    DRV_TRY(comm_agree_on_first(self, status));
    DRV_TRY(comm_all_gather(self->all_ranks, &mine, sizeof mine, NULL, all));
    made->secret = &all[0].secret;
    const int before = (self->rank + self->size - 1) % self->size;
    endpoint here = {.address = host_address_towards(&mine.here, &all[before].here)};
    endpoint *endpoints = mem_zeroed(sizeof *endpoints * (size_t)self->size);
    char purpose[PURPOSE_BYTES];
    made->listener = listen_at(&here);
    name_link(purpose, before, self->rank);
    if (made->listener >= 0) made->callers = reception_open(made->listener, made->secret, purpose);
    status = comm_all_gather(self->all_ranks, &here, sizeof here, NULL, endpoints);
    made->next = endpoints[(self->rank + 1) % self->size];
    *open = true;
    for (int i = 0; i < self->size; i++)
        *open &= endpoints[i].port != 0;
    name_link(made->to_next, self->rank, (self->rank + 1) % self->size);
    free(endpoints);
    if (status != DRV_OK) stop_listening(made);
    return status;
}

static void set_up(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

drv_status ring_connect(comm *self, int fd[2]) {
    introduction *all = mem_zeroed(sizeof *all * (size_t)self->size);
    meeting met = {.listener = -1, .call.fd = -1, .fd = {-1, -1}};
    bool open = false;
    fd[0] = fd[1] = -1;
    drv_status status = exchange_endpoints(self, &met, all, &open);
    if (status == DRV_OK && open) meet(&met);
    stop_listening(&met);
    const int next = (self->rank + 1) % self->size;
    if (status == DRV_OK && met.fd[1] < 0)
        log_warn("rank %d (%s) cannot be reached by TCP", next, self->info[next].host);
    int32_t broken = met.fd[0] < 0 || met.fd[1] < 0;
    if (status == DRV_OK)
        status = comm_all_reduce(self->all_ranks, DT_I32, COMM_MAX, &broken, 1, NULL);
    broken |= status != DRV_OK;
    for (int i = 0; i < 2; i++) {
        if (met.fd[i] >= 0 && broken) close(met.fd[i]);
        if (!broken) set_up(fd[i] = met.fd[i]);
    }
    if (broken && self->rank == 0)
        log_warn("ranks cannot watch each other: only the launcher notices the death of a rank");
    free(all);
    return status;
}
