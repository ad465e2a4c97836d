// drover doctor --node: prints the figures of the nodes of a job, and names those that stand out.
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "measure/node_check.h"

// A node that does not answer is named after this time, and ends the check after twice this time.
#define STUCK_S 30

// --- printing
static void print_row(const char *title, const node_result *results, int n_nodes,
        node_figure figure, const preflight *judged) {
    double low = HUGE_VAL, high = 0;
    for (int i = 0; i < n_nodes; i++) {
        const double value = results[i].value[figure];
        if (value < low) low = value;
        if (value > high) high = value;
    }
    if (isnan(judged->median[figure])) return;
    printf("%-12s%s", title, node_figure_text(figure, judged->median[figure]));
    if (n_nodes > 1)
        printf(", from %s to %s", node_figure_text(figure, low), node_figure_text(figure, high));
    printf("\n");
}

static void print_rest(const node_result *results, int n_nodes) {
    double fsync_s = 0, clock_s = 0;
    int n_locks = 0, has_locks = 0;
    for (int i = 0; i < n_nodes; i++) {
        if (results[i].fsync_s > fsync_s) fsync_s = results[i].fsync_s;
        if (fabs(results[i].clock_s) > fabs(clock_s)) clock_s = results[i].clock_s;
        n_locks += results[i].sees_lock == 1;
        has_locks |= results[i].sees_lock >= 0;
    }
    printf("fsync       at most %.3g s\n", fsync_s);
    if (n_nodes == 1) return;
    printf("clocks      at most %+.3g s from node 0's\n", clock_s);
    printf("locks       %s\n",
            !has_locks           ? "none in the run directory: owner.json keeps others away"
            : n_locks == n_nodes ? "held against all nodes"
                                 : "not held against all nodes: owner.json keeps others away");
}

static void print_text(const node_result *results, int n_nodes, const preflight *judged) {
    static const char *const titles[N_NODE_FIGURES] = {"GEMM", "memory", "write", "read", "free",
            "link", "latency"};
    printf("%d node%s%s, drover %s\n", n_nodes, str_plural(n_nodes), n_nodes > 1 ? "; medians" : "",
            results[0].version);
    for (int i = 0; i < N_NODE_FIGURES; i++)
        print_row(titles[i], results, n_nodes, (node_figure)i, judged);
    print_rest(results, n_nodes);
    for (int i = 0; i < n_nodes; i++)
        if (*judged->said[i]) printf("node %d (%s): %s\n", i, results[i].host, judged->said[i]);
}

static void print_json(const node_result *results, const preflight *judged) {
    json_t *object = preflight_json(judged, results);
    cli_puts_json(object, json_print(object, JSON_INDENT(1)));
}

// Prints each host that stands out, one a line, for scripts of schedulers.
static void print_hosts(const node_result *results, const preflight *judged) {
    for (int i = 0; i < judged->n_nodes; i++)
        if (*judged->said[i]) printf("%s\n", results[i].host);
}

// *together: whether all ranks have the same status.
static drv_status check(arena *a, const cli_args *args, comm *c, bool *together) {
    const char *dir = args->n_positional ? args->positional[0] : ".";
    const int n_nodes = comm_size(c);
    double seconds = 10;
    preflight judged;
    node_result *results = ARENA_ARRAY(a, node_result, n_nodes);
    DRV_TRY(cli_get_f64(args, "--seconds", 0.1, 600, &seconds));
    if (comm_rank(c) == 0) DRV_TRY(dir_make(dir));
    DRV_TRY(node_measure(a, c, dir, seconds, results));
    *together = true;
    preflight_judge(a, results, n_nodes, &judged);
    if (comm_rank(c) == 0) {
        if (cli_has(args, "--json"))
            print_json(results, &judged);
        else if (cli_has(args, "--hosts"))
            print_hosts(results, &judged);
        else
            print_text(results, n_nodes, &judged);
    }
    return preflight_verdict(&judged, results);
}

drv_status doctor_node(arena *a, const cli_args *args) {
    const comm_opts opts = {.stuck_s = STUCK_S, .give_up_s = 2 * STUCK_S};
    comm *c;
    DRV_TRY(comm_open(a, &opts, &c));
    bool together = false;
    const drv_status status = check(a, args, c, &together);
    const char *message = arena_strdup(a, drv_message());
    fflush(stdout);
    bool says = comm_rank(c) == 0;
    if (status != DRV_OK && !together) says = comm_abort(c, status);
    if (status != DRV_OK && says) log_failure(message);
    comm_mark_reported(c);
    comm_close(c);
    return status == DRV_OK ? DRV_OK : drv_fail(status, "%s", "");
}
