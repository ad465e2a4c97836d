// Makes the rows of the time line from the journal and from the ledger's attempts.
#include "watch/views/report_timeline.h"

#include <math.h>

static const char *host_of(arena *a, const run_event *e) {
    const char *host = run_event_text(e, "host");
    return *host ? arena_printf(a, " (%s)", host) : "";
}

// Returns "rank 3 (node1): ", or "" if the event names no rank or node.
static const char *subject_of(arena *a, const run_event *e, const char *what) {
    const int64_t number = run_event_i64(e, what, -1);
    if (number < 0) return "";
    return arena_printf(a, "%s %lld%s: ", what, (long long)number, host_of(a, e));
}

static const char *step_of(arena *a, const run_event *e) {
    const int64_t step = run_event_i64(e, "step", -1);
    return step >= 0 ? arena_printf(a, ", step %lld", (long long)step) : "";
}

// --- attempts
static const char *attempt_text(arena *a, const ledger_attempt *attempt) {
    const char *end = attempt->end ? run_event_text(attempt->end, "state") : "no end", *who = "";
    const char *cause =
            attempt->end ? run_event_text(attempt->end, "cause") : "killed, or still alive";
    const char *steps = "no step", *from = arena_strdup(a, str_duration(attempt->from_s));
    if (attempt->failure) {
        who = subject_of(a, attempt->failure, "rank");
        cause = run_event_text(attempt->failure, "message");
    }
    if (attempt->last_step >= attempt->first_step && attempt->first_step > 0)
        steps = arena_printf(a, "steps %lld to %lld", (long long)attempt->first_step,
                (long long)attempt->last_step);
    return arena_printf(a, "attempt %lld  from %s for %s  %s  %s: %s%s", (long long)attempt->number,
            from, str_long_duration(attempt->until_s - attempt->from_s), steps, end, who, cause);
}

// --- events
static const char *layout_words(arena *a, const run_event *e) {
    const char *settings = run_event_text(e, "settings");
    const json_t *same = json_object_get(e->fields, "same_bits");
    return arena_printf(a, "layout: %lld node%s, %lld rank%s%s%s%s",
            (long long)run_event_i64(e, "nodes", -1), str_plural(run_event_i64(e, "nodes", -1)),
            (long long)run_event_i64(e, "ranks", -1), str_plural(run_event_i64(e, "ranks", -1)),
            *settings ? ", " : "", settings,
            json_is_true(same)    ? "; the same bits"
            : json_is_false(same) ? "; other bits"
                                  : "");
}

// Returns the words for an event; NULL: the time line leaves it out.
static const char *event_text(arena *a, const run_event *e) {
    switch (e->kind) {
    case EVENT_FAILURE:
        return arena_printf(a, "failure: %s%s (%s%s)", subject_of(a, e, "rank"),
                run_event_text(e, "message"), run_event_text(e, "cause"), step_of(a, e));
    case EVENT_RESTART:
        return arena_printf(a, "restart: %s%s%s, after a wait of %.1f s", subject_of(a, e, "node"),
                run_event_text(e, "cause"), step_of(a, e), run_event_f64(e, "wait_s"));
    case EVENT_EXCLUSION:
        return arena_printf(a, "exclusion: %s%s", subject_of(a, e, "node"),
                run_event_text(e, "cause"));
    case EVENT_LAYOUT:
        return layout_words(a, e);
    default:
        return NULL;
    }
}

// Orders events by UTC, since the launcher and other ranks have monotonic clocks of their own. The
// launcher's events come after their attempt, and all events before the next one.
static double place(const ledger_sums *sums, int k, const run_event *e) {
    const ledger_attempt *attempt = &sums->attempts[k];
    const double least = e->kind == EVENT_FAILURE ? attempt->from_s : attempt->until_s,
                 most = k + 1 < sums->n_attempts ? sums->attempts[k + 1].from_s : sums->wall_s;
    const double told = attempt->start ? attempt->from_s + e->time - attempt->start->time : least;
    return fmax(least, fmin(told, fmax(most, least)));
}

static void add(timeline *line, timeline_row row) {
    if (line->n == MAX_TIMELINE_ROWS)
        line->left_out++;
    else
        line->rows[line->n++] = row;
}

timeline report_timeline(arena *a, const watched_run *run) {
    const ledger_sums *sums = &run->sums;
    const run_event_list *events = &run->events;
    timeline line = {.rows = ARENA_ARRAY(a, timeline_row, MAX_TIMELINE_ROWS)};
    for (int64_t i = 0, k = -1; i < events->n; i++) {
        const run_event *e = &events->events[i];
        if (run_events_begin_attempt(events, i) && ++k < sums->n_attempts)
            add(&line, (timeline_row){.attempt = &sums->attempts[k],
                               .fault = sums->attempts[k].failure,
                               .words = attempt_text(a, &sums->attempts[k])});
        if (k >= sums->n_attempts || e == sums->attempts[k].failure) continue;
        const char *words = event_text(a, e);
        if (!words) continue;
        add(&line, (timeline_row){.at_s = place(sums, (int)k, e),
                           .fault = e->kind == EVENT_FAILURE,
                           .words = words});
    }
    return line;
}
