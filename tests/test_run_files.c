// events.jsonl and status.json of a run: what is written is read again, what is not ours is not
// believed, and what was torn harms nothing that comes after it.
#include "harness.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watch/files/run_events.h"
#include "watch/files/run_status.h"

#define HEAD "{\"time\": 1.5, \"mono\": 2, \"attempt\": 1, \"event\": "

static void append(const char *dir, const char *text) {
    arena *a = arena_new("append");
    FILE *f = fopen(path_join(a, dir, "events.jsonl"), "a");
    fputs(text, f);
    fclose(f);
    arena_free(a);
}

// --- events
static json_t *start_fields(void) {
    return json_pack("{s:s, s:i, s:i, s:s, s:i, s:s, s:n, s:i, s:s}", "version", "x", "ranks", 4,
            "nodes", 2, "host", "n1", "pid", 7, "job", "", "restarts", "steps", 100, "backend",
            "cpu");
}

TEST(each_start_is_an_attempt) {
    const char *dir = temporary_dir(a);
    for (int attempt = 1; attempt <= 3; attempt++) {
        run_events *events;
        OK(run_events_open(a, dir, 0, &events));
        assert_int_equal(run_events_attempt(events), attempt);
        OK(run_events_add(events, EVENT_START, start_fields()));
        OK(run_events_add(events, EVENT_RUNNING, json_pack("{s:i}", "step", 10 * attempt)));
        run_events_close(events);
    }
    run_event_list list;
    OK(run_events_read(dir, &list));
    assert_int_equal(list.n, 6);
    assert_int_equal(list.n_broken, 0);
    assert_int_equal(list.events[5].kind, EVENT_RUNNING);
    assert_int_equal(list.events[5].attempt, 3);
    assert_int_equal(run_event_i64(&list.events[5], "step", -1), 30);
    assert_string_equal(run_event_text(&list.events[0], "host"), "n1");
    assert_int_equal(run_event_i64(&list.events[0], "restarts", -1), -1);
    assert_true(list.events[5].time > 1.7e9 && list.events[5].mono >= list.events[0].mono);
    run_events_free(&list);
}

TEST(torn_line_is_ended) {
    const char *dir = temporary_dir(a);
    run_events *events;
    run_event_list list;
    append(dir, HEAD "\"running\", \"step\": 1}\n" HEAD "\"runn");
    OK(run_events_read(dir, &list));
    assert_int_equal(list.n, 1);
    assert_true(list.torn);
    run_events_free(&list);
    OK(run_events_open(a, dir, 0, &events));
    OK(run_events_add(events, EVENT_RUNNING, json_pack("{s:i}", "step", 2)));
    run_events_close(events);
    OK(run_events_read(dir, &list));
    assert_int_equal(list.n, 2);
    assert_int_equal(list.n_broken, 1);
    assert_false(list.torn);
    assert_int_equal(run_event_i64(&list.events[1], "step", -1), 2);
    run_events_free(&list);
}

// A limit on the size of files stands for a full disk: the journal opens, and what it did not take
// comes when there is room.
TEST(torn_line_on_a_full_disk) {
    const char *dir = temporary_dir(a);
    run_events *events;
    run_event_list list;
    struct rlimit room;
    signal(SIGXFSZ, SIG_IGN);
    append(dir, HEAD "\"runn");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &room), 0);
    const struct rlimit full = {(rlim_t)file_size(path_join(a, dir, "events.jsonl")),
            room.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    OK(run_events_open(a, dir, 0, &events));
    FAILS(run_events_add(events, EVENT_RUNNING, json_pack("{s:i}", "step", 1)), DRV_E_IO, "write");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &room), 0);
    OK(run_events_add(events, EVENT_RUNNING, json_pack("{s:i}", "step", 2)));
    run_events_close(events);
    OK(run_events_read(dir, &list));
    assert_int_equal(list.n, 2);
    assert_int_equal(list.n_broken, 1);
    assert_int_equal(run_event_i64(&list.events[0], "step", -1), 1);
    run_events_free(&list);
}

TEST(lines_of_others_are_counted) {
    static const struct {
        const char *line;
        int n, broken, unknown;
    } cases[] = {
            {HEAD "\"running\", \"step\": 1}", 1, 0, 0},
            {HEAD "\"running\", \"step\": 1, \"more\": [1]}", 1, 0, 0},
            {HEAD "\"running\", \"step\": 1.5}", 0, 1, 0},
            {HEAD "\"running\", \"step\": null}", 0, 1, 0},
            {HEAD "\"running\"}", 0, 1, 0},
            {HEAD "\"rank_replaced\", \"step\": 1}", 0, 0, 1},
            {HEAD "7, \"step\": 1}", 0, 1, 0},
            {HEAD "\"running\", \"step\": 1, \"step\": 1}", 0, 1, 0},
            {HEAD "\"evaluation\", \"step\": 1, \"seconds\": 2, \"val_loss\": null}", 1, 0, 0},
            {HEAD "\"evaluation\", \"step\": 1, \"seconds\": null, \"val_loss\": 1}", 0, 1, 0},
            {HEAD "\"stop\", \"step\": 1, \"signal\": \"SIGTERM\"}", 1, 0, 0},
            {HEAD "\"stop\", \"step\": 1, \"signal\": 15}", 0, 1, 0},
            {"{\"time\": 1, \"mono\": 1, \"attempt\": 0, \"event\": \"running\", \"step\": 1}", 0,
                    1, 0},
            {"{\"time\": \"1\", \"mono\": 1, \"attempt\": 1, \"event\": \"running\", \"step\": 1}",
                    0, 1, 0},
            {"{\"time\": 1e999, \"mono\": 1, \"attempt\": 1, \"event\": \"running\", \"step\": 1}",
                    0, 1, 0},
            {"[]", 0, 1, 0},
            {"", 0, 0, 0},
            {"\x01\xff\xfe{", 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        run_event_list list;
        const int n = snprintf(text, sizeof text, "%s\n", cases[i].line);
        run_events_parse(text, (size_t)n, &list);
        if (list.n != cases[i].n || list.n_broken != cases[i].broken ||
                list.n_unknown != cases[i].unknown)
            fail_msg("%lld events, %lld broken, %lld unknown: %s", (long long)list.n,
                    (long long)list.n_broken, (long long)list.n_unknown, text);
        run_events_free(&list);
    }
}

TEST(journal_must_be_a_file) {
    const char *dir = temporary_dir(a);
    run_events *events;
    run_event_list list;
    assert_int_equal(mkfifo(path_join(a, dir, "events.jsonl"), 0666), 0);
    FAILS(run_events_open(a, dir, 1, &events), DRV_E_IO, "events.jsonl");
    FAILS(run_events_read(dir, &list), DRV_E_IO, "it is a pipe");
    OK(run_events_read(temporary_dir(a), &list)); // none
    assert_int_equal(list.n, 0);
}

// What is added goes to the folder that it was opened in, wherever that is now.
TEST(journal_moves_with_its_folder) {
    const char *dir = path_join(a, temporary_dir(a), "run"),
               *moved = arena_printf(a, "%s.old", dir);
    run_events *events;
    run_event_list list;
    OK(dir_make(dir));
    OK(run_events_open(a, dir, 0, &events));
    assert_int_equal(rename(dir, moved), 0);
    OK(dir_make(dir));
    OK(run_events_add(events, EVENT_RUNNING, json_pack("{s:i}", "step", 1)));
    run_events_close(events);
    OK(run_events_read(dir, &list));
    assert_int_equal(list.n, 0);
    OK(run_events_read(moved, &list));
    assert_int_equal(list.n, 1);
    run_events_free(&list);
}

// --- status
static run_status some_status(void) {
    run_status s = run_status_new();
    s.state = RUN_ENDED;
    s.step = 40;
    s.steps = 100;
    s.loss = 2.25;
    s.attempt = 3;
    s.ranks = 8;
    s.nodes = 2;
    s.host = "n1";
    s.pid = 4711;
    s.saved_step = 30;
    s.end = RUN_FAILED;
    s.exit_status = 75;
    s.cause = "peer";
    s.message = "rank 5 (n2) died";
    s.failed_rank = 5;
    s.failed_host = "n2";
    return s;
}

TEST(status_is_read_again) {
    const char *dir = temporary_dir(a);
    const run_status s = some_status();
    run_status read;
    const char *users = path_join(a, dir, "status.json.tmp");
    const int fd = open(dir, O_RDONLY | O_DIRECTORY);
    OK(file_write_atomic(users, "mine", 4));
    OK(run_status_write(fd, &s, true));
    OK(run_status_write(fd, &s, false));
    close(fd);
    assert_int_equal(file_size(users), 4);
    assert_false(file_exists(path_join(a, dir, "status.json" FILE_ASIDE)));
    OK(run_status_read(a, dir, &read));
    assert_int_equal(read.state, RUN_ENDED);
    assert_int_equal(read.step, 40);
    assert_int_equal(read.end, RUN_FAILED);
    assert_int_equal(read.exit_status, 75);
    assert_int_equal(read.failed_rank, 5);
    assert_int_equal(read.saved_step, 30);
    assert_string_equal(read.message, s.message);
    assert_string_equal(read.failed_host, "n2");
    assert_true(isnan(read.eta_s) && read.loss == 2.25 && read.time > 1.7e9);
}

TEST(foreign_status_is_refused) {
    static const char whole[] =
            "{\"version\": 1, \"state\": \"running\", \"time\": 1.5, \"step\": 1, \"steps\": 2, "
            "\"loss\": null, \"attempt\": 1, \"ranks\": 1, \"nodes\": 1%s}";
    static const struct {
        const char *before, *after, *more, *says; // `after` in place of `before`
    } cases[] = {
            {"\"version\": 1", "\"version\": 2", "", "\"version\" is 2, expected 1"},
            {"\"version\": 1, ", "", "", "\"version\" is -1, expected 1"},
            {"\"version\": 1", "\"version\": \"1\"", "", "\"version\" is \"1\""},
            {"running", "walking", "", "\"state\" is \"walking\""},
            {"\"step\": 1", "\"step\": -1", "", "\"step\" is below 0"},
            {"\"step\": 1, ", "", "", "\"step\" is missing"},
            {"\"time\": 1.5, ", "", "", "\"time\" is missing"},
            {"running", "ended", "", "\"end\" is null"},
            {"running", "running", ", \"end\": \"done\"", "\"end\" is done"},
            {"running", "ended", ", \"end\": \"gone\"", "\"end\" is \"gone\""},
            {"running", "running", ", \"message\": 5", "\"message\" is 5"},
            {"running", "running", ", \"failed_rank\": -2", "\"failed_rank\" is below 0"},
    };
    run_status read;
    const char *plain = arena_printf(a, whole, "");
    OK(run_status_parse(a, "s", plain, strlen(plain), &read));
    assert_int_equal(read.pid, -1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = arena_printf(a, whole, cases[i].more);
        const char *at = strstr(text, cases[i].before);
        const char *all = arena_printf(a, "%.*s%s%s", (int)(at - text), text, cases[i].after,
                at + strlen(cases[i].before));
        FAILS(run_status_parse(a, "s", all, strlen(all), &read), DRV_E_DATA, cases[i].says);
    }
    FAILS(run_status_parse(a, "s", plain, 30, &read), DRV_E_DATA, "not valid JSON");
    FAILS(run_status_parse(a, "s", "[]", 2, &read), DRV_E_DATA, "expected an object");
}
