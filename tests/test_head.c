// Node 0 of `drover launch node`, with a node that this test plays: what is said late, or twice,
// and by a line that was lost.
// Legend: a arena, h node 0, m message, line the other end of node 1's connection.
#include "harness.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exit_status.h"
#include "base/version.h"
#include "launch/head.h"

static const job_secret key = {{7}};
static int both_nodes[] = {0, 1};

// mpirun is a program that does nothing.
static void put_mpirun(arena *a, const char *line) {
    const char *dir = temporary_dir(a), *path = path_join(a, dir, "mpirun");
    const char *text = arena_printf(a, "#!/bin/sh\n%s\n", line);
    OK(file_write_atomic(path, text, strlen(text)));
    assert_int_equal(chmod(path, 0700), 0);
    setenv("PATH", arena_printf(a, "%s:%s", dir, getenv("PATH")), 1);
}

static head *open_head(arena *a, const char *mpirun) {
    launch_job *job = ARENA_NEW(a, launch_job);
    head *h = ARENA_NEW(a, head);
    put_mpirun(a, mpirun);
    *job = (launch_job){.n_nodes = 2,
            .ranks = 1,
            .rules = {.max_restarts = 9, .window_s = 3600, .min_nodes = 2},
            .run_dir = temporary_dir(a),
            .wait_s = 60,
            .program = "/bin/true",
            .backend = "cpu"};
    OK(head_open(h, a, job));
    return h;
}

static void close_head(head *h, control *line) {
    control_close(line);
    head_close(h);
}

static void come(head *h, control *line) {
    const char *fields[] = {drover_version(), "1", "2", "1", "host", "process"};
    control_message m;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    control_open(line, fd[0], true, &key);
    control_open(&h->meeting.newcomers[h->meeting.n_newcomers++], fd[1], false, &key);
    control_send(line, CONTROL_HELLO, fields, 6);
    control_pump(line);
    meeting_serve(&h->meeting);
    assert_true(h->meeting.members[1].here && h->meeting.members[1].ready);
    control_pump(&h->meeting.members[1].line);
    control_pump(line);
    assert_true(control_take(line, &m));
    assert_int_equal(m.kind, CONTROL_WELCOME);
}

static void lose(head *h, control *line) {
    shutdown(line->fd, SHUT_RDWR); // mpirun, which is being started, may still have a copy
    control_close(line);
    meeting_serve(&h->meeting);
    assert_false(h->meeting.members[1].here);
}

static void begin_attempt(head *h) {
    h->attempt = attempt_of(&h->parts, h->attempt.number + 1, 2, both_nodes);
    h->meeting.has_begun = true;
    OK(attempt_start(&h->attempt));
    h->meeting.members[1].told = true; // what to run
}

// A node ends what is left when it is told that an attempt is over, and says so; returns how often.
static int answer(head *h, control *line) {
    int n = 0;
    if (h->meeting.members[1].here) control_pump(&h->meeting.members[1].line);
    control_pump(line);
    for (control_message m; control_take(line, &m);) {
        if (m.kind != CONTROL_OVER) continue;
        control_send(line, CONTROL_READY, NULL, 0);
        n++;
    }
    control_pump(line);
    meeting_serve(&h->meeting);
    return n;
}

static void say_stopped(head *h, control *line) {
    const outcome stopped = {OUTCOME_STOPPED, EXIT_STOPPED, 1, DRV_STOPPED};
    const char *fields[] = {outcome_text(h->a, stopped), "0"};
    control_send(line, CONTROL_RESULT, fields, 2);
    control_pump(line);
    meeting_serve(&h->meeting);
}

// It has ended what was left of that attempt before it came again: another word about that would
// come in the midst of the next attempt, and its result would then be out of turn.
TEST(a_node_that_came_again_is_heard) {
    control line = {.fd = -1, .closed = true};
    head *h = open_head(a, "exec sleep 100");
    come(h, &line);
    begin_attempt(h);
    lose(h, &line);
    come(h, &line);
    head_close_attempt(h);
    begin_attempt(h);
    answer(h, &line);
    say_stopped(h, &line);
    assert_true(h->meeting.members[1].here && h->meeting.members[1].over);
    assert_int_equal(h->meeting.members[1].result.kind, OUTCOME_STOPPED);
    // One that was there all the time is told, also after its result.
    head_close_attempt(h);
    assert_false(h->meeting.members[1].ready);
    assert_int_equal(answer(h, &line), 1);
    assert_true(h->meeting.members[1].here && h->meeting.members[1].ready);
    close_head(h, &line);
}

// The attempt of mpirun's agent has lost the node that it asks for; the node that has come again is
// to take no part in it.
TEST(a_late_agent_starts_nothing) {
    int fd[2];
    control line = {.fd = -1, .closed = true}, agent;
    control_message m;
    head *h = open_head(a, "exec sleep 100");
    come(h, &line);
    begin_attempt(h);
    lose(h, &line);
    come(h, &line);
    const char *const words[] = {h->meeting.members[1].label, "orted"};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    control_open(&agent, fd[0], true, &(job_secret){0});
    control_open(&h->agents.agents[h->agents.n++].line, fd[1], false, &(job_secret){0});
    control_send(&agent, CONTROL_COMMAND, words, 2);
    control_pump(&agent);
    const attempt_nodes nodes = attempt_members(&h->attempt);
    agents_serve(&h->agents, &nodes);
    control_pump(&agent);
    assert_true(control_take(&agent, &m));
    assert_int_equal(m.kind, CONTROL_END);
    meeting_serve(&h->meeting);
    control_pump(&line);
    assert_false(control_take(&line, &m));
    control_close(&agent);
    close_head(h, &line);
}

// A rank of node 0 that has saved on request, and is gone.
static void save_here(arena *a, const head *h) {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    const char *text = arena_printf(a, "%d", (int)pid);
    OK(file_write_atomic(path_join(a, h->local.dir, "rank-0"), text, strlen(text)));
    setenv(LAUNCH_DIR, h->local.dir, 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    outcome_leave(DRV_STOPPED);
    unsetenv(LAUNCH_DIR);
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    unsetenv("OMPI_COMM_WORLD_RANK");
}

// A checkpoint is whole on all ranks before one of them ends as stopped: a node that is gone after
// that takes nothing from it, and nobody is to start the job again who had it stopped.
TEST(saved_on_request_is_stopped) {
    attempt_end end = {0};
    const char *why = "";
    control line = {.fd = -1, .closed = true};
    head *h = open_head(a, "exit 3");
    come(h, &line);
    begin_attempt(h);
    h->attempt.asked = true;
    save_here(a, h);
    lose(h, &line);
    for (int i = 0; i < 6000 && !attempt_watch(&h->attempt, &end, &why); i++) {
        meeting_serve(&h->meeting);
        local_job_signal(&h->local);
        usleep(10000);
    }
    assert_int_equal(end.status, EXIT_STOPPED);
    assert_int_equal(end.cause, END_STOPPED);
    close_head(h, &line);
}

// mpirun may hang, without reaping a rank that has ended.
TEST(a_rank_that_nobody_reaps_has_ended) {
    control line = {.fd = -1, .closed = true};
    head *h = open_head(a,
            "sh -c 'exit 1' & printf %s $! >$DROVER_LAUNCH_DIR/rank-0; exec sleep 100");
    come(h, &line);
    begin_attempt(h);
    for (int i = 0; i < 1000 && h->local.ranks_ended_s <= 0; i++) {
        local_job_poll(&h->local);
        usleep(10000);
    }
    assert_true(h->local.ranks_ended_s > 0);
    assert_false(h->local.child_ended);
    close_head(h, &line);
}
