// The policy of restarts: one row for each cause.
// Legend: n ends in the order of time, `last` is the newest of them.
#include "launch/supervisor.h"

#include <math.h>

enum { SAME_STEP = 3, SAME_HOST = 2 };

supervisor_rules supervisor_rules_of(int n_nodes, int n_spares) {
    return (supervisor_rules){.window_s = 3600,
            .min_nodes = n_nodes - n_spares,
            .n_spares = n_spares,
            .grow_after_s = 300};
}

drv_status supervisor_rules_check(const supervisor_rules *self, int n_nodes) {
    const int full = n_nodes - self->n_spares;
    if (self->n_spares >= n_nodes)
        return drv_fail(DRV_E_USAGE, "--spare-nodes %d, expected fewer than the %d node%s",
                self->n_spares, n_nodes, str_plural(n_nodes));
    if (self->min_nodes > full)
        return drv_fail(DRV_E_USAGE, "--min-nodes %d, expected at most the %d node%s%s",
                self->min_nodes, full, str_plural(full),
                self->n_spares ? " that are not spare" : "");
    return DRV_OK;
}

// --- causes

// first_s: wait before the first restart; repeated_s: before the second in a row for the same cause,
// doubled each time up to most_s. If first_s is 0, the count starts again after each finished step.
typedef struct rule {
    const char *name, *cause, *happens;
    bool restarts, blames; // blames: a host is excluded after two such ends
    double first_s, repeated_s, most_s;
} rule;

#define AT_ONCE .restarts = true, .blames = true, .first_s = 0, .repeated_s = 1, .most_s = 60

static const rule rules_of[N_END_CAUSES] = {
        [END_DONE] = {.name = "done", .cause = "all steps are done (0)", .happens = "the job ends"},
        [END_STOPPED] = {.name = "stopped",
                .cause = "the job was asked to stop (3)",
                .happens = "no restart: the last finished step is saved"},
        [END_GROWS] = {.name = "grows",
                .cause = "new nodes, or lost ones that came back, are waiting",
                .happens =
                        "after the next save an attempt that includes them; not counted as a restart",
                .restarts = true},
        [END_LOST] = {.name = "lost",
                .cause = "a host or a rank is lost",
                .happens = "restart at once",
                AT_ONCE},
        [END_HANG] = {.name = "hang",
                .cause = "a rank hangs",
                .happens = "restart at once",
                AT_ONCE},
        [END_DEVICE] = {.name = "device",
                .cause = "a device fails",
                .happens = "restart at once",
                AT_ONCE},
        [END_FULL] = {.name = "full",
                .cause = "the disk is full",
                .happens =
                        "restart after 30 s; if it is still full, after 1 min, doubled up to 10 min",
                .restarts = true,
                .first_s = 30,
                .repeated_s = 60,
                .most_s = 600},
        [END_MEMORY] = {.name = "memory",
                .cause = "the system kills a rank for lack of memory",
                .happens = "no restart: drover prints the planned memory and what ranks held"},
        [END_FAILED] = {.name = "failed",
                .cause = "loss not finite, bad data, refused checkpoint (1)",
                .happens = "no restart: another try would fail in the same way"},
        [END_USAGE] = {.name = "usage",
                .cause = "wrong configuration (2)",
                .happens = "no restart: another try would fail in the same way"},
        [END_HELD] = {.name = "held",
                .cause = "another job has the run directory (75)",
                .happens = "no restart: the scheduler may start this job again"},
        [END_NO_RANKS] = {.name = "no_ranks",
                .cause = "mpirun cannot start the ranks (1)",
                .happens = "no restart: another try would fail in the same way"},
};

const char *end_cause_name(end_cause cause) {
    return rules_of[cause].name;
}

static int count_restarts(const supervisor_rules *rules, const attempt_end *ends, int n) {
    int count = 0;
    for (int i = 0; i + 1 < n; i++)
        count += ends[i].cause != END_GROWS && ends[n - 1].at_s - ends[i].at_s < rules->window_s;
    return count;
}

static bool is_twice(const supervisor_rules *rules, const attempt_end *ends, int n) {
    const attempt_end *last = &ends[n - 1];
    int count = 0;
    for (int i = 0; i < n && last->node >= 0; i++)
        count += rules_of[ends[i].cause].blames && ends[i].node == last->node &&
                 last->at_s - ends[i].at_s < rules->window_s;
    return count >= SAME_HOST;
}

// Counts the nodes on which the step after ends[n - 1].step has failed.
static int count_hosts(const attempt_end *ends, int n) {
    const attempt_end *last = &ends[n - 1];
    int count = 0;
    for (int i = 0; i < n && last->step >= 0; i++) {
        bool counts =
                rules_of[ends[i].cause].blames && ends[i].step == last->step && ends[i].node >= 0;
        for (int k = 0; k < i && counts; k++)
            counts = ends[k].step != last->step || ends[k].node != ends[i].node ||
                     !rules_of[ends[k].cause].blames;
        count += counts;
    }
    return count;
}

// Returns the seconds to wait, by the number of earlier consecutive ends with the same cause. Where
// first_s is 0 they count from the last finished step, but a full disk may let some steps through.
static double wait_of(const attempt_end *ends, int n) {
    const attempt_end *last = &ends[n - 1];
    const rule *r = &rules_of[last->cause];
    int repeated = 0;
    for (int i = n - 1; i > 0 && ends[i - 1].cause == last->cause; i--) {
        if (r->first_s <= 0 && ends[i - 1].step != ends[i].step) break;
        repeated++;
    }
    if (repeated == 0) return r->first_s;
    return fmin(r->most_s, r->repeated_s * exp2(fmin(repeated - 1, 30)));
}

// --- decisions
static decision end_with(int status, const char *why) {
    return (decision){.status = status, .excluded = -1, .why = why};
}

decision supervisor_decide(arena *a, const supervisor_rules *rules, const attempt_end *ends, int n,
        int n_usable) {
    const attempt_end *last = &ends[n - 1];
    const rule *of = &rules_of[last->cause];
    const int before = count_restarts(rules, ends, n);
    if (!of->restarts) return end_with(last->status, of->happens);
    if (last->cause == END_GROWS)
        return (decision){.restarts = true, .excluded = -1, .why = of->happens};
    if (of->blames && count_hosts(ends, n) >= SAME_STEP) {
        decision made = end_with(1,
                arena_printf(a, "step %lld has failed on %d different hosts, at last on node %d",
                        (long long)last->step + 1, SAME_STEP, last->node));
        made.same_rows = true;
        return made;
    }
    if (before >= rules->max_restarts)
        return end_with(last->status,
                rules->max_restarts == 0 ? "no restart: none is allowed (--max-restarts)"
                                         : arena_printf(a, "no restart: %d within %s are used up",
                                                   before, str_long_duration(rules->window_s)));
    decision made = {.restarts = true, .wait_s = wait_of(ends, n), .excluded = -1, .why = of->cause};
    if (of->blames && is_twice(rules, ends, n)) {
        // Node 0 runs this loop, and rank 0.
        made.spared = last->node == 0 || n_usable - 1 < rules->min_nodes;
        if (!made.spared) made.excluded = last->node;
    }
    return made;
}

void supervisor_explain(const supervisor_rules *rules, str *out) {
    str_printf(out, "%-51s  %s\n", "how an attempt ends (exit status)", "what follows");
    for (int i = 0; i < N_END_CAUSES; i++)
        str_printf(out, "%-51s  %s%s\n", rules_of[i].cause, rules_of[i].happens,
                rules_of[i].blames ? "; a host that fails twice in the window is excluded" : "");
    str_printf(out, "%-51s  %s\n", "the same step fails on three hosts",
            "no restart (1): drover prints which rows that step reads");
    str_printf(out, "%-51s  %s\n", "node 0 is lost",
            "all other nodes end with 75: the scheduler may start the job again");
    str_printf(out,
            "At most %d restart%s within %s, on at least %d node%s. If the same failure occurs again before\n"
            "a step is finished, drover waits for 1 s before the restart, doubled each time up to 1 min.\n",
            rules->max_restarts, str_plural(rules->max_restarts),
            str_long_duration(rules->window_s), rules->min_nodes, str_plural(rules->min_nodes));
}
