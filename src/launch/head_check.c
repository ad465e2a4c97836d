// Before an attempt with nodes that have not been measured: `drover doctor --node` on all that are
// there, one rank each, as an attempt of its own, and what its figures say.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/head.h"
#include "launch/preflight.h"

enum { LOOK_MS = 50 };

bool check_is_due(const head *h, const int *nodes, int n_nodes) {
    if (h->job->check_s <= 0 || h->job->n_nodes == 1) return false;
    for (int place = 0; place < n_nodes; place++)
        if (!h->members[nodes[place]].measured) return true;
    return false;
}

// DRV_E_PEER: the check has not come to an end.
static drv_status read_results(const head *h, node_result **results, int n_nodes) {
    const char *path = path_join(h->a, h->local.dir, LAUNCH_CHECK);
    char *text;
    size_t n;
    int n_read;
    if (!file_exists(path) || file_read(h->a, path, &text, &n) != DRV_OK || n == 0)
        return drv_fail(DRV_E_PEER, "it has not come to an end");
    DRV_TRY(preflight_read(h->a, "what drover doctor printed", text, n, results, &n_read));
    if (n_read == n_nodes) return DRV_OK;
    return drv_fail(DRV_E_DATA, "it has results of %d nodes, expected %d", n_read, n_nodes);
}

static const char *what_follows(const head *h, int node) {
    if (!h->job->prefers) return "";
    return node == 0 ? "; node 0 cannot be left out" : "; it is taken only where no other is left";
}

static void judge(head *h, const node_result *results) {
    const attempt *w = &h->attempt;
    preflight judged;
    preflight_judge(h->a, results, w->n_nodes, &judged);
    for (int place = 0; place < w->n_nodes; place++) {
        const int node = w->nodes[place];
        if (!*judged.said[place]) continue;
        log_warn("node %d (%s) stands out: %s%s", node, results[place].host, judged.said[place],
                what_follows(h, node));
        if (h->job->prefers) h->members[node].share = judged.worst[place];
    }
    if (judged.n_named == 0) log_info("%d nodes measured: none stands out", w->n_nodes);
}

static void run_check(head *h) {
    attempt_end end;
    node_result *results;
    const char *why;
    // A node that stands out is no failure for mpirun to tell of: Open MPI 4, and PRRTE of 5.
    setenv("OMPI_MCA_orte_execute_quiet", "1", 1);
    setenv("PRTE_MCA_prte_execute_quiet", "1", 1);
    log_info("measuring %d nodes for about %g s", h->attempt.n_nodes, h->job->check_s);
    drv_status status = attempt_start(h);
    unsetenv("OMPI_MCA_orte_execute_quiet");
    unsetenv("PRTE_MCA_prte_execute_quiet");
    while (status == DRV_OK && h->verdict < 0 && !attempt_look(h, &end, &why))
        head_serve(h, LOOK_MS);
    if (h->verdict >= 0) return;
    if (status == DRV_OK) status = read_results(h, &results, h->attempt.n_nodes);
    if (status == DRV_OK)
        judge(h, results);
    else if (!h->attempt.asked)
        log_warn("the nodes could not be measured: %s", drv_message());
}

void check_nodes(head *h) {
    const attempt before = h->attempt;
    int n = 0, *nodes = ARENA_ARRAY(h->a, int, h->job->n_nodes);
    for (int i = 0; i < h->job->n_nodes; i++)
        if (head_is_usable(h, i)) nodes[n++] = i;
    h->attempt = (attempt){.number = before.number,
            .checks = true,
            .n_nodes = n,
            .nodes = nodes,
            .lost_node = -1,
            .first_killed = -1};
    for (int i = 0; i < n; i++)
        h->members[nodes[i]].measured = true; // or cannot be, which is not tried again
    run_check(h);
    const bool asked = h->attempt.asked;
    attempt_close(h);
    h->attempt = before;
    if (asked)
        head_end(h, EXIT_STOPPED, "stopped while nodes were measured; the same command goes on");
}
