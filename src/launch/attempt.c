// One attempt: mpirun and its ranks on some of the nodes, from its start to its end.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/attempt.h"
#include "launch/attempt_cause.h"
#include "launch/node_choice.h"

// After mpirun has ended, the nodes have some time to report how their ranks ended. After all ranks
// have ended, or some have failed or been lost, mpirun has some time to end.
#define RESULTS_S     30.0
#define TEARDOWN_S    20.0
#define LEFT_S        0.2 // for mpirun, once all ranks have ended because one was lost
#define SURVIVORS_S   120.0
#define LOST_S        3.0 // with a node lost and the ranks here ended, mpirun would never end
#define STATUS_S      1.0 // between readings of status.json
#define STOPPED_EARLY "stopped before there was a rank; the same command starts it again"

static met_node *member_at(const attempt *self, int place) {
    return &self->parts->meeting->members[self->nodes[place]];
}

// --- start
static drv_status write_hosts(attempt *self, const char **path) {
    str text = {0};
    *path = path_join(self->parts->a, self->parts->local->dir, "hosts");
    str_printf(&text, "localhost slots=%d\n", self->parts->job->ranks);
    for (int place = 1; place < self->n_nodes; place++)
        str_printf(&text, "%s slots=%d\n", member_at(self, place)->label, self->parts->job->ranks);
    const drv_status status = file_write_atomic(*path, text.p, text.n);
    str_free(&text);
    return status;
}

// Joins mpirun's words and those after `drover train`. Keys of the layout come last, so they win.
static const char **words_of(attempt *self, const char *const *before, int n_before) {
    const launch_job *job = self->parts->job;
    const attempt_layout *layout = &self->layout;
    const char **words = ARENA_ARRAY(self->parts->a, const char *,
            n_before + job->n_train + 2 * layout->n_sets + 1);
    int n = 0;
    for (int i = 0; i < n_before; i++)
        words[n++] = before[i];
    for (int i = 0; i < job->n_train; i++)
        words[n++] = job->train[i];
    for (int i = 0; i < layout->n_sets; i++) {
        words[n++] = "--set";
        words[n++] = layout->sets[i];
    }
    return words;
}

static drv_status start_mpirun(attempt *self) {
    const launch_job *job = self->parts->job;
    launch_job here = *job;
    const int ranks = self->measures ? 1 : job->ranks; // per node
    const char *hosts;
    const char *agent = path_join(self->parts->a, self->parts->local->dir, "drover");
    here.n_nodes = self->n_nodes;
    DRV_TRY(write_hosts(self, &hosts));
    if (symlink(job->program, agent) != 0) // a path without spaces, at which mpirun would split it
        return drv_fail(DRV_E_IO, "could not create \"%s\": %s", agent, strerror(errno));
    const char *words[] = {"mpirun", "--hostfile", hosts, "-n",
            arena_printf(self->parts->a, "%d", ranks * self->n_nodes), "--map-by",
            arena_printf(self->parts->a, "ppr:%d:node", ranks), job->program, "launch", "rank",
            "--", self->measures ? LAUNCH_CHECK : job->backend, job->run_dir,
            arena_printf(self->parts->a, "%g", job->check_s), NULL};
    enum { N_TRAIN = sizeof words / sizeof *words - 3 };
    self->started_s = clock_s();
    return local_job_start(self->parts->local,
            self->measures ? words : words_of(self, words, N_TRAIN),
            launch_variables(self->parts->a, &here, self->parts->local->dir,
                    self->parts->meeting->address));
}

drv_status attempt_start(attempt *self) {
    for (int place = 1; place < self->n_nodes; place++) {
        met_node *m = member_at(self, place);
        m->place = place;
        m->told = m->over = m->ready = m->lacked_memory = false;
        m->result = (outcome){0};
    }
    if (self->parts->local->child) DRV_TRY(local_job_renew(self->parts->local));
    self->runs = true;
    journal_read_progress(&self->journal, &self->journal.attempt_before, &self->saved_seen);
    if (self->parts->job->n_nodes > 1)
        DRV_TRY(agents_open(self->parts->agents, self->parts->local->dir));
    return start_mpirun(self);
}

// --- while it runs
static void note_killed(attempt *self, int node, outcome result) {
    if (self->first_killed < 0 && result.kind == OUTCOME_UNREPORTED) self->first_killed = node;
}

void attempt_node_ended(attempt *self, int node, outcome result, bool lacked_memory) {
    met_node *m = &self->parts->meeting->members[node];
    if (m->place < 0 || m->over) return;
    m->over = true;
    m->result = result;
    m->lacked_memory = lacked_memory;
    note_killed(self, node, result);
    if (self->first_over_s <= 0) self->first_over_s = clock_s();
    agents_release(self->parts->agents, node, result.kind == OUTCOME_PEER && m->line.closed);
}

void attempt_node_lost(attempt *self, int node, const char *why) {
    const outcome lost = {OUTCOME_PEER, EXIT_TRY_AGAIN,
            self->parts->meeting->members[node].place * self->parts->job->ranks, DRV_E_PEER};
    if (self->parts->meeting->members[node].place < 0 || self->parts->meeting->members[node].over)
        return;
    if (self->lost_s <= 0) self->lost_s = clock_s();
    if (!self->lost) {
        self->lost = why;
        self->lost_node = node;
    }
    attempt_node_ended(self, node, lost, false);
}

// Stops the attempt if waiting nodes allow a larger one, which then begins at a checkpoint.
static void look_at_growth(attempt *self) {
    const double now = clock_s();
    int64_t run_attempt, saved;
    int most;
    if (self->measures || self->grows || self->asked || now - self->looked_s < STATUS_S) return;
    self->looked_s = now;
    journal_read_progress(&self->journal, &run_attempt, &saved);
    const bool is_new = run_attempt > self->journal.attempt_before && saved > self->saved_seen;
    if (run_attempt > self->journal.attempt_before) self->saved_seen = saved;
    if (!is_new || !choice_could_grow(self->parts->meeting, self->n_nodes, &most)) return;
    log_info("step %lld is saved: %d nodes take part from there on, instead of %d",
            (long long)saved, most, self->n_nodes);
    self->grows = true;
    local_job_forward(self->parts->local, SIGTERM);
}

// Returns whether mpirun should be ended. An attempt that has lost a rank is over when all others
// have ended: mpirun would kill for a second or more, and its status tells nothing new.
static bool is_stuck(const attempt *self, const outcome *all, double now) {
    const bool lost = all->kind == OUTCOME_PEER;
    const double ended_s = self->parts->local->ranks_ended_s;
    int n_told = 1;
    for (int place = 1; place < self->n_nodes; place++)
        n_told += member_at(self, place)->over;
    return (!local_job_has_ranks(self->parts->local) &&
                   now - self->started_s > self->parts->job->wait_s) ||
           (n_told > 1 && self->first_over_s > 0 && now - self->first_over_s > SURVIVORS_S) ||
           (self->lost_s > 0 && now - self->lost_s > TEARDOWN_S) ||
           (self->lost_s > 0 && ended_s > 0 && now - self->lost_s > LOST_S &&
                   now - ended_s > LOST_S) ||
           (self->all_over_s > 0 && now - self->all_over_s > (lost ? LEFT_S : TEARDOWN_S));
}

// --- the end
static void note_local(attempt *self, outcome *all) {
    *all = local_job_outcome(self->parts->local, 0);
    for (int i = 0; i < self->parts->local->n_ranks; i++) {
        const local_rank *r = &self->parts->local->ranks[i];
        if (r->pid && r->ended && !r->has_outcome)
            note_killed(self, 0, (outcome){.kind = OUTCOME_UNREPORTED});
    }
}

// Returns the node where the failure began: the lost one, else that of the rank which failed first
// by the survivors' account, else the first that ended without a report.
static int blamed_node(const attempt *self, const outcome *all, const run_status *said) {
    if (self->lost_node >= 0) return self->lost_node;
    int64_t rank = said && said->end == RUN_FAILED ? said->failed_rank : -1;
    if (rank < 0 && all->kind == OUTCOME_FAILED) rank = all->rank;
    if (rank >= 0 && rank / self->parts->job->ranks < self->n_nodes)
        return self->nodes[rank / self->parts->job->ranks];
    return self->first_killed;
}

static void fill_end(attempt *self, const outcome *all, int status, attempt_end *end) {
    run_status read;
    const bool said = journal_read_status(&self->journal, &read);
    attempt_facts facts = {.all = *all,
            .status = status,
            .said = said ? &read : NULL,
            .lacked_memory = local_job_lacked_memory(self->parts->local),
            .grows = self->grows && !self->asked};
    int lacking = facts.lacked_memory ? 0 : -1;
    for (int place = 1; place < self->n_nodes; place++)
        if (member_at(self, place)->lacked_memory) lacking = self->nodes[place];
    facts.lacked_memory = lacking >= 0;
    *end = (attempt_end){.cause = attempt_cause(&facts),
            .status = status,
            .node = lacking >= 0 ? lacking : blamed_node(self, all, facts.said),
            .step = said ? read.step : -1,
            .at_s = clock_s()};
    if (end->node > 0)
        snprintf(end->host, sizeof end->host, "%s", self->parts->meeting->members[end->node].host);
    else if (end->node == 0 && gethostname(end->host, sizeof end->host - 1) != 0)
        end->host[0] = 0;
}

bool attempt_watch(attempt *self, attempt_end *end, const char **why) {
    const double now = clock_s();
    outcome all;
    int n_over = self->parts->local->ranks_ended_s > 0, n_told = 1;
    note_local(self, &all);
    const bool saved_here = all.kind == OUTCOME_STOPPED;
    for (int place = 1; place < self->n_nodes; place++) {
        const met_node *m = member_at(self, place);
        n_told += m->over || !m->told; // one without a daemon has nothing to report
        if (!m->over) continue;
        all = outcome_of_both(all, m->result);
        n_over++;
    }
    if (n_over == self->n_nodes && self->all_over_s <= 0) self->all_over_s = now;
    if (!self->parts->local->child_ended) {
        look_at_growth(self);
        if (is_stuck(self, &all, now)) local_job_end(self->parts->local);
        return false;
    }
    if (self->mpirun_over_s <= 0) self->mpirun_over_s = now;
    if (n_told < self->n_nodes && now - self->mpirun_over_s < RESULTS_S) return false;
    int status = outcome_status(all, self->parts->local->child_status);
    if (self->asked && saved_here && all.kind != OUTCOME_FAILED)
        // A checkpoint is complete before any rank ends as stopped, so losing a rank after that
        // costs nothing in a job that was asked to stop.
        status = EXIT_STOPPED;
    else if (n_told < self->n_nodes || self->lost_s > 0 || self->parts->local->end_sent_s > 0)
        status = all.kind == OUTCOME_FAILED ? status : EXIT_TRY_AGAIN;
    else if (all.kind == OUTCOME_NONE && self->asked) // mpirun's agents got the signal too
        status = EXIT_STOPPED;
    const bool none = all.kind == OUTCOME_NONE;
    *why = self->lost && status != EXIT_STOPPED ? self->lost
           : none && status == EXIT_STOPPED     ? STOPPED_EARLY
           : none && status == 1                ? "mpirun could not start the ranks"
                                                : "";
    fill_end(self, &all, status, end);
    return true;
}

void attempt_announce_end(const attempt *self) {
    // A node that was lost and has come back has already ended what was left. Its second
    // CONTROL_READY would arrive in the middle of the next attempt.
    for (int place = 1; place < self->n_nodes; place++)
        if (member_at(self, place)->place == place)
            control_send(&member_at(self, place)->line, CONTROL_OVER, NULL, 0);
}

void attempt_close(attempt *self) {
    for (int place = 1; place < self->n_nodes; place++)
        member_at(self, place)->place = -1;
    self->runs = false;
    agents_close(self->parts->agents);
}

attempt attempt_of(const attempt_parts *parts, int number, int n_nodes, int *nodes) {
    return (attempt){.parts = parts,
            .journal = {parts->a, parts->job->run_dir, 0},
            .number = number,
            .n_nodes = n_nodes,
            .nodes = nodes,
            .lost_node = -1,
            .first_killed = -1,
            .saved_seen = -1};
}

attempt_nodes attempt_members(const attempt *self) {
    return (attempt_nodes){self->parts->meeting->members, self->nodes, self->n_nodes};
}
