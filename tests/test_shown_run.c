// A run as others are shown it: metrics for Prometheus, posts of progress; text from anywhere in it
// breaks out of none of them.
#include <math.h>

#include "base/clock.h"
#include "harness.h"
#include "watch/server/progress_body.h"
#include "watch/server/prometheus.h"
#include "watch/views/run_report.h"
#include "watch/views/top_view.h"

static watched_run run_with(const char *events) {
    watched_run run = {.dir = "runs/a",
            .has_status = true,
            .status = run_status_new(),
            .last = {.step = 40,
                    .loss = 2.5,
                    .lr = 1e-4,
                    .grad_norm = 1,
                    .tokens_per_s = 1000,
                    .mfu = (double)NAN,
                    .step_s = 0.5,
                    .tokens = 1 << 20,
                    .val_loss = (double)NAN},
            .sums = {.goodput = (double)NAN, .n_attempts = 3, .n_lost_steps = 7}};
    run.status.state = RUN_RUNNING;
    run.status.time = clock_utc_s();
    run.status.host = "n1";
    run.status.step = 40;
    run.status.steps = 200;
    run.status.eta_s = 80.7;
    run.status.ranks = 2;
    run_events_parse(events, strlen(events), &run.events);
    return run;
}

static str metrics_of(const watched_run *run, const prometheus_opts *opts) {
    str out = {0};
    prometheus_add(run, opts, &out);
    return out;
}

static void has_line(const str *text, const char *line) {
    const char *at = strstr(text->p, line);
    const size_t n = strlen(line);
    if (!at || (at != text->p && at[-1] != '\n') || at[n] != '\n')
        fail_msg("no line \"%s\" in\n%s", line, text->p);
}

// --- Prometheus
TEST(metrics_have_their_values) {
    watched_run run = run_with("");
    static const double lengths[] = {0.005, 0.5, 0.5, 0.7, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        step_histogram_add(&run.steps, lengths[i]);
    step_histogram_add(&run.steps, (double)NAN);
    step_histogram_add(&run.steps, -1);
    str text = metrics_of(&run, &(prometheus_opts){.save_every = 50});
    static const char *const lines[] = {"drover_step 40", "drover_loss 2.5",
            "drover_tokens_total 1048576", "drover_restarts_total 2", "drover_lost_steps_total 7",
            "drover_step_seconds_bucket{le=\"0.01\"} 1",
            "drover_step_seconds_bucket{le=\"0.25\"} 1", "drover_step_seconds_bucket{le=\"0.5\"} 3",
            "drover_step_seconds_bucket{le=\"1\"} 4", "drover_step_seconds_bucket{le=\"1000\"} 4",
            "drover_step_seconds_bucket{le=\"+Inf\"} 5", "drover_step_seconds_count 5",
            "drover_checkpoint_interval_steps 50",
            "drover_run_info{directory=\"runs/a\",state=\"running\",host=\"n1\"} 1"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        has_line(&text, lines[i]);
    assert_null(strstr(text.p, "drover_mfu_ratio")); // unknown
    assert_null(strstr(text.p, "drover_validation_loss"));
    assert_null(strstr(text.p, "drover_goodput_ratio"));
    assert_null(strstr(text.p, "rank=\""));
    str_free(&text);
}

TEST(no_number_is_told_as_nan) {
    watched_run run = run_with("");
    run.last.loss = (double)NAN;
    str text = metrics_of(&run, &(prometheus_opts){0});
    has_line(&text, "drover_loss NaN");
    str_clear(&text);
    progress_body(&run, 0, &text);
    assert_non_null(strstr(text.p, "{\"name\":\"loss\",\"value\":\"NaN\"}"));
    str_free(&text);
}

#define EVENT(kind, more)                                                                          \
    "{\"time\": 1000.25, \"mono\": 2, \"attempt\": 1, \"event\": \"" kind "\"" more "}\n"

TEST(saves_are_told) {
    watched_run run =
            run_with(EVENT("save", ", \"step\": 30, \"seconds\": 1, \"blocked_s\": 0, \"bytes\": 1")
                            EVENT("running", ", \"step\": 31"));
    assert_int_equal(run.events.n, 2);
    str text = metrics_of(&run, &(prometheus_opts){0});
    has_line(&text, "drover_checkpoint_last_success_timestamp_seconds 1000.25");
    has_line(&text, "drover_checkpoint_last_success_step 30");
    str_free(&text);
    run_events_free(&run.events);
}

TEST(ranks_are_told_when_asked) {
    rank_row rows[3] = {{.known = true, .wait_s = 0.25}, {.known = false},
            {.known = true, .wait_s = 2}};
    watched_run run = run_with("");
    run.table = (rank_table){.rows = rows, .n = 3};
    str text = metrics_of(&run, &(prometheus_opts){.ranks = true});
    has_line(&text, "drover_rank_wait_seconds{rank=\"0\"} 0.25");
    has_line(&text, "drover_rank_wait_seconds{rank=\"2\"} 2");
    assert_null(strstr(text.p, "rank=\"1\""));
    str_free(&text);
}

// --- text that others have chosen
static const char hostile[] =
        "<script>alert('1')</script>\"} 1\ndrover_loss 0\n\\\x1b[2J\x07\xff\xc3(&amp;\r";

TEST(labels_are_escaped) {
    watched_run run = run_with("");
    run.dir = run.status.host = hostile;
    str text = metrics_of(&run, &(prometheus_opts){0});
    int n = 0;
    for (const char *line = text.p; *line; line = strchr(line, '\n') + 1, n++) {
        if (*line == '#') continue;
        assert_true(strncmp(line, "drover_", 7) == 0);
        if (strncmp(line, "drover_loss ", 12) == 0) assert_memory_equal(line + 12, "2.5\n", 4);
    }
    for (const char *p = text.p; *p; p++)
        assert_true(*p == '\n' || (*p >= ' ' && *p <= '~'));
    assert_non_null(strstr(text.p, "</script>\\\"} 1?drover_loss 0?\\\\?[2J?"));
    str_free(&text);
}

TEST(pages_and_terminals_are_left_whole) {
    watched_run run = run_with("");
    rank_row row = {.known = true};
    memcpy(row.host, "<b>\x1b\"&", 7);
    run.dir = run.status.host = hostile;
    run.status.state = RUN_ENDED;
    run.status.end = RUN_FAILED;
    run.status.cause = run.status.message = hostile;
    run.table = (rank_table){.rows = &row, .n = 1};
    str_puts(&run.problems, hostile);
    watched_run *list = &run;
    const char *about = hostile;
    for (int served = 0; served < 2; served++) {
        str page = {0};
        run_report_html(&list, 1, &(report_opts){.about = &about, .served = served}, &page);
        assert_null(strstr(page.p, "<script>"));
        assert_null(strstr(page.p, "<b>"));
        assert_non_null(strstr(page.p, "&lt;script&gt;"));
        for (const char *p = page.p; *p; p++)
            assert_true(*p == '\n' || (unsigned char)*p >= ' ');
        // A page that is served has nothing inside of it that its policy forbids.
        assert_int_equal(strstr(page.p, "<style") != NULL, !served);
        assert_null(strstr(page.p, "style=\""));
        str_free(&page);
    }
    str text = {0};
    run_report_text(&list, 1, &(report_opts){.about = &about}, &text);
    for (const char *p = text.p; *p; p++)
        assert_true(*p == '\n' || ((unsigned char)*p >= ' ' && *p != 127));
    str_free(&text);
    str_free(&run.problems);
}

static void draw_list(watched_run *run, int columns, str *out) {
    top_view view = {.page = PAGE_LIST, .selected = -1, .about = ""};
    screen grid = screen_new(columns, 2);
    top_draw_list(&grid, &run, 1, &view);
    screen_print(&grid, false, out);
    screen_free(&grid);
}

// A folder whose metrics.jsonl is empty, or has no line that can be read.
TEST(a_run_without_a_step) {
    watched_run run = run_with("");
    watched_run *list = &run;
    const char *about = "";
    str text = {0};
    run.has_status = false;
    run.last.step = -1;
    run_report_text(&list, 1, &(report_opts){.about = &about}, &text);
    assert_non_null(strstr(text.p, "unknown: no step is known\n"));
    assert_null(strstr(text.p, "-1"));
    str_clear(&text);
    draw_list(&run, 100, &text);
    assert_null(strstr(text.p, "-1"));
    str_free(&text);
}

// Columns stand below each other, whatever the name; a long one loses its beginning, not half of a
// character.
TEST(a_list_has_columns) {
    static const char *const names[] = {"runs/a", "runs/\u00e9t\u00e9",
            "runs/\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        watched_run run = run_with("");
        str text = {0};
        run.dir = names[i];
        draw_list(&run, 100, &text);
        const char *line = strchr(text.p, '\n') + 1, *column = strstr(line, " running ");
        int n = 0;
        for (const char *p = line; p < column; p++)
            n += (*p & 0xc0) != 0x80;
        assert_int_equal(n, 28);
        assert_null(strchr(line, '?'));
        for (int columns = 1; columns < 40; columns++) // of a narrow terminal
            draw_list(&run, columns, &text);
        str_free(&text);
    }
}

// What is done is no fault.
TEST(an_end_has_its_colour) {
    watched_run run = run_with("");
    top_view view = {.about = ""};
    str text = {0};
    run.status.state = RUN_ENDED;
    run.status.end = RUN_DONE;
    run.status.cause = run.status.message = "";
    screen grid = screen_new(80, 10);
    top_draw(&grid, &run, &view);
    screen_print(&grid, true, &text);
    assert_non_null(strstr(text.p, "\033[0;32mended: done"));
    screen_free(&grid);
    str_free(&text);
}

// --- progress
static json_t *progress_of(const watched_run *run) {
    str text = {0};
    json_t *all;
    progress_body(run, 1764108000.75, &text);
    OK(json_read_bytes("body", text.p, text.n, &all));
    str_free(&text);
    json_t *status = json_incref(json_object_get(all, "trainerStatus"));
    assert_int_equal(json_object_size(all), 1);
    json_decref(all);
    return status;
}

TEST(bodies_are_what_the_server_takes) {
    watched_run run = run_with("");
    json_t *status = progress_of(&run), *metrics = json_object_get(status, "metrics"), *metric;
    assert_int_equal(json_integer_value(json_object_get(status, "progressPercentage")), 20);
    assert_int_equal(json_integer_value(json_object_get(status, "estimatedRemainingSeconds")), 80);
    assert_string_equal(json_string_value(json_object_get(status, "lastUpdatedTime")),
            "2025-11-25T22:00:00Z");
    assert_true(json_array_size(metrics) > 3 && json_array_size(metrics) <= PROGRESS_METRICS);
    size_t i;
    json_array_foreach(metrics, i, metric) {
        assert_int_equal(json_object_size(metric), 2);
        assert_non_null(json_string_value(json_object_get(metric, "name")));
        assert_non_null(json_string_value(json_object_get(metric, "value")));
    }
    json_decref(status);
}

static int64_t percent_of(watched_run *run, int64_t step, run_end end) {
    run->status.step = step;
    run->status.end = end;
    json_t *status = progress_of(run);
    const int64_t percent = json_integer_value(json_object_get(status, "progressPercentage"));
    if (end == RUN_DONE)
        assert_int_equal(json_integer_value(json_object_get(status, "estimatedRemainingSeconds")),
                0);
    json_decref(status);
    return percent;
}

TEST(only_what_is_done_has_all_of_it) {
    watched_run run = run_with("");
    assert_int_equal(percent_of(&run, -1, RUN_GOES_ON), 0);
    assert_int_equal(percent_of(&run, 199, RUN_GOES_ON), 99);
    assert_int_equal(percent_of(&run, 200, RUN_GOES_ON), 99); // it still evaluates and saves
    assert_int_equal(percent_of(&run, 100, RUN_FAILED), 50);
    assert_int_equal(percent_of(&run, 200, RUN_DONE), 100);
    run.has_status = false;
    json_t *status = progress_of(&run);
    assert_null(json_object_get(status, "progressPercentage"));
    json_decref(status);
}
