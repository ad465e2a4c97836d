// A rank under mpirun that is killed is named by all others, with host, step and operation, also
// while they compute and would not look for long; the words of one that gives up are not lost; one
// that is stopped is found by the watchdog, with a table; the record of the last operations is
// there afterwards.
#include "ranks.h"

#include <signal.h>

#include "base/stop.h"

// PATIENCE: looks, 10 ms apart, at what must come.
enum { RANKS = 4, VICTIM = 2, PATIENCE = 12000, LONGEST_S = 300 };

static bool has_file(const char *dir, const char *name, int rank) {
    char path[1100];
    snprintf(path, sizeof path, "%s/%s-%d", dir, name, rank);
    return file_exists(path);
}

// A file of this rank.
static drv_status leave_file(const char *dir, const char *name, int rank) {
    char text[32], path[1100];
    snprintf(path, sizeof path, "%s/%s-%d", dir, name, rank);
    snprintf(text, sizeof text, "%d", (int)getpid());
    return file_write_atomic(path, text, strlen(text));
}

// What mpirun has not forwarded when it ends a job is lost: each rank's words go to a file.
static drv_status speak_to_file(const char *dir, int rank) {
    char path[1100];
    snprintf(path, sizeof path, "%s/said-%d", dir, rank);
    if (!freopen(path, "a", stderr)) return drv_fail(DRV_E_IO, "\"%s\" cannot be opened", path);
    setvbuf(stderr, NULL, _IONBF, 0);
    return DRV_OK;
}

static void compute_until_ended(void) {
    for (;;) // by the thread that watches the others, with the process
        pause();
}

static bool hears_of(comm *self, int rank) {
    rank_view view;
    comm_view_rank(self, rank, &view);
    return view.step > 0;
}

// Steps for ever. argv: the folder for process ids and records; "computes" in it: the others come
// to no collective any more.
static drv_status steps(comm *self, void *ctx) {
    const char *dir = ctx;
    float values[1500] = {0};
    alarm(LONGEST_S); // a rank that nothing ends
    const int rank = comm_rank(self);
    const bool computes = strstr(dir, "computes") && rank != VICTIM;
    bool told = false;
    DRV_TRY(speak_to_file(dir, rank));
    DRV_TRY(comm_record(self, dir));
    for (int64_t step = 1;; step++) {
        comm_note(self, step, "step");
        DRV_TRY(comm_all_reduce(comm_all_ranks(self), DT_F32, COMM_SUM, values, 1500, NULL));
        if (step >= 100 && !told && hears_of(self, VICTIM)) {
            DRV_TRY(leave_file(dir, "pid", rank));
            told = true;
        }
        // Those that no longer come to the sum would keep the others from it: so all go there first.
        bool all = computes;
        for (int other = 0; all && other < RANKS; other++)
            all = has_file(dir, "pid", other);
        if (all) compute_until_ended();
        usleep(500);
    }
}

static void wait_for_others(const char *dir, const char *name) {
    for (int rank = 0; rank < RANKS; rank++)
        while (rank != VICTIM && !has_file(dir, name, rank))
            usleep(1000);
}

// Gives up in the middle of a step, when all others are in it, and is slow to say why: argv as above.
static drv_status gives_up(comm *self, void *ctx) {
    const char *dir = ctx;
    alarm(LONGEST_S);
    const int rank = comm_rank(self);
    DRV_TRY(speak_to_file(dir, rank));
    comm_note(self, 1, "step");
    if (rank != VICTIM) {
        DRV_TRY(leave_file(dir, "pid", rank));
        const drv_status status =
                strstr(dir, "computes") ? DRV_OK : comm_barrier(comm_all_ranks(self));
        while (comm_blamed(self).rank != VICTIM)
            usleep(1000);
        OK(leave_file(dir, "heard", rank));
        if (status == DRV_OK) compute_until_ended();
        return status;
    }
    wait_for_others(dir, "pid");
    drv_fail(DRV_E_IO, "no room on this host");
    if (!comm_abort(self, DRV_E_IO)) return drv_fail(DRV_E_PEER, "%s", "");
    wait_for_others(dir, "heard");
    usleep(500000); // more than those wait who do not know better; nothing fails by luck here
    for (int other = 0; other < RANKS; other++)
        if (has_ended(other)) drv_fail(DRV_E_IO, "rank %d ends before the words are out", other);
    log_failure(drv_message());
    comm_mark_reported(self);
    return drv_fail(DRV_E_PEER, "%s", "");
}

static pid_t pid_of(arena *a, const char *dir, int rank) {
    const char *path = arena_printf(a, "%s/pid-%d", dir, rank);
    for (int i = 0; i < PATIENCE && !file_exists(path); i++)
        usleep(10000);
    int64_t pid = 0;
    if (!str_to_i64(text_of(a, path), &pid)) fail_msg("no \"%s\"", path);
    return (pid_t)pid;
}

// What all ranks and mpirun have said.
static const char *said_by_all(arena *a, const char *dir, const char *out) {
    const char *text = text_of(a, out);
    for (int rank = 0; rank < RANKS; rank++)
        text = arena_printf(a, "%s\n%s", text,
                text_of(a, arena_printf(a, "%s/said-%d", dir, rank)));
    return text;
}

static void wait_for(arena *a, const char *dir, const char *out, const char *text) {
    for (int i = 0; i < PATIENCE && !strstr(said_by_all(a, dir, out), text); i++)
        usleep(10000);
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void kill_one(const char *folder) {
    arena *a = arena_new("test");
    const char *dir = path_join(a, temporary_dir(a), folder), *out = path_join(a, dir, "out");
    OK(dir_make(dir));
    const pid_t run = start_mpirun(RANKS, "steps", dir, out);
    for (int rank = 0; rank < RANKS; rank++)
        pid_of(a, dir, rank);
    kill(pid_of(a, dir, VICTIM), SIGKILL);
    const int status = exit_of(run);
    const char *text = said_by_all(a, dir, out);
    if (status == 0) fail_msg("status 0: %s", text);
    // By the connection that broke, at once; not by the silence that would show it later.
    if (strstr(text, "stopped answering")) fail_msg("found by its silence: %s", text);
    const char *named = arena_printf(a, "drover: rank %d (", VICTIM);
    if (count(text, named) != RANKS - 1 ||
            count(text, "died, last heard of at step ") != RANKS - 1 ||
            strstr(text, "last heard of at step 0"))
        fail_msg("not named by %d others: %s", RANKS - 1, text);
    const char *record = text_of(a, arena_printf(a, "%s/rank-%05d.txt", dir, VICTIM));
    if (strlen(record) != 65 * 128 || !strstr(record, "all_reduce over all ranks"))
        fail_msg("record: %s", record);
    arena_free(a);
}

TEST(a_killed_rank_is_named_by_all_others) {
    if (has_mpirun()) kill_one("waits");
}

TEST(also_while_they_compute) {
    if (has_mpirun()) kill_one("computes");
}

// mpirun would end all when the first one ends: so nobody does before the words are out.
static void give_up(const char *folder) {
    arena *a = arena_new("test");
    const char *dir = path_join(a, temporary_dir(a), folder), *out = path_join(a, dir, "out");
    OK(dir_make(dir));
    const int status = exit_of(start_mpirun(RANKS, "gives up", dir, out));
    const char *text = said_by_all(a, dir, out);
    if (status != 1 || count(text, "drover: ") != 1 ||
            count(text, "drover: no room on this host\n") != 1)
        fail_msg("the others in \"%s\": status %d: %s", folder, status, text);
    arena_free(a);
}

TEST(why_a_rank_gives_up_is_said_once) {
    if (!has_mpirun()) return;
    give_up("waits");
    give_up("computes");
}

TEST(a_stopped_rank_is_found) {
    if (!has_mpirun()) return;
    const char *dir = temporary_dir(a), *out = path_join(a, dir, "out");
    const pid_t run = start_mpirun(RANKS, "is stopped", dir, out);
    const pid_t victim = pid_of(a, dir, VICTIM);
    pid_of(a, dir, 0);
    kill(victim, SIGSTOP);
    wait_for(a, dir, out, "rank 2 ("); // on a busy machine another one may have been late before
    kill(victim, SIGCONT);
    wait_for(a, dir, out, "rank 2 continues");
    kill(victim, SIGSTOP); // and now for good
    for (int rank = 0; rank < RANKS; rank++)
        while (rank != VICTIM && !file_exists(arena_printf(a, "%s.ended/%d", out, rank)))
            usleep(1000);
    kill(victim, SIGKILL);
    const int status = exit_of(run);
    const char *text = said_by_all(a, dir, out);
    static const char *const said[] = {"rank 2 (", "holds up the others",
            "all_reduce over all ranks", "the others wait for this one", "rank 2 continues",
            "stopped answering, last heard of at step", "waits in all_reduce over all ranks"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(text, said[i])) fail_msg("no \"%s\" in: %s", said[i], text);
    assert_int_not_equal(status, 0);
}

static drv_status is_asked_to_stop(comm *self, void *ctx) {
    (void)ctx;
    alarm(LONGEST_S);
    stop_listen();
    DRV_TRY(comm_barrier(comm_all_ranks(self)));
    if (comm_rank(self) == VICTIM) raise(SIGUSR1);
    for (int i = 0; i < PATIENCE && !stop_requested(); i++)
        usleep(10000);
    EXPECT(self, stop_number() == SIGUSR1);
    return comm_barrier(comm_all_ranks(self));
}

TEST(a_stop_of_one_rank_reaches_all) {
    if (!has_mpirun()) return;
    const char *out = path_join(a, temporary_dir(a), "out");
    const int status = exit_of(start_mpirun(RANKS, "is asked to stop", ".", out));
    if (status != 0) fail_msg("status %d: %s", status, text_of(a, out));
}

int main(int argc, char **argv) {
    const comm_opts opts = {.silent_s = 1.5, .stuck_s = 60, .give_up_s = 4};
    if (argc > 2 && strcmp(argv[1], "is stopped") == 0) return play(steps, argv[2], &opts);
    if (argc > 2 && strcmp(argv[1], "steps") == 0) return play(steps, argv[2], NULL);
    if (argc > 2 && strcmp(argv[1], "gives up") == 0) return play(gives_up, argv[2], NULL);
    if (argc > 2 && strcmp(argv[1], "is asked to stop") == 0)
        return play(is_asked_to_stop, argv[2], NULL);
    return tests_run();
}
