// Builds the ledger: finds the attempts in the journal, assigns steps to them, and measures the gaps.
#include "watch/views/ledger.h"

#include <math.h>
#include <string.h>

// Times of an attempt according to the journal, in seconds.
typedef struct journal_times {
    double wall_s;
    double last_utc, last_s; // UTC time of its last event, and how long it had lasted then
    double blocked_s;        // waiting for checkpoints
    double early_s;          // evaluations before its first step
    int64_t resumed_step;
} journal_times;

struct ledger {
    ledger_attempt *attempts;
    journal_times *times; // by attempt
    int n;
    double bubble;
    // Steps since the last line with means of the ranks, all of one attempt.
    int open_attempt;
    double open_s, open_data_s, open_save_s;
    double compute, data, wait; // the last such means; all 0: none yet
    int64_t n_steps;
};

static const struct {
    const char *name, *key;
} names[N_LEDGER_CLASSES] = {
        [LEDGER_COMPUTE] = {"compute", "compute"},
        [LEDGER_COMMUNICATION] = {"exposed communication", "communication"},
        [LEDGER_BUBBLE] = {"pipeline bubble", "bubble"},
        [LEDGER_DATA] = {"data", "data"},
        [LEDGER_SAVE] = {"save", "save"},
        [LEDGER_EVALUATION] = {"evaluation", "evaluation"},
        [LEDGER_START] = {"start", "start"},
        [LEDGER_LOST] = {"lost", "lost"},
        [LEDGER_DOWN] = {"down", "down"},
        [LEDGER_STOPPED] = {"stopped on request", "stopped"},
        [LEDGER_OTHER] = {"other", "other"},
};

const char *ledger_name(ledger_class class) {
    return names[class].name;
}

const char *ledger_key(ledger_class class) {
    return names[class].key;
}

// Returns a usable time: 0 for what is not a time, and a century at most.
static double seconds(double x) {
    return x > 0 ? fmin(x, 3.2e9) : 0;
}

// --- attempts from the journal
// Returns the seconds from the first event of an attempt to another one. If another rank wrote that
// event, the failure of rank 0, its monotonic clock has another origin. A difference that is wrong
// by that or by a jump of UTC is the larger one.
static double since(const run_event *first, const run_event *event) {
    const double mono = event->mono - first->mono, utc = event->time - first->time;
    if (event->kind != EVENT_FAILURE && event->kind != EVENT_END) return seconds(mono);
    if (mono < 0) return seconds(utc);
    return utc < 0 ? seconds(mono) : seconds(fmin(mono, utc));
}

// Repeated steps belong to the last earlier attempt that took any steps; if there is none, to a run
// before this journal.
static void lose(ledger *self, int k, const run_event *resume) {
    while (k >= 0 && isnan(self->attempts[k].running_s))
        k--;
    const int64_t count = run_event_i64(resume, "lost_steps", 0);
    if (k < 0 || count < 0 || count > 1LL << 50) return;
    self->attempts[k].lost_steps += count;
    self->attempts[k].seconds[LEDGER_LOST] += seconds(run_event_f64(resume, "lost_s"));
}

static void take_event(ledger *self, int k, const run_event *first, const run_event *event) {
    ledger_attempt *attempt = &self->attempts[k];
    journal_times *times = &self->times[k];
    const double now = since(first, event);
    if (event->kind >= EVENT_RESTART) return; // no attempt is alive
    if (now >= times->wall_s) {
        times->wall_s = times->last_s = now;
        times->last_utc = event->time;
    }
    switch (event->kind) {
    case EVENT_START:
        attempt->start = event;
        break;
    case EVENT_RESUME:
        times->resumed_step = run_event_i64(event, "step", 0);
        lose(self, k - 1, event);
        break;
    case EVENT_RUNNING:
        if (isnan(attempt->running_s)) attempt->running_s = now;
        if (times->resumed_step == INT64_MAX)
            times->resumed_step = run_event_i64(event, "step", 1) - 1;
        break;
    case EVENT_SAVE:
        times->blocked_s += seconds(run_event_f64(event, "blocked_s"));
        break;
    case EVENT_EVALUATION:
        attempt->seconds[LEDGER_EVALUATION] += seconds(run_event_f64(event, "seconds"));
        if (isnan(attempt->running_s)) times->early_s = attempt->seconds[LEDGER_EVALUATION];
        break;
    case EVENT_FAILURE:
        if (!attempt->failure) attempt->failure = event;
        break;
    case EVENT_END:
        attempt->end = event;
        break;
    default:
        break;
    }
}

ledger *ledger_new(arena *a, const run_event_list *events, double bubble) {
    ledger *self = ARENA_NEW(a, ledger);
    int count = 0, k = -1;
    for (int64_t i = 0; i < events->n; i++)
        count += run_events_begin_attempt(events, i);
    const int room = count > 0 ? count : 1; // without a journal the steps are one attempt
    *self = (ledger){.attempts = ARENA_ARRAY(a, ledger_attempt, room),
            .times = ARENA_ARRAY(a, journal_times, room),
            .n = room,
            .bubble = bubble > 0 ? fmin(bubble, 1) : 0};
    for (int i = 0; i < room; i++)
        self->attempts[i] = (ledger_attempt){.number = i + 1, .running_s = (double)NAN};
    const run_event *first = NULL;
    for (int64_t i = 0; i < events->n; i++) {
        const run_event *event = &events->events[i];
        if (run_events_begin_attempt(events, i)) {
            first = event;
            self->attempts[++k].number = event->attempt;
            self->attempts[k].from_s = event->time; // until ledger_close
            self->times[k].resumed_step =
                    k > 0 ? INT64_MAX : 0; // it cuts no steps off before it resumes
        }
        take_event(self, k, first, event);
    }
    return self;
}

// --- steps
// Each attempt that resumed has cut metrics.jsonl back to its checkpoint, so a step in the file
// belongs to the last attempt that began before that step.
static int attempt_of(const ledger *self, int64_t step) {
    int k = self->n - 1;
    while (k > 0 && self->times[k].resumed_step >= step)
        k--;
    return k;
}

// Divides the time of the steps since the last line with means among the classes, in proportion to
// the newest means; a single rank's own times are used as they are.
static void settle(ledger *self) {
    double *of = self->attempts[self->open_attempt].seconds;
    const double compute = self->compute, data = self->data, wait = self->wait;
    const double rest = self->open_s - self->open_save_s, sum = compute + data + wait;
    if (sum > 0) {
        const double bubble = fmin(rest * wait / sum, self->bubble * self->open_s);
        of[LEDGER_COMPUTE] += rest * compute / sum;
        of[LEDGER_DATA] += rest * data / sum;
        of[LEDGER_BUBBLE] += bubble;
        of[LEDGER_COMMUNICATION] += rest * wait / sum - bubble;
    } else {
        of[LEDGER_DATA] += self->open_data_s;
        of[LEDGER_COMPUTE] += rest - self->open_data_s;
    }
    of[LEDGER_SAVE] += self->open_save_s;
    self->open_s = self->open_data_s = self->open_save_s = 0;
}

void ledger_add(ledger *self, const ledger_step *step) {
    const int k = attempt_of(self, step->step);
    ledger_attempt *attempt = &self->attempts[k];
    if (k != self->open_attempt) settle(self);
    self->open_attempt = k;
    const double all = seconds(step->step_s), save = fmin(seconds(step->save_s), all);
    self->open_s += all;
    self->open_save_s += save;
    self->open_data_s += fmin(seconds(step->data_s), all - save);
    if (attempt->first_step == 0) attempt->first_step = step->step;
    attempt->last_step = step->step;
    self->n_steps++;
    if (!step->shared) return;
    self->compute = seconds(step->rank_compute_s);
    self->data = seconds(step->rank_data_s);
    self->wait = seconds(step->rank_wait_s);
    settle(self);
}

// --- sums
static double sum_of(const double *list) {
    double sum = 0;
    for (int i = 0; i < N_LEDGER_CLASSES; i++)
        sum += list[i];
    return sum;
}

static bool ended_well(const ledger_attempt *attempt) {
    return attempt->end && strcmp(run_event_text(attempt->end, "state"), "failed") != 0;
}

// Adds the times of an attempt that are only in the journal. Returns its wall time.
static double close_attempt(ledger *self, int k, bool last) {
    ledger_attempt *attempt = &self->attempts[k];
    const journal_times *times = &self->times[k];
    double *of = attempt->seconds;
    const bool ran = !isnan(attempt->running_s) || attempt->last_step > 0;
    const double until = !ran ? times->wall_s : isnan(attempt->running_s) ? 0 : attempt->running_s;
    of[LEDGER_START] = fmax(until - times->early_s, 0);
    if (times->blocked_s > of[LEDGER_SAVE]) of[LEDGER_SAVE] = times->blocked_s;
    const double known = sum_of(of), rest = times->wall_s - known;
    const bool goes_on = last && !attempt->end && !attempt->failure;
    if (rest > 0) of[ran && !ended_well(attempt) && !goes_on ? LEDGER_LOST : LEDGER_OTHER] += rest;
    return fmax(known, times->wall_s);
}

ledger *ledger_again(arena *a, const run_event_list *events, const ledger *before) {
    static const ledger_class of_steps[] = {LEDGER_COMPUTE, LEDGER_COMMUNICATION, LEDGER_BUBBLE,
            LEDGER_DATA, LEDGER_SAVE};
    ledger *self = ledger_new(a, events, before->bubble);
    const ledger fresh = *self;
    if (fresh.n != before->n) return NULL;
    *self = *before;
    self->attempts = fresh.attempts;
    self->times = fresh.times;
    for (int k = 0; k < self->n; k++) {
        if (self->times[k].resumed_step != before->times[k].resumed_step) return NULL;
        for (size_t i = 0; i < sizeof of_steps / sizeof *of_steps; i++)
            self->attempts[k].seconds[of_steps[i]] = before->attempts[k].seconds[of_steps[i]];
        self->attempts[k].first_step = before->attempts[k].first_step;
        self->attempts[k].last_step = before->attempts[k].last_step;
    }
    return self;
}

ledger_sums ledger_close(arena *a, const ledger *made) {
    ledger copy = *made, *self = &copy;
    double now = 0, ended = 0; // since the first start; UTC
    self->attempts = ARENA_ARRAY(a, ledger_attempt, self->n);
    memcpy(self->attempts, made->attempts, sizeof *made->attempts * (size_t)made->n);
    ledger_sums out = {.n_steps = self->n_steps, .n_attempts = self->n, .attempts = self->attempts};
    settle(self);
    for (int k = 0; k < self->n; k++) {
        ledger_attempt *attempt = &self->attempts[k];
        const double began = attempt->from_s, wall = close_attempt(self, k, k == self->n - 1);
        const double gap = k > 0 ? began - ended : 0;
        const bool asked = k > 0 && ended_well(&self->attempts[k - 1]);
        if (gap < 0) out.n_negative++;
        out.seconds[asked ? LEDGER_STOPPED : LEDGER_DOWN] += seconds(gap);
        attempt->from_s = now + seconds(gap);
        attempt->until_s = now = attempt->from_s + wall;
        attempt->running_s += attempt->from_s;
        ended = self->times[k].last_utc + wall - self->times[k].last_s;
        out.n_lost_steps += attempt->lost_steps;
        for (int i = 0; i < N_LEDGER_CLASSES; i++)
            out.seconds[i] += attempt->seconds[i];
    }
    out.wall_s = sum_of(out.seconds);
    const double useful = out.seconds[LEDGER_COMPUTE] + out.seconds[LEDGER_COMMUNICATION] +
                          out.seconds[LEDGER_BUBBLE],
                 wanted = out.wall_s - out.seconds[LEDGER_STOPPED];
    out.goodput = wanted > 0 ? useful / wanted : (double)NAN;
    return out;
}
