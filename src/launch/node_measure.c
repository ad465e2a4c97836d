// Measures nodes before an attempt with new ones: runs `drover doctor --node` on all connected
// nodes, one rank each, as an attempt of its own, and judges the figures.
#include <stdlib.h>

#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/head.h"
#include "launch/preflight.h"

enum { LOOK_MS = 50 };

bool measure_is_due(const head *self, const int *nodes, int n_nodes) {
    if (self->job->check_s <= 0 || self->job->n_nodes == 1) return false;
    for (int place = 0; place < n_nodes; place++)
        if (!self->meeting.members[nodes[place]].measured) return true;
    return false;
}

// DRV_E_PEER: the check did not finish.
static drv_status read_results(const head *self, node_result **results, int n_nodes) {
    const char *path = path_join(self->a, self->local.dir, LAUNCH_CHECK);
    char *text;
    size_t n;
    int n_read;
    if (!file_exists(path) || file_read(self->a, path, &text, &n) != DRV_OK || n == 0)
        return drv_fail(DRV_E_PEER, "the measurement did not finish");
    DRV_TRY(preflight_read(self->a, "what drover doctor printed", text, n, results, &n_read));
    if (n_read == n_nodes) return DRV_OK;
    return drv_fail(DRV_E_DATA, "the measurement has results of %d nodes, expected %d", n_read,
            n_nodes);
}

static const char *what_follows(const head *self, int node) {
    if (!self->job->prefers) return "";
    return node == 0 ? "; node 0 cannot be left out" : "; it is used only if no other node is left";
}

static void judge(head *self, const node_result *results) {
    const attempt *under_way = &self->attempt;
    preflight judged;
    preflight_judge(self->a, results, under_way->n_nodes, &judged);
    for (int place = 0; place < under_way->n_nodes; place++) {
        const int node = under_way->nodes[place];
        if (!*judged.said[place]) continue;
        log_warn("node %d (%s) is an outlier: %s%s", node, results[place].host, judged.said[place],
                what_follows(self, node));
        if (self->job->prefers) self->meeting.members[node].share = judged.worst[place];
    }
    if (judged.n_named == 0) log_info("measured %d nodes: no outlier", under_way->n_nodes);
}

static void run_measurement(head *self) {
    attempt_end end;
    node_result *results;
    const char *why;
    // An outlier is not a failure that mpirun should report: Open MPI 4, and PRRTE of 5.
    setenv("OMPI_MCA_orte_execute_quiet", "1", 1);
    setenv("PRTE_MCA_prte_execute_quiet", "1", 1);
    log_info("measuring %d nodes for about %g s", self->attempt.n_nodes, self->job->check_s);
    drv_status status = attempt_start(&self->attempt);
    unsetenv("OMPI_MCA_orte_execute_quiet");
    unsetenv("PRTE_MCA_prte_execute_quiet");
    while (status == DRV_OK && self->verdict.status < 0 &&
            !attempt_watch(&self->attempt, &end, &why))
        head_serve(self, LOOK_MS);
    if (self->verdict.status >= 0) return;
    if (status == DRV_OK) status = read_results(self, &results, self->attempt.n_nodes);
    if (status == DRV_OK)
        judge(self, results);
    else if (!self->attempt.asked)
        log_warn("the nodes could not be measured: %s", drv_message());
}

void measure_nodes(head *self) {
    const attempt before = self->attempt;
    int n = 0, *nodes = ARENA_ARRAY(self->a, int, self->job->n_nodes);
    for (int i = 0; i < self->job->n_nodes; i++)
        if (meeting_is_usable(&self->meeting, i)) nodes[n++] = i;
    self->attempt = attempt_of(&self->parts, before.number, n, nodes);
    self->attempt.measures = true;
    for (int i = 0; i < n; i++)
        self->meeting.members[nodes[i]].measured = true; // or cannot be, and is not tried again
    run_measurement(self);
    const bool asked = self->attempt.asked;
    head_close_attempt(self);
    self->attempt = before;
    if (asked)
        head_end(self, EXIT_STOPPED,
                "stopped while nodes were measured; the same command continues the run");
}
