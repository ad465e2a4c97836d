// Node 0: a loop over worlds. It waits for nodes, chooses those of the next world and its layout,
// has mpirun run it, and decides by how it ended.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "launch/head.h"

#define SAY_S          10.0
#define SPARE_S        10.0 // for spare nodes, once the layout has its nodes
#define LATE_S         1.0  // for nodes of the world before, whose place spare ones could take
#define READY_S        30.0 // for a node to end what is left of a world
#define COME_S         3.0  // for one that has lost its connection to come again
#define FRESH_S        10.0 // a node that waits is heard of more often
#define BETWEEN_WORLDS "stopped between two worlds; the same command goes on"
enum { LOOK_MS = 50 };

// --- the end
void head_end(head *h, int status, const char *why) {
    if (h->verdict >= 0) return;
    h->verdict = status;
    h->why = arena_strdup(h->a, why);
}

// All nodes are told before this one's mpirun is ended, if it still runs: they end their daemons.
static void say_the_end(head *h) {
    const char *fields[] = {arena_printf(h->a, "%d", h->verdict), h->why};
    for (int i = 1; i < h->job->n_nodes; i++)
        control_send(&h->members[i].line, CONTROL_END, fields, 2);
    for (int i = 1; i < h->job->n_nodes; i++)
        control_flush(&h->members[i].line, 1);
    while (h->local.child && !h->local.child_ended) { // it is killed at last
        local_job_end(&h->local);
        head_serve_agents(h);
        poll(NULL, 0, LOOK_MS);
        while (local_job_signal(&h->local)) {
        }
    }
}

// --- what goes on beside all else
static void pass_on(head *h) {
    for (int number; (number = local_job_signal(&h->local));) {
        if (h->world.runs) local_job_forward(&h->local, number);
        if (number == SIGUSR2) continue;
        if (h->world.runs) {
            h->world.asked = true;
            continue;
        }
        head_end(h, EXIT_STOPPED,
                h->world.number > 0
                        ? BETWEEN_WORLDS
                        : "stopped before the nodes had met; the same command starts it again");
    }
}

void head_serve(head *h, int ms) {
    if (h->world.runs) // beats of many nodes would wake it for each
        poll(NULL, 0, ms);
    else
        head_poll(h, ms);
    pass_on(h);
    local_job_look(&h->local);
    head_serve_nodes(h);
    head_serve_agents(h);
}

// --- nodes of the next world
static int full_nodes(const head *h) {
    return h->job->n_nodes - h->job->n_spares;
}

bool head_is_usable(const head *h, int node) {
    const head_member *m = &h->members[node];
    if (node == 0) return true;
    return m->here && m->ready && !m->excluded && clock_s() - m->line.heard_s < FRESH_S;
}

static int count_usable(const head *h) {
    int n = 0;
    for (int i = 0; i < h->job->n_nodes; i++)
        n += head_is_usable(h, i);
    return n;
}

static int count_not_excluded(const head *h) {
    int n = 1;
    for (int i = 1; i < h->job->n_nodes; i++)
        n += h->members[i].here && !h->members[i].excluded;
    return n;
}

// One that is there, and has not yet ended what was left.
static bool one_is_late(const head *h) {
    for (int i = 1; i < h->job->n_nodes; i++)
        if (h->members[i].here && !h->members[i].excluded && !head_is_usable(h, i)) return true;
    return false;
}

// Any usable number of nodes has the best layout of at most so many.
static drv_status choose_layout(const head *h, int n_usable, world_layout *out) {
    const int full = full_nodes(h);
    *out = (world_layout){.n_nodes = full, .same_bits = true, .words = ""};
    if (n_usable >= full) return DRV_OK;
    return h->job->planner->choose(h->job->planner->ctx, h->a, n_usable, h->job->rules.min_nodes,
            out);
}

bool head_could_grow(const head *h, int *n_nodes) {
    world_layout layout;
    int n = h->world.n_nodes;
    if (h->job->rules.max_restarts == 0 || n == full_nodes(h)) return false;
    for (int i = 1; i < h->job->n_nodes; i++) {
        const head_member *m = &h->members[i];
        n += m->place < 0 && head_is_usable(h, i) && clock_s() - m->came_s >= h->job->grow_after_s;
    }
    if (n == h->world.n_nodes || choose_layout(h, n, &layout) != DRV_OK) return false;
    *n_nodes = layout.n_nodes;
    return layout.n_nodes > h->world.n_nodes;
}

// Returns whether a node is left out: where there are more than are needed, those that a check has
// named go last, the worst of them first.
static bool is_left_out(const head *h, int node, int n_spare) {
    const double share = h->members[node].share;
    int n_worse = 0;
    if (node == 0 || share >= 1) return false;
    for (int i = 1; i < h->job->n_nodes; i++)
        n_worse += head_is_usable(h, i) &&
                   (h->members[i].share < share || (h->members[i].share <= share && i > node));
    return n_worse < n_spare;
}

// Those of the next world, by place. NULL: one that was counted has fallen silent since.
static int *pick_nodes(const head *h, int n_nodes) {
    int *nodes = ARENA_ARRAY(h->a, int, n_nodes), place = 0;
    const int n_spare = count_usable(h) - n_nodes;
    for (int i = 0; i < h->job->n_nodes && place < n_nodes; i++)
        if (head_is_usable(h, i) && !is_left_out(h, i, n_spare)) nodes[place++] = i;
    return place == n_nodes ? nodes : NULL;
}

static void take_nodes(head *h, const world_layout *layout, int *nodes) {
    world *w = &h->world;
    const world_layout before = w->layout;
    const int number = w->number;
    *w = (world){.number = number + 1,
            .layout = *layout,
            .n_nodes = layout->n_nodes,
            .nodes = nodes,
            .lost_node = -1,
            .first_killed = -1,
            .attempt_before = w->attempt_before,
            .saved_seen = -1};
    if (number == 0 ? layout->n_sets == 0 : before.n_nodes == layout->n_nodes) return;
    log_info("%d node%s instead of %d%s%s", w->n_nodes, str_plural(w->n_nodes),
            number > 0 ? before.n_nodes : full_nodes(h), *layout->words ? ": " : "", layout->words);
    if (number > 0) record_layout(h, layout);
}

// --- waiting for them
static int describe_absent(const head *h, str *out) {
    int n = 0;
    for (int i = 1; i < h->job->n_nodes; i++)
        if (!head_is_usable(h, i) && !h->members[i].excluded)
            str_printf(out, "%s%d", n++ ? ", " : "", i);
    return n;
}

static void say_absent(head *h, double until_s) {
    str absent = {0};
    const double now = clock_s();
    if (now < until_s && now < h->say_s) return;
    const int n_absent = describe_absent(h, &absent);
    const char *nodes = absent.p ? absent.p : "";
    if (now < until_s)
        log_info("waiting for node%s %s of %d at %s:%d, for at most %.0f s", str_plural(n_absent),
                nodes, h->job->n_nodes, h->address, h->port, h->job->wait_s);
    else
        head_end(h, EXIT_TRY_AGAIN,
                arena_printf(h->a, "node%s %s of %d did not come within %.0f s",
                        str_plural(n_absent), nodes, h->job->n_nodes, h->job->wait_s));
    str_free(&absent);
    h->say_s = now + SAY_S;
}

// Without those that are shut out, for which there is nothing to wait.
static int count_not_shut_out(const head *h) {
    int n = 1;
    for (int i = 1; i < h->job->n_nodes; i++)
        n += !h->members[i].excluded;
    return n;
}

// Returns whether the nodes that are there are enough, or all that will be.
static bool are_enough(const head *h, int n_usable, double waited_s, double *full_s) {
    const bool first = h->world.number == 0 && !h->members[0].measured;
    if (n_usable == h->job->n_nodes) return true;
    if (n_usable >= full_nodes(h)) {
        if (*full_s <= 0) *full_s = clock_s();
        if (!first && !one_is_late(h)) return true;
        return clock_s() - *full_s >= (first ? SPARE_S : LATE_S);
    }
    *full_s = 0;
    if (n_usable < h->job->rules.min_nodes) return false;
    if (!first && n_usable == count_not_shut_out(h)) return true;
    if (first) return waited_s >= h->job->wait_s;
    return waited_s >= (one_is_late(h) ? READY_S : COME_S);
}

// Until there are nodes with a layout, or the job has ended.
static void gather(head *h, world_layout *layout) {
    const double begin_s = clock_s(), until_s = begin_s + h->job->wait_s;
    double full_s = 0;
    int refused = 0; // so many nodes have no layout
    h->say_s = begin_s + 2;
    while (h->verdict < 0) {
        const int n = count_usable(h);
        if (n != refused && are_enough(h, n, clock_s() - begin_s, &full_s)) {
            if (choose_layout(h, n, layout) == DRV_OK) return;
            log_warn("%s", drv_message());
            refused = n;
        }
        say_absent(h, until_s);
        if (h->verdict < 0) head_serve(h, LOOK_MS);
    }
}

// --- one world after the other
static void run_world(head *h, world_end *end, const char **why) {
    const bool supervised = h->job->rules.max_restarts > 0;
    if (h->world.number == 1 && h->job->n_nodes > 1 && h->n_here == h->job->n_nodes)
        log_info("all %d nodes are there", h->job->n_nodes);
    if (!supervised) head_stop_listening(h);
    if (world_start(h) != DRV_OK) head_end(h, 1, drv_message());
    while (h->verdict < 0 && !world_look(h, end, why))
        head_serve(h, LOOK_MS);
}

static void wait_before_next(head *h, double seconds) {
    for (const double until = clock_s() + seconds; h->verdict < 0 && clock_s() < until;)
        head_serve(h, LOOK_MS);
}

static const char *place_of(const head *h, const world_end *end) {
    if (end->node < 0) return "";
    return arena_printf(h->a, " on node %d%s%s%s", end->node, *end->host ? " (" : "", end->host,
            *end->host ? ")" : "");
}

// Says what a person needs where no restart would help.
static void say_more(head *h, const world_end *end, const decision *made) {
    const launch_planner *planner = h->job->planner;
    const char *text = NULL;
    if (end->cause == END_MEMORY)
        text = planner->memory(planner->ctx, h->a, &h->world.layout,
                h->world.n_nodes * h->job->ranks);
    if (made->same_rows) text = planner->rows(planner->ctx, h->a, end->step + 1);
    if (text) log_warn("%s", text);
}

static void finish(head *h, const world_end *end, const decision *made, const char *why) {
    say_more(h, end, made);
    const bool failed = end->cause != END_DONE && end->cause != END_STOPPED;
    if (made->same_rows)
        why = made->why;
    else if (failed && h->job->rules.max_restarts > 0)
        why = arena_printf(h->a, "%s%s; %s", *why ? why : end_cause_name(end->cause),
                *why ? "" : place_of(h, end), made->why);
    head_end(h, made->status, why);
}

static void decide(head *h, const world_end *end, const char *why) {
    MEM_GROW(h->ends, h->n_ends, h->cap_ends);
    h->ends[h->n_ends++] = *end;
    decision made =
            supervisor_decide(h->a, &h->job->rules, h->ends, h->n_ends, count_not_excluded(h));
    if (made.restarts && h->world.asked)
        made = (decision){.status = end->status,
                .excluded = -1,
                .why = "no restart: it was asked to stop"};
    if (!made.restarts) {
        finish(h, end, &made, why);
        return;
    }
    record_restart(h, end, &made);
    if (end->cause != END_GROWS)
        log_warn("world %d has ended at step %lld: %s%s%s%s; restart %s", h->world.number,
                (long long)end->step, end_cause_name(end->cause), place_of(h, end),
                *why ? ": " : "", why,
                made.wait_s > 0 ? arena_printf(h->a, "in %.0f s", made.wait_s) : "at once");
    if (made.spared)
        log_warn("node %d has failed twice, but the others are not enough without it", end->node);
    if (made.excluded > 0) {
        log_warn("node %d (%s) has failed twice within %s: it is excluded", made.excluded,
                end->host, str_long_duration(h->job->rules.window_s));
        h->members[made.excluded].excluded = true;
        record_exclusion(h, end);
    }
    world_close(h);
    if (h->world.asked) head_end(h, EXIT_STOPPED, BETWEEN_WORLDS);
    wait_before_next(h, made.wait_s);
}

static void run(head *h) {
    while (h->verdict < 0) {
        world_end end;
        world_layout layout;
        const char *why = "";
        gather(h, &layout);
        if (h->verdict >= 0) break;
        int *nodes = pick_nodes(h, layout.n_nodes);
        if (!nodes) continue;
        if (check_is_due(h, nodes, layout.n_nodes)) {
            check_nodes(h);
            continue; // with those that are still there
        }
        take_nodes(h, &layout, nodes);
        run_world(h, &end, &why);
        if (h->verdict < 0) decide(h, &end, why);
    }
}

drv_status launch_head(arena *a, const launch_job *job) {
    head *h = ARENA_NEW(a, head);
    *h = (head){.a = a,
            .job = job,
            .secret = job->secret,
            .secret_fd = -1,
            .address = "127.0.0.1",
            .listener = -1,
            .agent_listener = -1,
            .members = ARENA_ARRAY(a, head_member, job->n_nodes),
            .agents = ARENA_ARRAY(a, head_agent, job->n_nodes),
            .n_here = 1,
            .verdict = -1,
            .why = ""};
    for (int i = 0; i < job->n_nodes; i++)
        h->members[i] = (head_member){.line = {.fd = -1, .closed = true}, .place = -1, .share = 1};
    DRV_TRY(local_job_open(a, job->ranks, &h->local));
    drv_status status = job->n_nodes > 1 ? head_listen(h) : DRV_OK;
    if (status == DRV_OK) run(h);
    if (status == DRV_OK) say_the_end(h);
    head_close(h);
    local_job_close(&h->local);
    free(h->ends);
    if (status != DRV_OK) return status;
    return h->verdict == 0 ? DRV_OK : drv_fail(outcome_as_status(h->verdict), "%s", h->why);
}
