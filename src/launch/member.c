// A node other than node 0: finds node 0, proves that it knows the secret, and runs the daemons it
// is told to, one for each attempt that it takes part in.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/str.h"
#include "base/version.h"
#include "launch/control.h"
#include "launch/daemon_command.h"
#include "launch/launch.h"
#include "launch/local_job.h"

#define RETRY_S        0.25
#define LOG_INTERVAL_S 10.0 // between log lines while it waits
#define HANDSHAKE_S    20.0 // for a connection and its handshake
#define VERDICT_S      60.0 // for node 0 to send the job's end, after this node's ranks have ended
#define RETURN_S       30.0 // to connect to node 0 again
#define LOOK_MS        50
enum { MAX_REFUSALS = 5, MAX_CLOSED = 4 };

typedef struct member {
    arena *a;
    const launch_job *job;
    local_job local;
    control line; // to node 0
    char address[INET_ADDRSTRLEN];
    job_secret found; // of a job of one machine: the last one found there
    bool has_found;
    char process[24];   // distinguishes this process from another one that claims the same node
    bool returns;       // node 0 goes on after an attempt, and accepts nodes that come back
    bool welcome, told; // told: has reported how the ranks of this node ended
    bool clears;        // is ending what is left of an attempt
    int place;          // in the attempt
    double end_sent_s;
    int verdict; // exit status; -1: not yet
    const char *why;
} member;

static void end(member *self, int status, const char *why) {
    if (self->verdict >= 0) return;
    self->verdict = status;
    self->why = arena_strdup(self->a, why);
}

// --- finding node 0
// CLOSED: the host exists, and no process listens there.
typedef enum try_result { CONNECTED, NOT_KNOWN, NOBODY, CLOSED, NOT_ACCEPTED } try_result;

// Waits until the socket is ready, a signal asks to stop, or the time is up.
static bool wait_for(member *self, int fd, short events, double end_s) {
    while (clock_s() < end_s && self->verdict < 0) {
        struct pollfd p[2] = {{fd, events, 0}, {self->local.signal_fd, POLLIN, 0}};
        if (poll(p, 2, LOOK_MS) < 0 && errno != EINTR) return false;
        const int number = local_job_signal(&self->local);
        if (number && number != SIGUSR2)
            end(self, EXIT_STOPPED,
                    "stopped before the nodes had met; the same command starts it again");
        if (p[0].revents) return true;
    }
    return false;
}

static try_result shake_hands(member *self, int fd, const job_secret *secret) {
    handshake h;
    job_secret session;
    const double end_s = clock_s() + HANDSHAKE_S;
    handshake_begin(&h, fd, true, secret, LAUNCH_PURPOSE, HANDSHAKE_S);
    while (handshake_go_on(&h) == HANDSHAKE_UNDERWAY)
        if (!wait_for(self, fd, POLLIN, end_s)) break;
    if (h.state != HANDSHAKE_PROVEN) return h.step > 0 ? NOT_ACCEPTED : NOBODY;
    if (handshake_session(&h, &session) != DRV_OK) return NOBODY;
    control_open(&self->line, fd, true, &session);
    return CONNECTED;
}

static try_result try_once(member *self) {
    const launch_job *job = self->job;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)job->port)};
    int error = 0;
    const int on = 1;
    socklen_t n_bytes = sizeof error;
    address.sin_addr.s_addr = launch_resolve(job->placement.master.value);
    if (!address.sin_addr.s_addr) return NOT_KNOWN;
    inet_ntop(AF_INET, &address.sin_addr, self->address, sizeof self->address);
    if (!job->has_secret && launch_find_secret(self->a, self->address, job->port, &self->found))
        self->has_found = true;
    if (!job->has_secret && !self->has_found) return NOBODY;
    const job_secret secret = job->has_secret ? job->secret : self->found;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return NOBODY;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const bool begun =
            connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EINPROGRESS;
    try_result made = NOBODY;
    if (begun && wait_for(self, fd, POLLOUT, clock_s() + HANDSHAKE_S) &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n_bytes) == 0)
        made = error == 0              ? shake_hands(self, fd, &secret)
               : error == ECONNREFUSED ? CLOSED
                                       : NOBODY;
    if (made != CONNECTED) close(fd);
    return made;
}

static const char *what_is_missing(try_result last) {
    if (last == NOT_KNOWN) return "its name has no IPv4 address";
    return last == NOT_ACCEPTED ? "it does not accept this node's secret" : "nobody answers there";
}

// `again`: node 0 was found before, so if nobody listens at its port any more it has ended.
static drv_status find_head(member *self, double seconds, bool again) {
    const launch_job *job = self->job;
    const double end_s = clock_s() + seconds;
    double next_log_s = clock_s() + 1;
    int refusals = 0, n_closed = 0;
    for (try_result last; (last = try_once(self)) != CONNECTED;) {
        if (self->verdict >= 0) return DRV_OK;
        n_closed += last == CLOSED;
        if (again && n_closed == MAX_CLOSED) {
            end(self, EXIT_TRY_AGAIN, "node 0 is gone");
            return DRV_OK;
        }
        refusals = last == NOT_ACCEPTED ? refusals + 1 : 0;
        const char *why = what_is_missing(last);
        if (refusals == MAX_REFUSALS && job->has_secret)
            return drv_fail(DRV_E_USAGE,
                    "node 0 at %s:%d does not accept this node's secret; expected the same DROVER_JOB_SECRET_FILE on all nodes",
                    job->placement.master.value, job->port);
        if (clock_s() > end_s)
            return drv_fail(DRV_E_BUSY, "node 0 at %s:%d was not found within %.0f s: %s",
                    job->placement.master.value, job->port, seconds, why);
        if (clock_s() > next_log_s) {
            log_info("waiting for node 0 at %s:%d, for at most %.0f s: %s",
                    job->placement.master.value, job->port, seconds, why);
            next_log_s = clock_s() + LOG_INTERVAL_S;
        }
        wait_for(self, -1, 0, clock_s() + RETRY_S);
    }
    return DRV_OK;
}

// --- messages of node 0
static void send_hello(member *self) {
    const launch_job *job = self->job;
    char host[64] = "?";
    if (gethostname(host, sizeof host - 1) != 0) memcpy(host, "?", 2);
    const char *fields[] = {drover_version(), arena_printf(self->a, "%d", job->node),
            arena_printf(self->a, "%d", job->n_nodes), arena_printf(self->a, "%d", job->ranks),
            host, self->process};
    control_send(&self->line, CONTROL_HELLO, fields, 6);
}

// Appends this node's own value of the variable to a list of program or library folders.
static const char *with_own(arena *a, const char *variable) {
    const size_t n = strcspn(variable, "=");
    const char *name = arena_strndup(a, variable, n), *old = getenv(name);
    if (!str_ends(name, "PATH") || !old || !*old) return arena_strdup(a, variable);
    return arena_printf(a, "%s:%s", variable, old);
}

static drv_status run_daemon(member *self, const control_message *said) {
    launch_job here = *self->job;
    daemon_order order;
    int n = 0;
    DRV_TRY(daemon_order_parse(said->field, said->n_fields, &order));
    if (order.n_nodes > self->job->n_nodes)
        return drv_fail(DRV_E_DATA, "node 0 has an attempt of %d nodes, expected at most %d",
                order.n_nodes, self->job->n_nodes);
    self->place = here.node = order.place;
    here.n_nodes = order.n_nodes;
    const char **variables = launch_variables(self->a, &here, self->local.dir, self->address);
    while (variables[n])
        n++;
    const char **all = ARENA_ARRAY(self->a, const char *, n + order.n_variables + 1);
    memcpy(all, variables, sizeof *all * (size_t)n);
    for (int i = 0; i < order.n_variables; i++)
        all[n++] = with_own(self->a, order.variables[i]);
    const char **argv = ARENA_ARRAY(self->a, const char *, order.n_args + 1);
    for (int i = 0; i < order.n_args; i++)
        argv[i] = arena_strdup(self->a, order.argv[i]);
    return local_job_start(&self->local, argv, all);
}

static void obey(member *self) {
    control_message said;
    while (self->verdict < 0 && control_take(&self->line, &said)) {
        const bool ends = said.kind == CONTROL_END || said.kind == CONTROL_REFUSED;
        if (said.kind == CONTROL_WELCOME && said.n_fields == 2) {
            self->welcome = true;
            self->returns = strcmp(said.field[1], "1") == 0;
            log_info("node %d of %d: node 0 is connected, at %s; waiting for its instructions",
                    self->job->node, self->job->n_nodes, self->address);
        }
        if (said.kind == CONTROL_OVER) self->clears = true;
        if (said.kind == CONTROL_COMMAND && self->welcome && !self->local.child && !self->clears &&
                run_daemon(self, &said) != DRV_OK)
            end(self, 1, drv_message());
        if (ends && said.n_fields == 2) end(self, control_number(said.field[0]), said.field[1]);
    }
    if (self->line.closed && !(self->welcome && self->returns))
        end(self, EXIT_TRY_AGAIN, "node 0 is gone");
}

// --- the processes of this node
static void send_result(member *self) {
    const local_job *l = &self->local;
    const bool over = l->child && (l->child_ended || l->ranks_ended_s > 0);
    if (self->told && !self->returns && clock_s() - self->end_sent_s > VERDICT_S)
        end(self, EXIT_TRY_AGAIN, "node 0 did not report how the job ended");
    if (self->told || !over || self->clears) return;
    const char *fields[] = {outcome_text(self->a, local_job_outcome(&self->local,
                                                          self->place * self->job->ranks)),
            local_job_lacked_memory(&self->local) ? "1" : "0"};
    control_send(&self->line, CONTROL_RESULT, fields, 2);
    self->told = true;
    self->end_sent_s = clock_s();
}

static void pass_on(member *self) {
    for (int number; (number = local_job_signal(&self->local));) {
        local_job_forward(&self->local, number);
        // Node 0 then starts no further attempt; if none runs, it ends the job.
        if (number != SIGUSR2) control_send(&self->line, CONTROL_LEAVE, NULL, 0);
    }
}

// Ends what is left of an attempt, without blocking; true: nothing is left.
static bool clear_up(member *self) {
    if (self->local.child && !self->local.child_ended) {
        local_job_end(&self->local);
        return false;
    }
    if (self->local.child && local_job_renew(&self->local) != DRV_OK) end(self, 1, drv_message());
    self->clears = self->told = false;
    return true;
}

// The ranks here belong to an attempt that has lost this node. A signal ends the search for node 0.
static drv_status reconnect_to_head(member *self) {
    log_warn("the connection to node 0 is lost; reconnecting");
    control_close(&self->line);
    self->welcome = false;
    while (!clear_up(self)) {
        poll(NULL, 0, LOOK_MS);
        const int number = local_job_signal(&self->local);
        if (number && number != SIGUSR2) end(self, EXIT_STOPPED, "stopped after node 0 was lost");
    }
    if (self->verdict < 0) DRV_TRY(find_head(self, RETURN_S, true));
    if (self->verdict < 0) send_hello(self);
    return DRV_OK;
}

static drv_status serve(member *self) {
    send_hello(self);
    while (self->verdict < 0) {
        if (self->line.closed) DRV_TRY(reconnect_to_head(self));
        if (self->verdict >= 0) break;
        struct pollfd p[2] = {{self->line.fd, (short)(POLLIN | (self->line.out.n ? POLLOUT : 0)),
                                      0},
                {self->local.signal_fd, POLLIN, 0}};
        poll(p, 2, LOOK_MS);
        pass_on(self);
        local_job_poll(&self->local);
        send_result(self);
        if (self->clears && clear_up(self)) control_send(&self->line, CONTROL_READY, NULL, 0);
        control_pump(&self->line);
        obey(self);
    }
    return DRV_OK;
}

// Makes an id that differs for each process, even in containers whose process ids are equal.
static drv_status name_process(member *self) {
    job_secret chance;
    uint64_t number;
    DRV_TRY(secret_make(&chance));
    memcpy(&number, chance.bytes, sizeof number);
    snprintf(self->process, sizeof self->process, "%016llx", (unsigned long long)number);
    return DRV_OK;
}

drv_status launch_member(arena *a, const launch_job *job) {
    member self = {.a = a, .job = job, .line = {.fd = -1, .closed = true}, .verdict = -1, .why = ""};
    DRV_TRY(local_job_open(a, job->ranks, &self.local));
    drv_status status = name_process(&self);
    if (status == DRV_OK) status = find_head(&self, job->wait_s, false);
    if (status == DRV_OK && self.verdict < 0) status = serve(&self);
    while (self.local.child && !self.local.child_ended) { // in the end it is killed
        local_job_end(&self.local);
        poll(NULL, 0, LOOK_MS);
        while (local_job_signal(&self.local)) {
        }
    }
    control_close(&self.line);
    local_job_close(&self.local);
    if (status != DRV_OK) return status;
    return self.verdict == 0 ? DRV_OK : drv_fail(outcome_as_status(self.verdict), "%s", self.why);
}
