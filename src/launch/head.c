// Node 0: waits until all nodes have come, runs mpirun, and tells all how it ended.
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/head.h"

#define SAY_S         10.0
#define STOPPED_EARLY "stopped before there was a rank; the same command starts it again"
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

// --- mpirun
static drv_status write_hosts(head *h, const char **path) {
    str text = {0};
    *path = path_join(h->a, h->local.dir, "hosts");
    str_printf(&text, "localhost slots=%d\n", h->job->ranks);
    for (int i = 1; i < h->job->n_nodes; i++)
        str_printf(&text, "%s slots=%d\n", h->members[i].label, h->job->ranks);
    const drv_status status = file_write_atomic(*path, text.p, text.n);
    str_free(&text);
    return status;
}

static drv_status start_mpirun(head *h) {
    const launch_job *job = h->job;
    const char *hosts, *ranks = arena_printf(h->a, "%d", job->ranks * job->n_nodes);
    const char *agent = path_join(h->a, h->local.dir, "drover");
    DRV_TRY(write_hosts(h, &hosts));
    if (symlink(job->program, agent) != 0) // a path without spaces, which mpirun would split at
        return drv_fail(DRV_E_IO, "could not create \"%s\": %s", agent, strerror(errno));
    const char *words[] = {"mpirun", "--hostfile", hosts, "-n", ranks, "--map-by",
            arena_printf(h->a, "ppr:%d:node", job->ranks), job->program, "launch", "rank", "--",
            job->backend};
    enum { N_WORDS = sizeof words / sizeof *words };
    const char **argv = ARENA_ARRAY(h->a, const char *, N_WORDS + job->n_train + 1);
    memcpy(argv, words, sizeof words);
    for (int i = 0; i < job->n_train; i++)
        argv[N_WORDS + i] = job->train[i];
    h->started_s = clock_s();
    return local_job_start(&h->local, argv, launch_variables(h->a, job, h->local.dir, h->address));
}

// --- how it goes
static void describe_absent(const head *h, str *out) {
    int n = 0;
    for (int i = 1; i < h->job->n_nodes; i++)
        if (!h->members[i].here) str_printf(out, "%s%d", n++ ? ", " : "", i);
}

static void wait_for_nodes(head *h) {
    const double now = clock_s();
    if (h->n_here == h->job->n_nodes) {
        head_stop_listening(h);
        if (h->job->n_nodes > 1) log_info("all %d nodes are there", h->job->n_nodes);
        if (start_mpirun(h) != DRV_OK) head_end(h, 1, drv_message());
        return;
    }
    if (now < h->until_s && now < h->say_s) return;
    str absent = {0};
    describe_absent(h, &absent);
    if (now < h->until_s)
        log_info("waiting for node%s %s of %d at %s:%d, for at most %.0f s",
                str_plural(h->job->n_nodes - h->n_here), absent.p, h->job->n_nodes, h->address,
                h->job->port, h->job->wait_s);
    else
        head_end(h, EXIT_TRY_AGAIN,
                arena_printf(h->a, "node%s %s of %d did not come within %.0f s",
                        str_plural(h->job->n_nodes - h->n_here), absent.p, h->job->n_nodes,
                        h->job->wait_s));
    str_free(&absent);
    h->say_s = now + SAY_S;
}

// When mpirun has ended, the nodes have a while to say how their ranks have; where all ranks have
// ended, or some have failed or vanished, mpirun has a while to see it.
#define RESULTS_S   30.0
#define TEARDOWN_S  20.0
#define SURVIVORS_S 120.0

static void look_at_mpirun(head *h) {
    const double now = clock_s();
    outcome all = local_job_outcome(&h->local, 0);
    int n_over = h->local.ranks_ended_s > 0, n_told = 1;
    for (int i = 1; i < h->job->n_nodes; i++) {
        if (!h->members[i].over) continue;
        all = outcome_of_both(all, h->members[i].result);
        n_told++;
        n_over++;
    }
    const bool failed = n_told > 1 && h->first_over_s > 0 && now - h->first_over_s > SURVIVORS_S;
    if (n_over == h->job->n_nodes && h->all_over_s <= 0) h->all_over_s = now;
    if (!h->local.child_ended) {
        const bool never = !local_job_has_ranks(&h->local) && now - h->started_s > h->job->wait_s;
        if (never || failed || (h->lost_s > 0 && now - h->lost_s > TEARDOWN_S) ||
                (h->all_over_s > 0 && now - h->all_over_s > TEARDOWN_S))
            local_job_end(&h->local);
        return;
    }
    if (h->mpirun_over_s <= 0) h->mpirun_over_s = now;
    if (n_told < h->job->n_nodes && now - h->mpirun_over_s < RESULTS_S) return;
    int status = outcome_status(all, h->local.child_status);
    if (n_told < h->job->n_nodes || h->lost_s > 0 || h->local.told_s > 0)
        status = all.kind == OUTCOME_FAILED ? status : EXIT_TRY_AGAIN;
    else if (all.kind == OUTCOME_NONE && h->stop_asked) // mpirun's agents got that signal too
        status = EXIT_STOPPED;
    head_end(h, status,
            h->lost                                              ? h->lost
            : status == EXIT_STOPPED && all.kind == OUTCOME_NONE ? STOPPED_EARLY
            : status == 1 && all.kind == OUTCOME_NONE ? "mpirun could not start the ranks"
                                                      : "");
}

static void pass_on(head *h) {
    for (int number; (number = local_job_signal(&h->local));) {
        h->stop_asked |= number != SIGUSR2;
        if (!local_job_forward(&h->local, number) && number != SIGUSR2 && !h->local.child)
            head_end(h, EXIT_STOPPED,
                    "stopped before the nodes had met; the same command starts it again");
    }
}

static void run(head *h) {
    h->until_s = clock_s() + h->job->wait_s;
    h->say_s = clock_s() + 2;
    while (h->verdict < 0) {
        if (h->local.child) // beats of many nodes would wake it for each
            poll(NULL, 0, LOOK_MS);
        else
            head_poll(h, LOOK_MS);
        pass_on(h);
        local_job_look(&h->local);
        head_serve_nodes(h);
        head_serve_agents(h);
        if (h->verdict >= 0) break;
        if (!h->local.child)
            wait_for_nodes(h);
        else
            look_at_mpirun(h);
    }
}

drv_status launch_head(arena *a, const launch_job *job) {
    head *h = ARENA_NEW(a, head);
    *h = (head){.a = a,
            .job = job,
            .secret = job->secret,
            .address = "127.0.0.1",
            .listener = -1,
            .agent_listener = -1,
            .n_here = 1,
            .verdict = -1,
            .why = ""};
    DRV_TRY(local_job_open(a, job->ranks, &h->local));
    drv_status status = job->n_nodes > 1 ? head_listen(h) : DRV_OK;
    if (status == DRV_OK) run(h);
    if (status == DRV_OK) say_the_end(h);
    head_close(h);
    local_job_close(&h->local);
    if (status != DRV_OK) return status;
    return h->verdict == 0 ? DRV_OK : drv_fail(outcome_as_status(h->verdict), "%s", h->why);
}
