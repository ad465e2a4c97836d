// Node 0: a loop over attempts. It waits for nodes, chooses those of the next attempt and its
// layout, has mpirun run it, and decides by its end what follows.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "launch/head.h"
#include "launch/node_choice.h"

#define LOG_INTERVAL_S   10.0
#define SPARE_S          10.0 // for spare nodes, once the layout has its nodes
#define LATE_S           1.0  // for nodes of the last attempt, which spare nodes would replace
#define READY_S          30.0 // for a node to end what is left of an attempt
#define RECONNECT_S      3.0  // for a node that has lost its connection to come back
#define BETWEEN_ATTEMPTS "stopped between restarts; the same command continues the run"
enum { LOOK_MS = 50 };

// --- the end
void head_end(head *self, int status, const char *why) {
    if (self->verdict.status >= 0) return;
    self->verdict.status = status;
    self->verdict.why = arena_strdup(self->a, why);
}

static void serve_agents(head *self) {
    const attempt_nodes nodes = attempt_members(&self->attempt);
    agents_serve(&self->agents, &nodes);
}

// Tells all nodes to end their daemons before it ends mpirun here, if that still runs.
static void say_the_end(head *self) {
    const char *fields[] = {arena_printf(self->a, "%d", self->verdict.status), self->verdict.why};
    for (int i = 1; i < self->job->n_nodes; i++)
        control_send(&self->meeting.members[i].line, CONTROL_END, fields, 2);
    for (int i = 1; i < self->job->n_nodes; i++)
        control_flush(&self->meeting.members[i].line, 1);
    while (self->local.child && !self->local.child_ended) { // in the end it is killed
        local_job_end(&self->local);
        serve_agents(self);
        poll(NULL, 0, LOOK_MS);
        while (local_job_signal(&self->local)) {
        }
    }
}

// --- serving
static void pass_on(head *self) {
    for (int number; (number = local_job_signal(&self->local));) {
        if (self->attempt.runs) local_job_forward(&self->local, number);
        if (number == SIGUSR2) continue;
        if (self->attempt.runs) {
            self->attempt.asked = true;
            continue;
        }
        head_end(self, EXIT_STOPPED,
                self->attempt.number > 0
                        ? BETWEEN_ATTEMPTS
                        : "stopped before the nodes had met; the same command starts it again");
    }
}

static void poll_all(head *self, int ms) {
    const int most = 2 * self->job->n_nodes + 2 * MAX_CALLERS + 4;
    struct pollfd *fds = mem_alloc(sizeof *fds * (size_t)most);
    int n = meeting_fds(&self->meeting, fds);
    n += agents_fds(&self->agents, fds + n);
    if (self->local.signal_fd >= 0) fds[n++] = (struct pollfd){self->local.signal_fd, POLLIN, 0};
    poll(fds, (nfds_t)n, ms);
    free(fds);
}

void head_serve(head *self, int ms) {
    if (self->attempt.runs) // it would wake up for the heartbeat of every node
        poll(NULL, 0, ms);
    else
        poll_all(self, ms);
    pass_on(self);
    local_job_poll(&self->local);
    meeting_serve(&self->meeting);
    serve_agents(self);
}

// --- messages of nodes
static void take_result(void *ctx, int node, outcome result, bool lacked_memory) {
    head *self = ctx;
    if (self->attempt.runs) attempt_node_ended(&self->attempt, node, result, lacked_memory);
}

static void take_loss(void *ctx, int node, const char *why) {
    head *self = ctx;
    if (self->attempt.runs) attempt_node_lost(&self->attempt, node, why);
}

// The ranks of a node that was asked to stop have got the same signal.
static void take_leave(void *ctx, int node) {
    head *self = ctx;
    met_node *from = &self->meeting.members[node];
    const char *fields[] = {arena_printf(self->a, "%d", EXIT_STOPPED), ""};
    if (self->attempt.runs && from->place >= 0)
        self->attempt.asked = true;
    else if (self->attempt.runs) {
        log_info("the waiting node %d (%s) is stopped", node, from->host);
        control_send(&from->line, CONTROL_END, fields, 2);
        control_flush(&from->line, 1);
    } else
        head_end(self, EXIT_STOPPED,
                arena_printf(self->a,
                        "node %d was stopped while no rank ran; the same command starts it again",
                        node));
}

static const meeting_calls calls = {take_result, take_loss, take_leave};

// --- the nodes of the next attempt
static void take_nodes(head *self, const attempt_layout *layout, int *nodes) {
    const attempt before = self->attempt;
    const int number = before.number;
    attempt *next = &self->attempt;
    *next = attempt_of(&self->parts, number + 1, layout->n_nodes, nodes);
    next->layout = *layout;
    next->journal = before.journal;
    self->meeting.has_begun = true;
    if (number == 0 ? layout->n_sets == 0 : before.layout.n_nodes == layout->n_nodes) return;
    log_info("%d node%s instead of %d%s%s", next->n_nodes, str_plural(next->n_nodes),
            number > 0 ? before.layout.n_nodes : choice_full(self->job), *layout->words ? ": " : "",
            layout->words);
    if (number > 0) journal_layout(&next->journal, layout, self->job->ranks);
}

// --- waiting for them
static int describe_absent(const head *self, str *out) {
    int n = 0;
    for (int i = 1; i < self->job->n_nodes; i++)
        if (!meeting_is_usable(&self->meeting, i) && !self->meeting.members[i].excluded)
            str_printf(out, "%s%d", n++ ? ", " : "", i);
    return n;
}

static void say_absent(head *self, double until_s, double *next_log_s) {
    str absent = {0};
    const double now = clock_s();
    if (now < until_s && now < *next_log_s) return;
    const int n_absent = describe_absent(self, &absent);
    const char *nodes = absent.p ? absent.p : "";
    if (now < until_s)
        log_info("waiting for node%s %s of %d at %s:%d, for at most %.0f s", str_plural(n_absent),
                nodes, self->job->n_nodes, self->meeting.address, self->meeting.port,
                self->job->wait_s);
    else
        head_end(self, EXIT_TRY_AGAIN,
                arena_printf(self->a, "node%s %s of %d did not connect within %.0f s",
                        str_plural(n_absent), nodes, self->job->n_nodes, self->job->wait_s));
    str_free(&absent);
    *next_log_s = now + LOG_INTERVAL_S;
}

// Returns whether the connected nodes are enough, or no more can come.
static bool are_enough(const head *self, int n_usable, double waited_s, double *full_s) {
    const bool first = self->attempt.number == 0 && !self->meeting.members[0].measured;
    if (n_usable == self->job->n_nodes) return true;
    if (n_usable >= choice_full(self->job)) {
        if (*full_s <= 0) *full_s = clock_s();
        if (!first && !choice_one_is_late(&self->meeting)) return true;
        return clock_s() - *full_s >= (first ? SPARE_S : LATE_S);
    }
    *full_s = 0;
    if (n_usable < self->job->rules.min_nodes) return false;
    if (!first && n_usable == choice_count_possible(&self->meeting)) return true;
    if (first) return waited_s >= self->job->wait_s;
    return waited_s >= (choice_one_is_late(&self->meeting) ? READY_S : RECONNECT_S);
}

// Waits until there are nodes with a layout, or the job has ended.
static void gather(head *self, attempt_layout *layout) {
    const double begin_s = clock_s(), until_s = begin_s + self->job->wait_s;
    double full_s = 0, next_log_s = begin_s + 2;
    int refused = 0; // this number of nodes has no layout
    while (self->verdict.status < 0) {
        const int n = choice_count_usable(&self->meeting);
        if (n != refused && are_enough(self, n, clock_s() - begin_s, &full_s)) {
            if (choice_layout(&self->meeting, n, layout) == DRV_OK) return;
            log_warn("%s", drv_message());
            refused = n;
        }
        say_absent(self, until_s, &next_log_s);
        if (self->verdict.status < 0) head_serve(self, LOOK_MS);
    }
}

// --- one attempt after the other
static void run_attempt(head *self, attempt_end *end, const char **why) {
    const bool supervised = self->job->rules.max_restarts > 0;
    if (self->attempt.number == 1 && self->job->n_nodes > 1 &&
            self->meeting.n_here == self->job->n_nodes)
        log_info("all %d nodes are connected", self->job->n_nodes);
    if (!supervised) meeting_stop_listening(&self->meeting);
    if (attempt_start(&self->attempt) != DRV_OK) head_end(self, 1, drv_message());
    while (self->verdict.status < 0 && !attempt_watch(&self->attempt, end, why))
        head_serve(self, LOOK_MS);
}

void head_close_attempt(head *self) {
    attempt_announce_end(&self->attempt);
    while (self->verdict.status < 0 && self->local.child && !self->local.child_ended) {
        local_job_end(&self->local);
        head_serve(self, LOOK_MS);
    }
    attempt_close(&self->attempt);
}

static void wait_before_next(head *self, double seconds) {
    for (const double until = clock_s() + seconds; self->verdict.status < 0 && clock_s() < until;)
        head_serve(self, LOOK_MS);
}

static const char *place_of(const head *self, const attempt_end *end) {
    if (end->node < 0) return "";
    return arena_printf(self->a, " on node %d%s%s%s", end->node, *end->host ? " (" : "", end->host,
            *end->host ? ")" : "");
}

// Prints what a person needs to know where no restart would help.
static void say_more(head *self, const attempt_end *end, const decision *made) {
    const launch_planner *planner = self->job->planner;
    const char *text = NULL;
    if (end->cause == END_MEMORY)
        text = planner->memory(planner->ctx, self->a, &self->attempt.layout,
                self->attempt.n_nodes * self->job->ranks);
    if (made->same_rows) text = planner->rows(planner->ctx, self->a, end->step + 1);
    if (text) log_warn("%s", text);
}

static void finish(head *self, const attempt_end *end, const decision *made, const char *why) {
    say_more(self, end, made);
    const bool failed = end->cause != END_DONE && end->cause != END_STOPPED;
    if (made->same_rows)
        why = made->why;
    else if (failed && self->job->rules.max_restarts > 0)
        why = arena_printf(self->a, "%s%s; %s", *why ? why : end_cause_name(end->cause),
                *why ? "" : place_of(self, end), made->why);
    head_end(self, made->status, why);
}

static void decide(head *self, const attempt_end *end, const char *why) {
    MEM_GROW(self->history.ends, self->history.n, self->history.cap);
    self->history.ends[self->history.n++] = *end;
    decision made = supervisor_decide(self->a, &self->job->rules, self->history.ends,
            self->history.n, choice_count_not_excluded(&self->meeting));
    if (made.restarts && self->attempt.asked)
        made = (decision){.status = end->status,
                .excluded = -1,
                .why = "no restart: the job was asked to stop"};
    if (!made.restarts) {
        finish(self, end, &made, why);
        return;
    }
    journal_restart(&self->attempt.journal, end, &made);
    if (end->cause != END_GROWS)
        log_warn("attempt %d has ended at step %lld: %s%s%s%s; restart %s", self->attempt.number,
                (long long)end->step, end_cause_name(end->cause), place_of(self, end),
                *why ? ": " : "", why,
                made.wait_s > 0 ? arena_printf(self->a, "in %.0f s", made.wait_s) : "at once");
    if (made.spared)
        log_warn("node %d has failed twice, but without it there are too few nodes", end->node);
    if (made.excluded > 0) {
        log_warn("node %d (%s) has failed twice within %s: it is excluded", made.excluded,
                end->host, str_long_duration(self->job->rules.window_s));
        self->meeting.members[made.excluded].excluded = true;
        journal_exclusion(&self->attempt.journal, end);
    }
    head_close_attempt(self);
    if (self->attempt.asked) head_end(self, EXIT_STOPPED, BETWEEN_ATTEMPTS);
    wait_before_next(self, made.wait_s);
}

static void run(head *self) {
    while (self->verdict.status < 0) {
        attempt_end end;
        attempt_layout layout;
        const char *why = "";
        gather(self, &layout);
        if (self->verdict.status >= 0) break;
        int *nodes = choice_pick(&self->meeting, layout.n_nodes);
        if (!nodes) continue;
        if (measure_is_due(self, nodes, layout.n_nodes)) {
            measure_nodes(self);
            continue; // with the nodes that are still connected
        }
        take_nodes(self, &layout, nodes);
        run_attempt(self, &end, &why);
        if (self->verdict.status < 0) decide(self, &end, why);
    }
}

// --- the job
drv_status head_open(head *self, arena *a, const launch_job *job) {
    *self = (head){.a = a, .job = job, .agents = agents_of(a, job->n_nodes), .verdict = {-1, ""}};
    meeting_init(&self->meeting, a, job, &calls, self);
    self->parts = (attempt_parts){.a = a,
            .job = job,
            .local = &self->local,
            .meeting = &self->meeting,
            .agents = &self->agents};
    self->attempt = attempt_of(&self->parts, 0, 0, NULL);
    return local_job_open(a, job->ranks, &self->local);
}

void head_close(head *self) {
    meeting_close(&self->meeting);
    agents_close(&self->agents);
    local_job_close(&self->local);
    free(self->history.ends);
}

drv_status launch_head(arena *a, const launch_job *job) {
    head *self = ARENA_NEW(a, head);
    DRV_TRY(head_open(self, a, job));
    const drv_status status = job->n_nodes > 1 ? meeting_listen(&self->meeting) : DRV_OK;
    if (status == DRV_OK) run(self);
    if (status == DRV_OK) say_the_end(self);
    head_close(self);
    if (status != DRV_OK) return status;
    const job_verdict *verdict = &self->verdict;
    return verdict->status == 0 ? DRV_OK
                                : drv_fail(outcome_as_status(verdict->status), "%s", verdict->why);
}
