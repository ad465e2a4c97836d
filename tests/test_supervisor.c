// What follows the end of an attempt: each row of the policy twice, from histories; and which cause
// an end has, from all that tells of it. Legend: n ends, at_s seconds.
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/exit_status.h"
#include "base/file.h"
#include "base/memory_limit.h"
#include "launch/supervisor.h"
#include "launch/attempt_cause.h"

static const supervisor_rules rules = {.max_restarts = 5, .window_s = 3600, .min_nodes = 2};

static attempt_end end_of(end_cause cause, int status, int on_node, int64_t step, double at_s) {
    return (attempt_end){cause, status, on_node, step, at_s, "host"};
}

typedef struct policy_case {
    end_cause cause;
    int status;
    bool restarts;
    double first_s, again_s; // before the first restart, before one after the same end again
} policy_case;

static const policy_case policy[] = {
        {END_DONE, 0, false, 0, 0},
        {END_STOPPED, EXIT_STOPPED, false, 0, 0},
        {END_GROWS, EXIT_STOPPED, true, 0, 0},
        {END_LOST, EXIT_TRY_AGAIN, true, 0, 1},
        {END_HANG, EXIT_TRY_AGAIN, true, 0, 1},
        {END_DEVICE, EXIT_TRY_AGAIN, true, 0, 1},
        {END_FULL, EXIT_TRY_AGAIN, true, 30, 60},
        {END_MEMORY, EXIT_TRY_AGAIN, false, 0, 0},
        {END_MEMORY, 1, false, 0, 0},
        {END_FAILED, 1, false, 0, 0},
        {END_USAGE, EXIT_USAGE, false, 0, 0},
        {END_HELD, EXIT_TRY_AGAIN, false, 0, 0},
        {END_NO_RANKS, 1, false, 0, 0},
};

TEST(each_cause_has_its_rule) {
    for (size_t i = 0; i < sizeof policy / sizeof *policy; i++) {
        const policy_case *p = &policy[i];
        const attempt_end ends[] = {end_of(p->cause, p->status, 1, 7, 10),
                end_of(p->cause, p->status, 2, 7, 20)};
        for (int n = 1; n <= 2; n++) { // twice
            const decision made = supervisor_decide(a, &rules, ends, n, 4);
            assert_int_equal(made.restarts, p->restarts);
            assert_int_equal(made.excluded, -1);
            if (!p->restarts) assert_int_equal(made.status, p->status);
            if (p->restarts) assert_true(made.wait_s == (n == 1 ? p->first_s : p->again_s));
        }
    }
}

TEST(waits_double_for_repeated_causes_alone) {
    static const double full[] = {30, 60, 120, 240, 480, 600, 600};
    const supervisor_rules many = {.max_restarts = 100, .window_s = 3600, .min_nodes = 1};
    attempt_end ends[8];
    for (int i = 0; i < 7; i++) { // steps between change nothing for a disk
        ends[i] = end_of(END_FULL, EXIT_TRY_AGAIN, -1, i, i);
        assert_true(supervisor_decide(a, &many, ends, i + 1, 4).wait_s == full[i]);
    }
    ends[7] = end_of(END_LOST, EXIT_TRY_AGAIN, 1, 7, 8);
    assert_true(supervisor_decide(a, &many, ends, 8, 4).wait_s == 0);
    ends[0] = end_of(END_LOST, EXIT_TRY_AGAIN, 1, 7, 0);
    ends[1] = end_of(END_LOST, EXIT_TRY_AGAIN, 2, 8, 1); // a step was finished between
    ends[2] = end_of(END_LOST, EXIT_TRY_AGAIN, 3, 8, 2);
    ends[3] = end_of(END_FULL, EXIT_TRY_AGAIN, -1, 8, 3);
    assert_true(supervisor_decide(a, &many, ends, 2, 4).wait_s == 0);
    assert_true(supervisor_decide(a, &many, ends, 3, 4).wait_s == 1);
    assert_true(supervisor_decide(a, &many, ends, 4, 4).wait_s == 30);
}

TEST(restarts_are_counted_in_the_window) {
    attempt_end ends[12];
    for (int i = 0; i < 6; i++)
        ends[i] = end_of(END_LOST, EXIT_TRY_AGAIN, -1, i, 100 * i);
    assert_true(supervisor_decide(a, &rules, ends, 5, 4).restarts);
    const decision made = supervisor_decide(a, &rules, ends, 6, 4);
    assert_false(made.restarts);
    assert_int_equal(made.status, EXIT_TRY_AGAIN);
    assert_non_null(strstr(made.why, "5 within 1 h are used up"));
    ends[5].at_s = 3600; // the first is an hour ago
    assert_true(supervisor_decide(a, &rules, ends, 6, 4).restarts);
    ends[5].at_s = 500;
    for (int i = 0; i < 5; i++) // what its own launcher has stopped is no failure
        ends[i].cause = END_GROWS;
    assert_true(supervisor_decide(a, &rules, ends, 6, 4).restarts);
    const supervisor_rules none = {.window_s = 3600, .min_nodes = 1};
    assert_false(supervisor_decide(a, &none, ends + 5, 1, 4).restarts);
}

TEST(a_host_is_excluded_the_second_time) {
    attempt_end ends[] = {end_of(END_LOST, EXIT_TRY_AGAIN, 2, 1, 0),
            end_of(END_HANG, EXIT_TRY_AGAIN, 1, 2, 10),
            end_of(END_DEVICE, EXIT_TRY_AGAIN, 2, 3, 20)};
    assert_int_equal(supervisor_decide(a, &rules, ends, 2, 4).excluded, -1);
    assert_int_equal(supervisor_decide(a, &rules, ends, 3, 4).excluded, 2);
    assert_int_equal(supervisor_decide(a, &rules, ends, 3, 3).excluded, 2);
    decision made = supervisor_decide(a, &rules, ends, 3, 2); // the others would be too few
    assert_true(made.restarts && made.spared);
    assert_int_equal(made.excluded, -1);
    ends[2].at_s = 3600; // the first time is forgotten
    assert_int_equal(supervisor_decide(a, &rules, ends, 3, 4).excluded, -1);
    ends[2].at_s = 20;
    ends[0].cause = END_FULL; // a disk blames no host
    assert_int_equal(supervisor_decide(a, &rules, ends, 3, 4).excluded, -1);
    ends[0] = end_of(END_LOST, EXIT_TRY_AGAIN, 0, 1, 0);
    ends[2].node = 0; // which has the loop
    made = supervisor_decide(a, &rules, ends, 3, 4);
    assert_true(made.restarts && made.spared);
}

TEST(a_step_that_fails_everywhere_ends_the_job) {
    attempt_end ends[] = {end_of(END_LOST, EXIT_TRY_AGAIN, 1, 41, 0),
            end_of(END_LOST, EXIT_TRY_AGAIN, 2, 41, 10),
            end_of(END_HANG, EXIT_TRY_AGAIN, 3, 41, 20)};
    const decision made = supervisor_decide(a, &rules, ends, 3, 8);
    assert_false(made.restarts);
    assert_true(made.same_rows);
    assert_int_equal(made.status, 1);
    assert_non_null(strstr(made.why, "step 42"));
    ends[2].node = 1; // twice on the same
    assert_true(supervisor_decide(a, &rules, ends, 3, 8).restarts);
    ends[2].node = 3;
    ends[1].step = 40;
    assert_true(supervisor_decide(a, &rules, ends, 3, 8).restarts);
    for (int i = 0; i < 3; i++) // it is not known which step it was
        ends[i].step = -1;
    assert_true(supervisor_decide(a, &rules, ends, 3, 8).restarts);
}

TEST(the_table_names_every_cause) {
    str text = {0};
    int n_lines = 0;
    supervisor_explain(&rules, &text);
    for (size_t i = 0; i < text.n; i++)
        n_lines += text.p[i] == '\n';
    assert_int_equal(n_lines, 1 + N_END_CAUSES + 4);
    assert_non_null(strstr(text.p, "At most 5 restarts within 1 h, on at least 2 nodes."));
    for (int i = 0; i < N_END_CAUSES; i++)
        assert_true(strlen(end_cause_name((end_cause)i)) > 0);
    str_free(&text);
}

// --- causes
typedef struct cause_case {
    outcome all;
    int status;
    const char *said; // cause of status.json; NULL: it is not of this attempt
    bool lacked_memory, grows;
    end_cause expected;
} cause_case;

static const cause_case causes[] = {
        {{OUTCOME_DONE, 0, 0, DRV_OK}, 0, "done", false, false, END_DONE},
        {{OUTCOME_DONE, 0, 0, DRV_OK}, 0, NULL, true, true, END_DONE},
        {{OUTCOME_STOPPED, 3, 0, DRV_STOPPED}, 3, "stopped", false, false, END_STOPPED},
        {{OUTCOME_STOPPED, 3, 0, DRV_STOPPED}, 3, "stopped", false, true, END_GROWS},
        {{OUTCOME_PEER, 75, 0, DRV_E_PEER}, 75, "peer", false, false, END_LOST},
        {{OUTCOME_UNREPORTED, 0, 0, DRV_E_PEER}, 75, NULL, false, false, END_LOST},
        {{OUTCOME_PEER, 75, 0, DRV_E_PEER}, 75, "hang", false, false, END_HANG},
        {{OUTCOME_FAILED, 75, 1, DRV_E_FAULT}, 75, "fault", false, false, END_DEVICE},
        {{OUTCOME_PEER, 75, 0, DRV_E_PEER}, 75, "fault", false, false, END_DEVICE},
        {{OUTCOME_FAILED, 75, 1, DRV_E_FULL}, 75, NULL, false, false, END_FULL},
        {{OUTCOME_PEER, 75, 0, DRV_E_PEER}, 75, "full", false, false, END_FULL},
        {{OUTCOME_UNREPORTED, 0, 1, DRV_E_PEER}, 75, NULL, true, false, END_MEMORY},
        {{OUTCOME_PEER, 75, 0, DRV_E_PEER}, 75, "peer", true, false, END_MEMORY},
        {{OUTCOME_FAILED, 1, 0, DRV_E_DEVICE}, 1, "memory", false, false, END_MEMORY},
        {{OUTCOME_FAILED, 1, 0, DRV_E_DATA}, 1, "not_finite", false, false, END_FAILED},
        {{OUTCOME_FAILED, 1, 0, DRV_E_DATA}, 1, "data", false, false, END_FAILED},
        {{OUTCOME_FAILED, 1, 0, DRV_E_DEVICE}, 1, "device", false, false, END_FAILED},
        {{OUTCOME_FAILED, 1, 0, DRV_E_IO}, 1, NULL, false, false, END_FAILED},
        {{OUTCOME_FAILED, 2, 0, DRV_E_USAGE}, 2, NULL, false, false, END_USAGE},
        {{OUTCOME_FAILED, 2, 0, DRV_E_USAGE}, 2, "usage", false, false, END_USAGE},
        {{OUTCOME_FAILED, 75, 0, DRV_E_BUSY}, 75, NULL, false, false, END_HELD},
        {{OUTCOME_FAILED, 75, 1, DRV_E_BUSY}, 75, "peer", false, false, END_HELD},
        {{OUTCOME_NONE, 0, 0, DRV_OK}, 1, NULL, false, false, END_NO_RANKS},
        {{OUTCOME_NONE, 0, 0, DRV_OK}, 1, NULL, false, true, END_NO_RANKS},
};

TEST(each_end_has_its_cause) {
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        const cause_case *c = &causes[i];
        run_status said = run_status_new();
        said.end = c->status == 0 ? RUN_DONE : c->status == 3 ? RUN_STOPPED : RUN_FAILED;
        said.cause = c->said ? c->said : "";
        const attempt_facts facts = {c->all, c->status, c->said ? &said : NULL, c->lacked_memory,
                c->grows};
        if (attempt_cause(&facts) != c->expected)
            fail_msg("case %zu is %s", i, end_cause_name(attempt_cause(&facts)));
    }
}

// --- what the system has killed
static void write_file(const char *root, const char *path, const char *text) {
    arena *a = arena_new("file");
    const char *all = path_join(a, root, path);
    char *folder = arena_strdup(a, all);
    *strrchr(folder, '/') = 0;
    OK(dir_make(folder));
    OK(file_write_atomic(all, text, strlen(text)));
    arena_free(a);
}

TEST(kills_for_memory_are_counted) {
    char root[] = "/tmp/drover-kills-XXXXXX";
    assert_non_null(mkdtemp(root));
    assert_int_equal(memory_kills_read(root), -1);
    write_file(root, "proc/vmstat", "oom_kill 3\n"); // of the machine
    assert_int_equal(memory_kills_read(root), 3);
    write_file(root, "proc/self/cgroup", "4:memory:/job\n0::/\n"); // version 1
    write_file(root, "sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\noom_kill 7\n");
    assert_int_equal(memory_kills_read(root), 7);
    write_file(root, "sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 2\n");
    assert_int_equal(memory_kills_read(root), 2);           // our own group, not those above it
    write_file(root, "proc/self/cgroup", "0::/job/step\n"); // version 2
    write_file(root, "sys/fs/cgroup/job/memory.events", "oom 1\noom_kill 1\n");
    assert_int_equal(memory_kills_read(root), 1);
    write_file(root, "sys/fs/cgroup/job/step/memory.events", "oom 0\noom_kill 0\n");
    assert_int_equal(memory_kills_read(root), 0);
    OK(dir_remove(root));
}
