// Connecting the failure ring: every rank listens, says where by the transport, connects to the
// next and is connected to by the one before. A number drawn by rank 0 keeps strangers out.
#include "comm/ring_connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { MAX_ADDRESSES = 8, CONNECT_MS = 3000, ACCEPT_MS = 20000 };

typedef struct endpoint { // where a rank listens
    uint64_t token;       // of rank 0: that of all
    uint32_t address[MAX_ADDRESSES];
    int32_t n_addresses;
    uint16_t port; // both in network order
} endpoint;

typedef struct hello {
    uint64_t token;
    int32_t rank;
    int32_t zero; // no byte is undefined
} hello;

// Addresses of this host that another one may reach.
static void find_addresses(endpoint *e) {
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0) return;
    for (const struct ifaddrs *i = list; i && e->n_addresses < MAX_ADDRESSES; i = i->ifa_next) {
        struct sockaddr_in in;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
        if (i->ifa_flags & IFF_LOOPBACK || !(i->ifa_flags & IFF_UP)) continue;
        memcpy(&in, i->ifa_addr, sizeof in);
        e->address[e->n_addresses++] = in.sin_addr.s_addr;
    }
    freeifaddrs(list);
}

static int listen_somewhere(endpoint *e) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t n = sizeof in;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (bind(fd, (struct sockaddr *)&in, n) != 0 || listen(fd, 4) != 0 ||
            getsockname(fd, (struct sockaddr *)&in, &n) != 0) {
        close(fd);
        return -1;
    }
    e->port = in.sin_port;
    find_addresses(e);
    if (getrandom(&e->token, sizeof e->token, 0) != sizeof e->token) e->token = 0;
    return fd;
}

static int connect_to(uint32_t address, uint16_t port) {
    const struct sockaddr_in in = {.sin_family = AF_INET,
            .sin_port = port,
            .sin_addr.s_addr = address};
    int error = 0;
    socklen_t n = sizeof error;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const int begun = connect(fd, (const struct sockaddr *)&in, sizeof in);
    struct pollfd p = {fd, POLLOUT, 0};
    if (begun == 0 || (errno == EINPROGRESS && poll(&p, 1, CONNECT_MS) == 1 &&
                              getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error == 0))
        return fd;
    close(fd);
    return -1;
}

static int connect_next(const comm *c, const endpoint *all) {
    const int next = (c->rank + 1) % c->size;
    const endpoint *e = &all[next];
    const bool here = strcmp(c->info[next].host, c->info[c->rank].host) == 0;
    int fd = here ? connect_to(htonl(INADDR_LOOPBACK), e->port) : -1;
    for (int i = 0; fd < 0 && i < e->n_addresses; i++)
        fd = connect_to(e->address[i], e->port);
    const hello h = {.token = all[0].token, .rank = c->rank};
    if (fd >= 0 && send(fd, &h, sizeof h, MSG_NOSIGNAL) == sizeof h) return fd;
    if (fd >= 0) close(fd);
    log_warn("rank %d (%s) cannot be reached by TCP", next, c->info[next].host);
    return -1;
}

static bool is_welcome(int fd, const comm *c, uint64_t token) {
    hello h;
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, CONNECT_MS) == 1 && recv(fd, &h, sizeof h, MSG_WAITALL) == sizeof h &&
           h.token == token && h.rank == (c->rank + c->size - 1) % c->size;
}

static int accept_previous(const comm *c, int listener, uint64_t token) {
    struct pollfd p = {listener, POLLIN, 0};
    const double end = clock_s() + ACCEPT_MS / 1000.0;
    while (clock_s() < end && poll(&p, 1, ACCEPT_MS) == 1) {
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && is_welcome(fd, c, token)) return fd;
        if (fd >= 0) close(fd);
    }
    return -1;
}

static void set_up(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

drv_status ring_connect(comm *self, int fd[2]) {
    endpoint mine = {0}, *all = mem_zeroed(sizeof *all * (size_t)self->size);
    const int listener = listen_somewhere(&mine);
    drv_status status = comm_all_gather(self->world, &mine, sizeof mine, NULL, all);
    fd[0] = fd[1] = -1;
    if (status == DRV_OK && listener >= 0) {
        fd[1] = connect_next(self, all);
        fd[0] = accept_previous(self, listener, all[0].token);
    }
    int32_t broken = fd[0] < 0 || fd[1] < 0;
    if (status == DRV_OK) status = comm_all_reduce(self->world, DT_I32, COMM_MAX, &broken, 1, NULL);
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0 && broken) close(fd[i]);
    if (broken) fd[0] = fd[1] = -1;
    if (broken && self->rank == 0)
        log_warn("ranks cannot watch each other: one that dies is seen by the launcher alone");
    for (int i = 0; i < 2 && !broken; i++)
        set_up(fd[i]);
    if (listener >= 0) close(listener);
    free(all);
    return status;
}
