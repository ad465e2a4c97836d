// One attempt: mpirun and its ranks on some of the nodes, from its start to its end.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/head.h"
#include "launch/attempt_cause.h"

// When mpirun has ended, the nodes have a while to say how their ranks have; where all ranks have
// ended, or some have failed or vanished, mpirun has a while to see it.
#define RESULTS_S     30.0
#define TEARDOWN_S    20.0
#define LEFT_S        0.2 // for mpirun, once all ranks have ended because one was lost
#define SURVIVORS_S   120.0
#define LOST_S        3.0 // with a node lost and the ranks here ended, mpirun waits in vain
#define STATUS_S      1.0 // between looks at status.json
#define STOPPED_EARLY "stopped before there was a rank; the same command starts it again"
enum { LOOK_MS = 50 };

static head_member *member_at(const head *h, int place) {
    return &h->members[h->attempt.nodes[place]];
}

// --- the beginning
static drv_status write_hosts(head *h, const char **path) {
    str text = {0};
    *path = path_join(h->a, h->local.dir, "hosts");
    str_printf(&text, "localhost slots=%d\n", h->job->ranks);
    for (int place = 1; place < h->attempt.n_nodes; place++)
        str_printf(&text, "%s slots=%d\n", member_at(h, place)->label, h->job->ranks);
    const drv_status status = file_write_atomic(*path, text.p, text.n);
    str_free(&text);
    return status;
}

// mpirun's words, and what follows `drover train`; the keys of the layout come last, and so count.
static const char **words_of(head *h, const char *const *before, int n_before) {
    const launch_job *job = h->job;
    const attempt_layout *layout = &h->attempt.layout;
    const char **words =
            ARENA_ARRAY(h->a, const char *, n_before + job->n_train + 2 * layout->n_sets + 1);
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

static drv_status start_mpirun(head *h) {
    const launch_job *job = h->job;
    launch_job here = *job;
    const int ranks = h->attempt.checks ? 1 : job->ranks; // of a node
    const char *hosts;
    const char *agent = path_join(h->a, h->local.dir, "drover");
    here.n_nodes = h->attempt.n_nodes;
    DRV_TRY(write_hosts(h, &hosts));
    if (symlink(job->program, agent) != 0) // a path without spaces, which mpirun would split at
        return drv_fail(DRV_E_IO, "could not create \"%s\": %s", agent, strerror(errno));
    const char *words[] = {"mpirun", "--hostfile", hosts, "-n",
            arena_printf(h->a, "%d", ranks * h->attempt.n_nodes), "--map-by",
            arena_printf(h->a, "ppr:%d:node", ranks), job->program, "launch", "rank", "--",
            h->attempt.checks ? LAUNCH_CHECK : job->backend, job->run_dir,
            arena_printf(h->a, "%g", job->check_s), NULL};
    enum { N_TRAIN = sizeof words / sizeof *words - 3 };
    h->attempt.started_s = clock_s();
    return local_job_start(&h->local, h->attempt.checks ? words : words_of(h, words, N_TRAIN),
            launch_variables(h->a, &here, h->local.dir, h->address));
}

drv_status attempt_start(head *h) {
    attempt *w = &h->attempt;
    for (int place = 1; place < w->n_nodes; place++) {
        head_member *m = member_at(h, place);
        m->place = place;
        m->told = m->over = m->ready = m->lacked_memory = false;
        m->result = (outcome){0};
    }
    if (h->local.child) DRV_TRY(local_job_renew(&h->local));
    w->runs = true;
    record_look(h, &w->attempt_before, &w->saved_seen);
    if (h->job->n_nodes > 1) DRV_TRY(head_open_agents(h));
    return start_mpirun(h);
}

// --- in its midst
static void note_killed(head *h, int node, outcome result) {
    if (h->attempt.first_killed < 0 && result.kind == OUTCOME_UNSAID)
        h->attempt.first_killed = node;
}

void attempt_node_over(head *h, int node, outcome result, bool lacked_memory) {
    head_member *m = &h->members[node];
    if (m->place < 0 || m->over) return;
    m->over = true;
    m->result = result;
    m->lacked_memory = lacked_memory;
    note_killed(h, node, result);
    if (h->attempt.first_over_s <= 0) h->attempt.first_over_s = clock_s();
    head_let_agents_go(h, node, result.kind == OUTCOME_PEER && m->line.closed);
}

void attempt_node_lost(head *h, int node, const char *why) {
    const outcome lost = {OUTCOME_PEER, EXIT_TRY_AGAIN, h->members[node].place * h->job->ranks,
            DRV_E_PEER};
    if (h->members[node].place < 0 || h->members[node].over) return;
    if (h->attempt.lost_s <= 0) h->attempt.lost_s = clock_s();
    if (!h->attempt.lost) {
        h->attempt.lost = why;
        h->attempt.lost_node = node;
    }
    attempt_node_over(h, node, lost, false);
}

// Nodes that wait take part in the next attempt, which begins at a checkpoint.
static void look_at_growth(head *h) {
    attempt *w = &h->attempt;
    const double now = clock_s();
    int64_t run_attempt, saved;
    int most;
    if (w->checks || w->grows || w->asked || now - w->looked_s < STATUS_S) return;
    w->looked_s = now;
    record_look(h, &run_attempt, &saved);
    const bool is_new = run_attempt > w->attempt_before && saved > w->saved_seen;
    if (run_attempt > w->attempt_before) w->saved_seen = saved;
    if (!is_new || !head_could_grow(h, &most)) return;
    log_info("step %lld is saved: %d nodes take part from there on, instead of %d",
            (long long)saved, most, w->n_nodes);
    w->grows = true;
    local_job_forward(&h->local, SIGTERM);
}

// An attempt that has lost a rank is over when all others have ended: mpirun would go on to kill
// them for a second or more, and its status says nothing that is not known.
static bool is_stuck(const head *h, const outcome *all, double now) {
    const bool lost = all->kind == OUTCOME_PEER;
    const attempt *w = &h->attempt;
    const double ended_s = h->local.ranks_ended_s;
    int n_told = 1;
    for (int place = 1; place < w->n_nodes; place++)
        n_told += member_at(h, place)->over;
    return (!local_job_has_ranks(&h->local) && now - w->started_s > h->job->wait_s) ||
           (n_told > 1 && w->first_over_s > 0 && now - w->first_over_s > SURVIVORS_S) ||
           (w->lost_s > 0 && now - w->lost_s > TEARDOWN_S) ||
           (w->lost_s > 0 && ended_s > 0 && now - w->lost_s > LOST_S && now - ended_s > LOST_S) ||
           (w->all_over_s > 0 && now - w->all_over_s > (lost ? LEFT_S : TEARDOWN_S));
}

// --- the end
static void note_local(head *h, outcome *all) {
    *all = local_job_outcome(&h->local, 0);
    for (int i = 0; i < h->local.n_ranks; i++) {
        const local_rank *r = &h->local.ranks[i];
        if (r->pid && r->ended && !r->has_said)
            note_killed(h, 0, (outcome){.kind = OUTCOME_UNSAID});
    }
}

// Returns the node where the failure began: as the survivors say, by what was lost, by who went
// first.
static int blamed_node(const head *h, const outcome *all, const run_status *said) {
    const attempt *w = &h->attempt;
    if (w->lost_node >= 0) return w->lost_node;
    int64_t rank = said && said->end == RUN_FAILED ? said->failed_rank : -1;
    if (rank < 0 && all->kind == OUTCOME_FAILED) rank = all->rank;
    if (rank >= 0 && rank / h->job->ranks < w->n_nodes) return w->nodes[rank / h->job->ranks];
    return w->first_killed;
}

static void fill_end(head *h, const outcome *all, int status, attempt_end *end) {
    run_status read;
    const bool said = record_said(h, &read);
    attempt_facts facts = {.all = *all,
            .status = status,
            .said = said ? &read : NULL,
            .lacked_memory = local_job_lacked_memory(&h->local),
            .grows = h->attempt.grows && !h->attempt.asked};
    int lacking = facts.lacked_memory ? 0 : -1;
    for (int place = 1; place < h->attempt.n_nodes; place++)
        if (member_at(h, place)->lacked_memory) lacking = h->attempt.nodes[place];
    facts.lacked_memory = lacking >= 0;
    *end = (attempt_end){.cause = attempt_cause(&facts),
            .status = status,
            .node = lacking >= 0 ? lacking : blamed_node(h, all, facts.said),
            .step = said ? read.step : -1,
            .at_s = clock_s()};
    if (end->node > 0)
        snprintf(end->host, sizeof end->host, "%s", h->members[end->node].host);
    else if (end->node == 0 && gethostname(end->host, sizeof end->host - 1) != 0)
        end->host[0] = 0;
}

bool attempt_look(head *h, attempt_end *end, const char **why) {
    attempt *w = &h->attempt;
    const double now = clock_s();
    outcome all;
    int n_over = h->local.ranks_ended_s > 0, n_told = 1;
    note_local(h, &all);
    const bool saved_here = all.kind == OUTCOME_STOPPED;
    for (int place = 1; place < w->n_nodes; place++) {
        const head_member *m = member_at(h, place);
        n_told += m->over || !m->told; // one without a daemon has nothing to say
        if (!m->over) continue;
        all = outcome_of_both(all, m->result);
        n_over++;
    }
    if (n_over == w->n_nodes && w->all_over_s <= 0) w->all_over_s = now;
    if (!h->local.child_ended) {
        look_at_growth(h);
        if (is_stuck(h, &all, now)) local_job_end(&h->local);
        return false;
    }
    if (w->mpirun_over_s <= 0) w->mpirun_over_s = now;
    if (n_told < w->n_nodes && now - w->mpirun_over_s < RESULTS_S) return false;
    int status = outcome_status(all, h->local.child_status);
    if (w->asked && saved_here && all.kind != OUTCOME_FAILED)
        // A checkpoint is whole before any rank ends as stopped: who is lost after that takes
        // nothing from a job that was asked to stop.
        status = EXIT_STOPPED;
    else if (n_told < w->n_nodes || w->lost_s > 0 || h->local.told_s > 0)
        status = all.kind == OUTCOME_FAILED ? status : EXIT_TRY_AGAIN;
    else if (all.kind == OUTCOME_NONE && w->asked) // mpirun's agents got that signal too
        status = EXIT_STOPPED;
    const bool none = all.kind == OUTCOME_NONE;
    *why = w->lost && status != EXIT_STOPPED ? w->lost
           : none && status == EXIT_STOPPED  ? STOPPED_EARLY
           : none && status == 1             ? "mpirun could not start the ranks"
                                             : "";
    fill_end(h, &all, status, end);
    return true;
}

void attempt_close(head *h) {
    // One that was lost meanwhile and is here again has ended what was left before it came: its
    // word that nothing is left would come in the midst of the next attempt.
    for (int place = 1; place < h->attempt.n_nodes; place++)
        if (member_at(h, place)->place == place)
            control_send(&member_at(h, place)->line, CONTROL_OVER, NULL, 0);
    while (h->verdict < 0 && h->local.child && !h->local.child_ended) {
        local_job_end(&h->local);
        head_serve(h, LOOK_MS);
    }
    for (int place = 1; place < h->attempt.n_nodes; place++)
        member_at(h, place)->place = -1;
    h->attempt.runs = false;
    head_close_agents(h);
}
