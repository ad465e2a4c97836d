// Serves those who are connected to node 0: callers and nodes.
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "comm/host_address.h"
#include "launch/head.h"

enum { N_HELLO = 6 };
#define SILENT_S 8.0 // four beats

// --- listening
// The address that the other nodes know: that of the master's name, if it is one of this host. A
// pod may not be able to look up its own name, and a name may lead to a proxy: then the first
// address that other hosts may reach.
static int bind_here(uint32_t address, int port) {
    const struct sockaddr_in own = {.sin_family = AF_INET,
            .sin_port = htons((uint16_t)port),
            .sin_addr.s_addr = address};
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); // a job that ended just now
    if (bind(fd, (const struct sockaddr *)&own, sizeof own) == 0 && listen(fd, 1024) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static drv_status find_address(const head *h, uint32_t *out) {
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    host_addresses here;
    const char *only = getenv("DROVER_INTERFACE"), *name = h->job->world.master.value;
    DRV_TRY(host_addresses_find(&here));
    *out = here.n > 0 ? here.address[0] : htonl(INADDR_LOOPBACK);
    if ((only && *only) || getaddrinfo(name, NULL, &hints, &list) != 0) return DRV_OK;
    struct sockaddr_in in;
    memcpy(&in, list->ai_addr, sizeof in);
    freeaddrinfo(list);
    const int fd = bind_here(in.sin_addr.s_addr, 0); // whether it is this host's
    if (fd < 0) return DRV_OK;
    close(fd);
    *out = in.sin_addr.s_addr;
    return DRV_OK;
}

drv_status head_listen(head *h) {
    const launch_job *job = h->job;
    uint32_t address;
    DRV_TRY(find_address(h, &address));
    inet_ntop(AF_INET, &address, h->address, sizeof h->address);
    h->listener = bind_here(address, job->port);
    if (h->listener < 0)
        return drv_fail(errno == EADDRINUSE ? DRV_E_BUSY : DRV_E_IO,
                "could not listen at %s:%d: %s", h->address, job->port, strerror(errno));
    struct sockaddr_in bound = {0};
    getsockname(h->listener, (struct sockaddr *)&bound, &(socklen_t){sizeof bound});
    h->port = ntohs(bound.sin_port);
    if (!job->has_secret)
        DRV_TRY(launch_leave_secret(h->a, h->address, h->port, &h->secret, &h->secret_folder,
                &h->secret_fd));
    h->callers = reception_open(h->listener, &h->secret, LAUNCH_PURPOSE);
    return DRV_OK;
}

void head_stop_listening(head *h) {
    reception_close(h->callers);
    h->callers = NULL;
    while (h->n_newcomers > 0)
        control_close(&h->newcomers[--h->n_newcomers]);
    if (h->secret_folder &&
            dir_remove(h->secret_folder) != DRV_OK) // before another job listens there
        log_warn("%s", drv_message());
    if (h->listener >= 0) close(h->listener);
    h->listener = -1;
    if (h->secret_fd >= 0) close(h->secret_fd);
    h->secret_fd = -1;
    h->secret_folder = NULL;
}

void head_close(head *h) {
    head_stop_listening(h);
    for (int i = 1; i < h->job->n_nodes; i++)
        control_close(&h->members[i].line);
    head_close_agents(h);
}

static void watch(struct pollfd *fds, int *n, int fd, bool sends) {
    if (fd >= 0) fds[(*n)++] = (struct pollfd){fd, (short)(POLLIN | (sends ? POLLOUT : 0)), 0};
}

void head_poll(head *h, int ms) {
    const int most = 2 * h->job->n_nodes + 2 * MAX_CALLERS + 4;
    struct pollfd *fds = mem_alloc(sizeof *fds * (size_t)most);
    int n = h->callers ? reception_fds(h->callers, fds) : 0;
    watch(fds, &n, h->local.signal_fd, false);
    watch(fds, &n, h->agent_listener, false);
    for (int i = 0; i < h->n_newcomers; i++)
        watch(fds, &n, h->newcomers[i].fd, false);
    for (int i = 1; i < h->job->n_nodes; i++)
        watch(fds, &n, h->members[i].line.closed ? -1 : h->members[i].line.fd,
                h->members[i].line.out.n > 0);
    for (int i = 0; i < h->n_agents; i++)
        watch(fds, &n, h->agents[i].line.closed ? -1 : h->agents[i].line.fd, false);
    poll(fds, (nfds_t)n, ms);
    free(fds);
}

// --- nodes that come
static void refuse(head *h, control *line, int status, const char *why) {
    const char *fields[] = {arena_printf(h->a, "%d", status), why};
    log_warn("refused: %s", why);
    control_send(line, CONTROL_REFUSED, fields, 2);
    control_flush(line, 1);
}

// A node whose process has been started again, or has lost its connection, may come before the loss
// of the old one is known.
static bool may_replace(const head *h, int node, const char *process) {
    const head_member *old = &h->members[node];
    if (h->job->rules.max_restarts == 0) return false;
    return strcmp(old->process, process) == 0 || clock_s() - old->line.heard_s > SILENT_S;
}

static const char *what_differs(head *h, const control_message *m, int node) {
    const launch_job *job = h->job;
    if (m->n_fields != N_HELLO) return "it says hello in another way";
    if (strcmp(m->field[0], drover_version()) != 0)
        return arena_printf(h->a, "node %d has drover %s, node 0 has %s; expected the same", node,
                m->field[0], drover_version());
    if (control_number(m->field[2]) != job->n_nodes || control_number(m->field[3]) != job->ranks)
        return arena_printf(h->a,
                "node %d knows of %s nodes x %s ranks, node 0 of %d x %d; expected the same", node,
                m->field[2], m->field[3], job->n_nodes, job->ranks);
    if (node < 1 || node >= job->n_nodes)
        return arena_printf(h->a, "a node calls itself node %d, expected 1 to %d", node,
                job->n_nodes - 1);
    if (h->members[node].here && !may_replace(h, node, m->field[5]))
        return arena_printf(h->a, "node %d came twice: from %s, and from %s", node,
                h->members[node].host, m->field[4]);
    return NULL;
}

static void name_member(head *h, int node, int fd) {
    struct sockaddr_in in = {0};
    socklen_t n = sizeof in;
    head_member *new = &h->members[node];
    getpeername(fd, (struct sockaddr *)&in, &n);
    inet_ntop(AF_INET, &in.sin_addr, new->label, sizeof new->label);
    bool alone = ntohl(in.sin_addr.s_addr) >> 24 != 127;
    for (int i = 1; i < h->job->n_nodes; i++)
        alone &= i == node || strcmp(h->members[i].label, new->label) != 0;
    // Nodes of one machine: mpirun only hands the name to the agent.
    if (!alone || in.sin_addr.s_addr == inet_addr(h->address))
        snprintf(new->label, sizeof new->label, "127.1.%d.%d", node / 250, 1 + node % 250);
}

static void is_lost(head *h, int node);

// True: the newcomer's line was taken over or is done with.
static bool meet(head *h, control *line) {
    control_message m;
    control_pump(line);
    if (!control_take(line, &m)) return line->closed;
    const int node =
            m.kind == CONTROL_HELLO && m.n_fields == N_HELLO ? control_number(m.field[1]) : 0;
    const char *why = m.kind == CONTROL_HELLO ? what_differs(h, &m, node) : "it does not say hello";
    if (why) {
        // One that is to come again, once the old one is known to be gone, is not to give up.
        const bool later = h->world.number > 0 && node > 0 && node < h->job->n_nodes;
        refuse(h, line, later ? EXIT_TRY_AGAIN : EXIT_USAGE, why);
        return true;
    }
    head_member *new = &h->members[node];
    if (new->here) is_lost(h, node);
    const char *fields[] = {h->address, h->job->rules.max_restarts > 0 ? "1" : "0"};
    if (strcmp(new->process, m.field[5]) != 0) {
        new->measured = false;
        new->share = 1;
    }
    snprintf(new->host, sizeof new->host, "%s", m.field[4]);
    snprintf(new->process, sizeof new->process, "%s", m.field[5]);
    control_close(&new->line);
    new->line = *line;
    *line = (control){.fd = -1, .closed = true};
    new->here = new->ready = true;
    new->came_s = clock_s();
    h->n_here++;
    name_member(h, node, new->line.fd);
    control_send(&new->line, CONTROL_WELCOME, fields, 2);
    if (h->world.number > 0)
        log_info("node %d (%s) has come%s", node, new->host,
                new->excluded ? ", but is excluded" : "; it waits for the next world");
    return true;
}

static void take_newcomers(head *h) {
    handshake proven;
    job_secret session;
    const int on = 1;
    for (int fd; h->callers && h->n_newcomers < MAX_CALLERS &&
                 (fd = reception_serve(h->callers, &proven)) >= 0;) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (handshake_session(&proven, &session) == DRV_OK)
            control_open(&h->newcomers[h->n_newcomers++], fd, false, &session);
        else
            close(fd);
    }
    for (int i = 0; i < h->n_newcomers;) {
        if (!meet(h, &h->newcomers[i])) {
            i++;
            continue;
        }
        control_close(&h->newcomers[i]);
        h->newcomers[i] = h->newcomers[--h->n_newcomers];
    }
}

// --- nodes that are there
static void is_lost(head *h, int node) {
    head_member *m = &h->members[node];
    const char *why = arena_printf(h->a, "node %d (%s) is gone", node, m->host);
    log_warn("%s%s", why, h->world.number > 0 ? "" : "; waiting for it to come again");
    control_close(&m->line);
    m->here = m->ready = false;
    h->n_here--;
    if (h->world.runs) world_node_lost(h, node, why);
    m->place = -1;
}

// A signal has asked this node to stop: its ranks have it too.
static void is_leaving(head *h, int node) {
    head_member *m = &h->members[node];
    const char *fields[] = {arena_printf(h->a, "%d", EXIT_STOPPED), ""};
    if (h->world.runs && m->place >= 0)
        h->world.asked = true;
    else if (h->world.runs) {
        log_info("node %d (%s), which waited, is stopped", node, m->host);
        control_send(&m->line, CONTROL_END, fields, 2);
        control_flush(&m->line, 1);
    } else
        head_end(h, EXIT_STOPPED,
                arena_printf(h->a,
                        "node %d was stopped while no rank ran; the same command starts it again",
                        node));
}

// False: no node says that, or not now.
static bool take_word(head *h, int node, const control_message *m) {
    head_member *of = &h->members[node];
    outcome result;
    switch (m->kind) {
    case CONTROL_LEAVE:
        is_leaving(h, node);
        return true;
    case CONTROL_READY:
        if (of->ready) return false;
        of->ready = true;
        return true;
    case CONTROL_RESULT: // it may cross with the word that the world is over
        if (!of->told || of->ready || m->n_fields != 2 || !outcome_parse(m->field[0], &result))
            return false;
        if (h->world.runs) world_node_over(h, node, result, strcmp(m->field[1], "1") == 0);
        return true;
    default:
        return false;
    }
}

static void serve_node(head *h, int node) {
    head_member *of = &h->members[node];
    control_message m;
    control_pump(&of->line);
    while (control_take(&of->line, &m)) {
        if (take_word(h, node, &m)) continue;
        log_warn("node %d (%s) speaks out of turn", node, of->host);
        control_close(&of->line);
    }
    if (of->line.closed) is_lost(h, node);
}

void head_serve_nodes(head *h) {
    take_newcomers(h);
    for (int i = 1; i < h->job->n_nodes; i++)
        if (h->members[i].here) serve_node(h, i);
}
