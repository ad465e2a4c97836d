// Callers, newcomers and nodes at node 0.
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
#include "launch/meeting.h"

enum { N_HELLO = 6 };
#define SILENT_S 8.0  // four heartbeats
#define FRESH_S  10.0 // heartbeats of a waiting node are more frequent

// --- addresses
bool launch_is_local(const char *master) {
    return strcmp(master, "localhost") == 0 || str_starts(master, "127.");
}

uint32_t launch_resolve(const char *master) {
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    struct sockaddr_in in;
    host_addresses here;
    if (getaddrinfo(master, NULL, &hints, &list) != 0) return 0;
    memcpy(&in, list->ai_addr, sizeof in);
    freeaddrinfo(list);
    const bool is_loopback = ntohl(in.sin_addr.s_addr) >> 24 == 127;
    if (is_loopback && !launch_is_local(master) && host_addresses_find(&here) == DRV_OK &&
            here.n > 0)
        return here.address[0];
    return in.sin_addr.s_addr;
}

// --- listening
static int bind_here(uint32_t address, int port) {
    const struct sockaddr_in own = {.sin_family = AF_INET,
            .sin_port = htons((uint16_t)port),
            .sin_addr.s_addr = address};
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); // of a job that has just ended
    if (bind(fd, (const struct sockaddr *)&own, sizeof own) == 0 && listen(fd, 1024) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

// Finds the address at which the other nodes look for node 0: that of the master's name, if it
// belongs to this host. A pod may be unable to look up its own name, and a name may lead to a
// proxy; then the first address that other hosts may reach is used.
static drv_status find_address(const meeting *self, uint32_t *out) {
    host_addresses here;
    const char *only = getenv("DROVER_INTERFACE");
    const uint32_t named = launch_resolve(self->job->placement.master.value);
    DRV_TRY(host_addresses_find(&here));
    *out = here.n > 0 ? here.address[0] : htonl(INADDR_LOOPBACK);
    if ((only && *only) || !named) return DRV_OK;
    const int fd = bind_here(named, 0); // tests whether it is this host's
    if (fd < 0) return DRV_OK;
    close(fd);
    *out = named;
    return DRV_OK;
}

drv_status meeting_listen(meeting *self) {
    const launch_job *job = self->job;
    uint32_t address;
    DRV_TRY(find_address(self, &address));
    inet_ntop(AF_INET, &address, self->address, sizeof self->address);
    self->listener = bind_here(address, job->port);
    if (self->listener < 0)
        return drv_fail(errno == EADDRINUSE ? DRV_E_BUSY : DRV_E_IO,
                "could not listen at %s:%d: %s", self->address, job->port, strerror(errno));
    struct sockaddr_in bound = {0};
    getsockname(self->listener, (struct sockaddr *)&bound, &(socklen_t){sizeof bound});
    self->port = ntohs(bound.sin_port);
    if (!job->has_secret)
        DRV_TRY(launch_leave_secret(self->a, self->address, self->port, &self->secret,
                &self->secret_folder, &self->secret_fd));
    self->callers = reception_open(self->listener, &self->secret, LAUNCH_PURPOSE);
    return DRV_OK;
}

void meeting_stop_listening(meeting *self) {
    reception_close(self->callers);
    self->callers = NULL;
    while (self->n_newcomers > 0)
        control_close(&self->newcomers[--self->n_newcomers]);
    if (self->secret_folder &&
            dir_remove(self->secret_folder) != DRV_OK) // before another job listens there
        log_warn("%s", drv_message());
    if (self->listener >= 0) close(self->listener);
    self->listener = -1;
    if (self->secret_fd >= 0) close(self->secret_fd);
    self->secret_fd = -1;
    self->secret_folder = NULL;
}

void meeting_close(meeting *self) {
    meeting_stop_listening(self);
    for (int i = 1; i < self->job->n_nodes; i++)
        control_close(&self->members[i].line);
}

void meeting_init(meeting *self, arena *a, const launch_job *job, const meeting_calls *calls,
        void *ctx) {
    *self = (meeting){.a = a,
            .job = job,
            .secret = job->secret,
            .secret_fd = -1,
            .address = "127.0.0.1",
            .listener = -1,
            .members = ARENA_ARRAY(a, met_node, job->n_nodes),
            .n_here = 1,
            .calls = calls,
            .ctx = ctx};
    for (int i = 0; i < job->n_nodes; i++)
        self->members[i] = (met_node){.line = {.fd = -1, .closed = true}, .place = -1, .share = 1};
}

int meeting_fds(const meeting *self, struct pollfd *fds) {
    int n = self->callers ? reception_fds(self->callers, fds) : 0;
    for (int i = 0; i < self->n_newcomers; i++)
        fds[n++] = (struct pollfd){self->newcomers[i].fd, POLLIN, 0};
    for (int i = 1; i < self->job->n_nodes; i++) {
        const control *line = &self->members[i].line;
        if (!line->closed)
            fds[n++] =
                    (struct pollfd){line->fd, (short)(POLLIN | (line->out.n > 0 ? POLLOUT : 0)), 0};
    }
    return n;
}

bool meeting_is_usable(const meeting *self, int node) {
    const met_node *who = &self->members[node];
    if (node == 0) return true;
    return who->here && who->ready && !who->excluded && clock_s() - who->line.heard_s < FRESH_S;
}

// --- new nodes
static void refuse(meeting *self, control *line, int status, const char *why) {
    const char *fields[] = {arena_printf(self->a, "%d", status), why};
    log_warn("refused: %s", why);
    control_send(line, CONTROL_REFUSED, fields, 2);
    control_flush(line, 1);
}

// A node whose process was restarted, or lost its connection, may come before node 0 notices that
// the old connection is lost.
static bool may_replace(const meeting *self, int node, const char *process) {
    const met_node *old = &self->members[node];
    if (self->job->rules.max_restarts == 0) return false;
    return strcmp(old->process, process) == 0 || clock_s() - old->line.heard_s > SILENT_S;
}

static const char *what_differs(meeting *self, const control_message *said, int node) {
    const launch_job *job = self->job;
    if (said->n_fields != N_HELLO) return "its first message has another form";
    if (strcmp(said->field[0], drover_version()) != 0)
        return arena_printf(self->a, "node %d has drover %s, node 0 has %s; expected the same",
                node, said->field[0], drover_version());
    if (control_number(said->field[2]) != job->n_nodes ||
            control_number(said->field[3]) != job->ranks)
        return arena_printf(self->a,
                "node %d expects %s nodes x %s ranks, node 0 %d x %d; expected the same", node,
                said->field[2], said->field[3], job->n_nodes, job->ranks);
    if (node < 1 || node >= job->n_nodes)
        return arena_printf(self->a, "a node has the number %d, expected 1 to %d", node,
                job->n_nodes - 1);
    if (self->members[node].here && !may_replace(self, node, said->field[5]))
        return arena_printf(self->a, "two processes are node %d: on %s and on %s", node,
                self->members[node].host, said->field[4]);
    return NULL;
}

static void name_member(meeting *self, int node, int fd) {
    struct sockaddr_in in = {0};
    socklen_t n = sizeof in;
    met_node *new = &self->members[node];
    getpeername(fd, (struct sockaddr *)&in, &n);
    inet_ntop(AF_INET, &in.sin_addr, new->label, sizeof new->label);
    bool alone = ntohl(in.sin_addr.s_addr) >> 24 != 127;
    for (int i = 1; i < self->job->n_nodes; i++)
        alone &= i == node || strcmp(self->members[i].label, new->label) != 0;
    // Nodes on one machine get addresses of their own: mpirun only passes them to the agent.
    if (!alone || in.sin_addr.s_addr == inet_addr(self->address))
        snprintf(new->label, sizeof new->label, "127.1.%d.%d", node / 250, 1 + node % 250);
}

static void is_lost(meeting *self, int node);

// Returns whether the newcomer's connection was taken over or closed.
static bool meet(meeting *self, control *line) {
    control_message said;
    control_pump(line);
    if (!control_take(line, &said)) return line->closed;
    const int node = said.kind == CONTROL_HELLO && said.n_fields == N_HELLO
                             ? control_number(said.field[1])
                             : 0;
    const char *why = said.kind == CONTROL_HELLO ? what_differs(self, &said, node)
                                                 : "its first message is not a hello";
    if (why) {
        // A node that can come back, once the loss of the old one is noticed, must not give up.
        const bool later = self->has_begun && node > 0 && node < self->job->n_nodes;
        refuse(self, line, later ? EXIT_TRY_AGAIN : EXIT_USAGE, why);
        return true;
    }
    met_node *new = &self->members[node];
    if (new->here) is_lost(self, node);
    const char *fields[] = {self->address, self->job->rules.max_restarts > 0 ? "1" : "0"};
    if (strcmp(new->process, said.field[5]) != 0) {
        new->measured = false;
        new->share = 1;
    }
    snprintf(new->host, sizeof new->host, "%s", said.field[4]);
    snprintf(new->process, sizeof new->process, "%s", said.field[5]);
    control_close(&new->line);
    new->line = *line;
    *line = (control){.fd = -1, .closed = true};
    new->here = new->ready = true;
    new->came_s = clock_s();
    self->n_here++;
    name_member(self, node, new->line.fd);
    control_send(&new->line, CONTROL_WELCOME, fields, 2);
    if (self->has_begun)
        log_info("node %d (%s) is connected%s", node, new->host,
                new->excluded ? ", but is excluded" : "; it waits for the next attempt");
    return true;
}

static void take_newcomers(meeting *self) {
    handshake proven;
    job_secret session;
    const int on = 1;
    for (int fd; self->callers && self->n_newcomers < MAX_CALLERS &&
                 (fd = reception_serve(self->callers, &proven)) >= 0;) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (handshake_session(&proven, &session) == DRV_OK)
            control_open(&self->newcomers[self->n_newcomers++], fd, false, &session);
        else
            close(fd);
    }
    for (int i = 0; i < self->n_newcomers;) {
        if (!meet(self, &self->newcomers[i])) {
            i++;
            continue;
        }
        control_close(&self->newcomers[i]);
        self->newcomers[i] = self->newcomers[--self->n_newcomers];
    }
}

// --- connected nodes
static void is_lost(meeting *self, int node) {
    met_node *who = &self->members[node];
    const char *why = arena_printf(self->a, "node %d (%s) is gone", node, who->host);
    log_warn("%s%s", why, self->has_begun ? "" : "; waiting for it to reconnect");
    control_close(&who->line);
    who->here = who->ready = false;
    self->n_here--;
    self->calls->lost(self->ctx, node, why);
    who->place = -1;
}

// Returns false if a node never sends such a message, or must not send it now.
static bool take_word(meeting *self, int node, const control_message *said) {
    met_node *of = &self->members[node];
    outcome result;
    switch (said->kind) {
    case CONTROL_LEAVE:
        self->calls->leaves(self->ctx, node);
        return true;
    case CONTROL_READY:
        if (of->ready) return false;
        of->ready = true;
        return true;
    case CONTROL_RESULT: // it may cross with CONTROL_OVER
        if (!of->told || of->ready || said->n_fields != 2 ||
                !outcome_parse(said->field[0], &result))
            return false;
        self->calls->result(self->ctx, node, result, strcmp(said->field[1], "1") == 0);
        return true;
    default:
        return false;
    }
}

static void serve_node(meeting *self, int node) {
    met_node *of = &self->members[node];
    control_message said;
    control_pump(&of->line);
    while (control_take(&of->line, &said)) {
        if (take_word(self, node, &said)) continue;
        log_warn("node %d (%s) sent an unexpected message", node, of->host);
        control_close(&of->line);
    }
    if (of->line.closed) is_lost(self, node);
}

void meeting_serve(meeting *self) {
    take_newcomers(self);
    for (int i = 1; i < self->job->n_nodes; i++)
        if (self->members[i].here) serve_node(self, i);
}
