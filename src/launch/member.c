// A node other than node 0: finds it, proves the secret, and runs the daemon that it is told to, a
// further one in each attempt that it takes part in.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
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

#define RETRY_S   0.25
#define SAY_S     10.0 // between lines of one that waits
#define HANDS_S   20.0 // for a connection and its handshake
#define VERDICT_S 60.0 // for node 0 to say how the job has ended, after this node's ranks have
#define RETURN_S  30.0 // for a lost connection to node 0 to be made again
#define LOOK_MS   50
enum { MAX_REFUSALS = 5, MAX_CLOSED = 4 };

typedef struct member {
    arena *a;
    const launch_job *job;
    local_job local;
    control line; // to node 0
    char address[INET_ADDRSTRLEN];
    job_secret found; // of a job of one machine, the last one that lay there
    bool has_found;
    char process[24]; // tells this process from another one that calls itself the same node
    bool returns;     // node 0 goes on after an attempt has ended, and takes nodes that come again
    bool welcome, told; // told: how the ranks of this node have ended
    bool clears;        // ends what is left of an attempt
    int place;          // in the attempt
    double told_s;
    int verdict; // exit status; -1: not yet
    const char *why;
} member;

static void end(member *m, int status, const char *why) {
    if (m->verdict >= 0) return;
    m->verdict = status;
    m->why = arena_strdup(m->a, why);
}

// --- finding node 0
// Network order; 0: the name is not known, or not yet.
static uint32_t resolve(const char *host) {
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    uint32_t found = 0;
    if (getaddrinfo(host, NULL, &hints, &list) != 0) return 0;
    struct sockaddr_in in;
    memcpy(&in, list->ai_addr, sizeof in);
    found = in.sin_addr.s_addr;
    freeaddrinfo(list);
    return found;
}

// CLOSED: the host is there, and no process of it listens.
typedef enum attempt { CONNECTED, NOT_KNOWN, NOBODY, CLOSED, NOT_ACCEPTED } attempt;

// Until the socket is ready, a signal asks to stop, or the time is up.
static bool wait_for(member *m, int fd, short events, double end_s) {
    while (clock_s() < end_s && m->verdict < 0) {
        struct pollfd p[2] = {{fd, events, 0}, {m->local.signal_fd, POLLIN, 0}};
        if (poll(p, 2, LOOK_MS) < 0 && errno != EINTR) return false;
        const int number = local_job_signal(&m->local);
        if (number && number != SIGUSR2)
            end(m, EXIT_STOPPED,
                    "stopped before the nodes had met; the same command starts it again");
        if (p[0].revents) return true;
    }
    return false;
}

static attempt shake_hands(member *m, int fd, const job_secret *secret) {
    handshake h;
    job_secret session;
    const double end_s = clock_s() + HANDS_S;
    handshake_begin(&h, fd, true, secret, LAUNCH_PURPOSE, HANDS_S);
    while (handshake_go_on(&h) == HANDSHAKE_UNDERWAY)
        if (!wait_for(m, fd, POLLIN, end_s)) break;
    if (h.state != HANDSHAKE_PROVEN) return h.step > 0 ? NOT_ACCEPTED : NOBODY;
    if (handshake_session(&h, &session) != DRV_OK) return NOBODY;
    control_open(&m->line, fd, true, &session);
    return CONNECTED;
}

static attempt try_once(member *m) {
    const launch_job *job = m->job;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)job->port)};
    int error = 0;
    const int on = 1;
    socklen_t n = sizeof error;
    address.sin_addr.s_addr = resolve(job->placement.master.value);
    if (!address.sin_addr.s_addr) return NOT_KNOWN;
    inet_ntop(AF_INET, &address.sin_addr, m->address, sizeof m->address);
    if (!job->has_secret && launch_find_secret(m->a, m->address, job->port, &m->found))
        m->has_found = true;
    if (!job->has_secret && !m->has_found) return NOBODY;
    const job_secret secret = job->has_secret ? job->secret : m->found;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return NOBODY;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const bool begun =
            connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EINPROGRESS;
    attempt made = NOBODY;
    if (begun && wait_for(m, fd, POLLOUT, clock_s() + HANDS_S) &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0)
        made = error == 0 ? shake_hands(m, fd, &secret) : error == ECONNREFUSED ? CLOSED : NOBODY;
    if (made != CONNECTED) close(fd);
    return made;
}

static const char *what_is_missing(attempt last) {
    if (last == NOT_KNOWN) return "the name is not known";
    return last == NOT_ACCEPTED ? "it does not accept this node's secret" : "nobody answers there";
}

// `again`: it was found before, so that a port at which nobody listens any more means its end.
static drv_status find_head(member *m, double seconds, bool again) {
    const launch_job *job = m->job;
    const double end_s = clock_s() + seconds;
    double say_s = clock_s() + 1;
    int refusals = 0, n_closed = 0;
    for (attempt last; (last = try_once(m)) != CONNECTED;) {
        if (m->verdict >= 0) return DRV_OK;
        n_closed += last == CLOSED;
        if (again && n_closed == MAX_CLOSED) {
            end(m, EXIT_TRY_AGAIN, "node 0 is gone");
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
        if (clock_s() > say_s) {
            log_info("waiting for node 0 at %s:%d, for at most %.0f s: %s",
                    job->placement.master.value, job->port, seconds, why);
            say_s = clock_s() + SAY_S;
        }
        wait_for(m, -1, 0, clock_s() + RETRY_S);
    }
    return DRV_OK;
}

// --- what node 0 says
static void say_hello(member *m) {
    const launch_job *job = m->job;
    char host[64] = "?";
    if (gethostname(host, sizeof host - 1) != 0) memcpy(host, "?", 2);
    const char *fields[] = {drover_version(), arena_printf(m->a, "%d", job->node),
            arena_printf(m->a, "%d", job->n_nodes), arena_printf(m->a, "%d", job->ranks), host,
            m->process};
    control_send(&m->line, CONTROL_HELLO, fields, 6);
}

// A folder of programs or libraries goes before what the variable has here.
static const char *with_own(arena *a, const char *variable) {
    const size_t n = strcspn(variable, "=");
    const char *name = arena_strndup(a, variable, n), *old = getenv(name);
    if (!str_ends(name, "PATH") || !old || !*old) return arena_strdup(a, variable);
    return arena_printf(a, "%s:%s", variable, old);
}

static drv_status run_daemon(member *m, const control_message *said) {
    launch_job here = *m->job;
    daemon_order order;
    int n = 0;
    DRV_TRY(daemon_order_parse(said->field, said->n_fields, &order));
    if (order.n_nodes > m->job->n_nodes)
        return drv_fail(DRV_E_DATA, "node 0 has an attempt of %d nodes, expected at most %d",
                order.n_nodes, m->job->n_nodes);
    m->place = here.node = order.place;
    here.n_nodes = order.n_nodes;
    const char **variables = launch_variables(m->a, &here, m->local.dir, m->address);
    while (variables[n])
        n++;
    const char **all = ARENA_ARRAY(m->a, const char *, n + order.n_variables + 1);
    memcpy(all, variables, sizeof *all * (size_t)n);
    for (int i = 0; i < order.n_variables; i++)
        all[n++] = with_own(m->a, order.variables[i]);
    const char **argv = ARENA_ARRAY(m->a, const char *, order.n_args + 1);
    for (int i = 0; i < order.n_args; i++)
        argv[i] = arena_strdup(m->a, order.argv[i]);
    return local_job_start(&m->local, argv, all);
}

static void obey(member *m) {
    control_message said;
    while (m->verdict < 0 && control_take(&m->line, &said)) {
        const bool ends = said.kind == CONTROL_END || said.kind == CONTROL_REFUSED;
        if (said.kind == CONTROL_WELCOME && said.n_fields == 2) {
            m->welcome = true;
            m->returns = strcmp(said.field[1], "1") == 0;
            log_info("node %d of %d: node 0 is there, at %s; waiting for its word", m->job->node,
                    m->job->n_nodes, m->address);
        }
        if (said.kind == CONTROL_OVER) m->clears = true;
        if (said.kind == CONTROL_COMMAND && m->welcome && !m->local.child && !m->clears &&
                run_daemon(m, &said) != DRV_OK)
            end(m, 1, drv_message());
        if (ends && said.n_fields == 2) end(m, control_number(said.field[0]), said.field[1]);
    }
    if (m->line.closed && !(m->welcome && m->returns)) end(m, EXIT_TRY_AGAIN, "node 0 is gone");
}

// --- this node's part
static void tell_result(member *m) {
    const local_job *l = &m->local;
    const bool over = l->child && (l->child_ended || l->ranks_ended_s > 0);
    if (m->told && !m->returns && clock_s() - m->told_s > VERDICT_S)
        end(m, EXIT_TRY_AGAIN, "node 0 does not say how the job has ended");
    if (m->told || !over || m->clears) return;
    const char *fields[] = {outcome_text(m->a,
                                    local_job_outcome(&m->local, m->place * m->job->ranks)),
            local_job_lacked_memory(&m->local) ? "1" : "0"};
    control_send(&m->line, CONTROL_RESULT, fields, 2);
    m->told = true;
    m->told_s = clock_s();
}

static void pass_on(member *m) {
    for (int number; (number = local_job_signal(&m->local));) {
        local_job_forward(&m->local, number);
        // Node 0 starts no further attempt; where there is none, it ends all.
        if (number != SIGUSR2) control_send(&m->line, CONTROL_LEAVE, NULL, 0);
    }
}

// Ends what is left of an attempt, without waiting; true: nothing is.
static bool clear_up(member *m) {
    if (m->local.child && !m->local.child_ended) {
        local_job_end(&m->local);
        return false;
    }
    if (m->local.child && local_job_renew(&m->local) != DRV_OK) end(m, 1, drv_message());
    m->clears = m->told = false;
    return true;
}

// The ranks here are of an attempt that has lost this node. A signal meanwhile ends the search.
static drv_status come_again(member *m) {
    log_warn("the connection to node 0 is lost; looking for it again");
    control_close(&m->line);
    m->welcome = false;
    while (!clear_up(m)) {
        poll(NULL, 0, LOOK_MS);
        const int number = local_job_signal(&m->local);
        if (number && number != SIGUSR2) end(m, EXIT_STOPPED, "stopped after node 0 was lost");
    }
    if (m->verdict < 0) DRV_TRY(find_head(m, RETURN_S, true));
    if (m->verdict < 0) say_hello(m);
    return DRV_OK;
}

static drv_status serve(member *m) {
    say_hello(m);
    while (m->verdict < 0) {
        if (m->line.closed) DRV_TRY(come_again(m));
        if (m->verdict >= 0) break;
        struct pollfd p[2] = {{m->line.fd, (short)(POLLIN | (m->line.out.n ? POLLOUT : 0)), 0},
                {m->local.signal_fd, POLLIN, 0}};
        poll(p, 2, LOOK_MS);
        pass_on(m);
        local_job_look(&m->local);
        tell_result(m);
        if (m->clears && clear_up(m)) control_send(&m->line, CONTROL_READY, NULL, 0);
        control_pump(&m->line);
        obey(m);
    }
    return DRV_OK;
}

// Different for each process, also of several containers whose process ids are alike.
static drv_status name_process(member *m) {
    job_secret chance;
    uint64_t number;
    DRV_TRY(secret_make(&chance));
    memcpy(&number, chance.bytes, sizeof number);
    snprintf(m->process, sizeof m->process, "%016llx", (unsigned long long)number);
    return DRV_OK;
}

drv_status launch_member(arena *a, const launch_job *job) {
    member m = {.a = a, .job = job, .line = {.fd = -1, .closed = true}, .verdict = -1, .why = ""};
    DRV_TRY(local_job_open(a, job->ranks, &m.local));
    drv_status status = name_process(&m);
    if (status == DRV_OK) status = find_head(&m, job->wait_s, false);
    if (status == DRV_OK && m.verdict < 0) status = serve(&m);
    while (m.local.child && !m.local.child_ended) { // it is killed at last
        local_job_end(&m.local);
        poll(NULL, 0, LOOK_MS);
        while (local_job_signal(&m.local)) {
        }
    }
    control_close(&m.line);
    local_job_close(&m.local);
    if (status != DRV_OK) return status;
    return m.verdict == 0 ? DRV_OK : drv_fail(outcome_as_status(m.verdict), "%s", m.why);
}
