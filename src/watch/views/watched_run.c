// Reads the files of a run repeatedly, each from where it stopped before.
#include "watch/views/watched_run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_lines.h"
#include "watch/files/metrics_part.h"

enum { MAX_POINTS = 4096 };
#define SILENT_S 60.0

struct watched_files {
    arena *names, *frame, *steps; // frame: for the last reading; steps: for the ledger
    const char *metrics_path, *events_path;
    json_lines metrics;
    bool metrics_open;
    int64_t events_bytes; // when they were read
    double bubble;
    ledger *ledger;
    struct {
        double x, y;
        int64_t n;
    } open_point[N_WATCHED_CURVES]; // sums of the point that is not complete yet
};

// The keys of the curves in metrics.jsonl.
static const char *const curve_keys[N_WATCHED_CURVES] = {"loss", "val_loss", "tokens_per_s", "mfu"};

watched_run *watched_run_open(const char *dir, double bubble) {
    watched_run *self = mem_zeroed(sizeof *self);
    struct watched_files *files = mem_zeroed(sizeof *files);
    *files = (struct watched_files){.names = arena_new("names of a run"), .bubble = bubble};
    files->metrics.fd = -1;
    files->metrics_path = path_join(files->names, dir, "metrics.jsonl");
    files->events_path = path_join(files->names, dir, "events.jsonl");
    *self = (watched_run){.dir = dir, .files = files};
    return self;
}

static void note_problem(watched_run *self) {
    str_printf(&self->problems, "%s\n", drv_message());
}

// --- curves
static void add_point(watched_run *run, watched_curve curve, double x, double y) {
    plot_series *s = &run->curves[curve];
    if (s->n == MAX_POINTS) {
        for (int64_t i = 0; i < MAX_POINTS / 2; i++) {
            s->x[i] = (s->x[2 * i] + s->x[2 * i + 1]) / 2;
            s->y[i] = (s->y[2 * i] + s->y[2 * i + 1]) / 2;
        }
        s->n = MAX_POINTS / 2;
        run->per_point[curve] *= 2;
    }
    s->x[s->n] = x;
    s->y[s->n++] = y;
}

static void add_value(watched_run *run, watched_curve curve, double step, double value) {
    struct watched_files *files = run->files;
    if (!(fabs(value) <= 1e100)) return;
    files->open_point[curve].x += step;
    files->open_point[curve].y += value;
    const int64_t n = ++files->open_point[curve].n;
    if (n < run->per_point[curve]) return;
    add_point(run, curve, files->open_point[curve].x / (double)n,
            files->open_point[curve].y / (double)n);
    memset(&files->open_point[curve], 0, sizeof files->open_point[curve]);
}

// --- metrics.jsonl
static double number(const json_t *record, const char *key) {
    const json_t *value = json_object_get(record, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double mean_of(const json_t *record, const char *key) {
    const json_t *list = json_object_get(record, key);
    const size_t n = json_array_size(list);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += json_number_value(json_array_get(list, i));
    return n ? sum / (double)n : 0;
}

enum { MAX_HOSTS = 1 << 14 };

static void take_energy(watched_run *run, const json_t *record) {
    size_t i;
    const json_t *of;
    json_array_foreach(json_object_get(record, "energy"), i, of) {
        const char *host = json_string_value(json_object_get(of, "host"));
        const double joules = number(of, "joules");
        const json_int_t steps = json_integer_value(json_object_get(of, "steps"));
        if (!host || !(joules >= 0 && joules < 1e15) || steps < 1 || steps > 1LL << 50) continue;
        int64_t index = (int64_t)i; // its position in the previous line
        if (index >= run->n_energy || strncmp(run->energy[index].host, host, 63) != 0) index = 0;
        while (index < run->n_energy && strncmp(run->energy[index].host, host, 63) != 0)
            index++;
        if (index == MAX_HOSTS) continue;
        if (index == run->n_energy) {
            MEM_GROW(run->energy, run->n_energy, run->cap_energy);
            run->energy[run->n_energy++] = (watched_energy){.steps = 0};
            snprintf(run->energy[index].host, sizeof run->energy[index].host, "%s", host);
        }
        run->energy[index].joules += joules;
        run->energy[index].steps += steps;
    }
}

// The loss of the last evaluation stays. `record` NULL: nothing is known.
static void show_step(watched_run *run, const json_t *record, int64_t step) {
    const double valid = run->last.val_loss;
    run->last = (watched_step){.step = step,
            .loss = number(record, "loss"),
            .lr = number(record, "lr"),
            .grad_norm = number(record, "grad_norm"),
            .tokens_per_s = number(record, "tokens_per_s"),
            .mfu = number(record, "mfu"),
            .step_s = number(record, "step_s"),
            .tokens = number(record, "tokens"),
            .val_loss = valid};
}

static void take_step(watched_run *run, const json_t *record, int64_t step) {
    take_energy(run, record);
    ledger_add(run->files->ledger,
            &(ledger_step){.step = step,
                    .step_s = number(record, "step_s"),
                    .data_s = number(record, "data_s"),
                    .save_s = number(record, "save_s"),
                    .shared = json_array_size(json_object_get(record, "rank_compute_s")) > 0,
                    .rank_compute_s = mean_of(record, "rank_compute_s"),
                    .rank_data_s = mean_of(record, "rank_data_s"),
                    .rank_wait_s = mean_of(record, "rank_wait_s")});
    step_histogram_add(&run->steps, number(record, "step_s"));
    watched_terms_add(&run->terms, record);
    run->n_skipped += json_is_true(json_object_get(record, "skipped"));
    show_step(run, record, step);
}

static bool is_step(const json_t *field) {
    return json_is_integer(field) && json_integer_value(field) >= 0;
}

static void take_record(watched_run *run, const json_t *record) {
    const json_t *field = json_object_get(record, "step");
    if (!is_step(field)) {
        run->n_broken++;
        return;
    }
    const int64_t step = json_integer_value(field);
    if (json_object_get(record, "step_s")) take_step(run, record, step);
    if (json_object_get(record, "val_loss")) run->last.val_loss = number(record, "val_loss");
    for (int i = 0; i < N_WATCHED_CURVES; i++)
        add_value(run, (watched_curve)i, (double)step, number(record, curve_keys[i]));
}

// Forgets everything that was read from metrics.jsonl.
static void restart(watched_run *run) {
    struct watched_files *files = run->files;
    json_lines_close(&files->metrics);
    files->metrics_open = false;
    arena_free(files->steps);
    files->steps = arena_new("steps of a run");
    files->ledger = ledger_new(files->steps, &run->events, files->bubble);
    memset(files->open_point, 0, sizeof files->open_point);
    for (int i = 0; i < N_WATCHED_CURVES; i++) {
        run->curves[i] = (plot_series){.x = ARENA_ARRAY(files->steps, double, MAX_POINTS),
                .y = ARENA_ARRAY(files->steps, double, MAX_POINTS),
                .cap = MAX_POINTS};
        run->per_point[i] = 1;
    }
    run->last.val_loss = (double)NAN;
    show_step(run, NULL, -1);
    run->steps = (step_histogram){0};
    run->terms = (watched_terms){.steps = -1};
    run->n_skipped = run->n_broken = 0;
    run->n_energy = 0;
}

// Shows the newest step of a long file even while most of it has not been read.
static void look_ahead(watched_run *run) {
    json_t *record = metrics_newest(run->files->metrics_path, "step_s");
    const json_t *field = json_object_get(record, "step");
    if (is_step(field)) show_step(run, record, json_integer_value(field));
    json_decref(record);
}

// Returns false if part of the file is still unread.
static bool read_metrics(watched_run *run, double limit_s) {
    struct watched_files *files = run->files;
    const double until = clock_s() + limit_s;
    if (files->metrics_open && json_lines_replaced(&files->metrics)) restart(run);
    if (!files->metrics_open) {
        if (!file_exists(files->metrics_path)) return true; // before the first step
        if (json_lines_open(files->metrics_path, true, &files->metrics) != DRV_OK) {
            note_problem(run);
            return false;
        }
        files->metrics_open = true;
    }
    files->metrics.until_s = limit_s > 0 ? until : 0;
    json_t *record = NULL;
    while ((record = json_lines_next(&files->metrics))) {
        take_record(run, record);
        json_decref(record);
        if (limit_s > 0 && clock_s() > until) break;
    }
    if (json_lines_status(&files->metrics) != DRV_OK) note_problem(run);
    const int64_t bytes = file_size(files->metrics_path);
    run->metrics_bytes = bytes > 0 ? bytes : 0;
    const bool late = record || (limit_s > 0 && clock_s() > until);
    run->read_bytes = late && !files->metrics.too_long ? files->metrics.offset : run->metrics_bytes;
    if (run->read_bytes < run->metrics_bytes) look_ahead(run);
    run->n_broken += files->metrics.n_broken;
    files->metrics.n_broken = 0;
    return run->read_bytes == run->metrics_bytes && !files->metrics.too_long;
}

// --- the other files
static void read_events(watched_run *run) {
    struct watched_files *files = run->files;
    const int64_t bytes = file_size(files->events_path);
    run_event_list events;
    if (files->ledger && bytes == files->events_bytes) return;
    if (run_events_read(run->dir, &events) != DRV_OK) {
        note_problem(run);
        if (!files->ledger) restart(run);
        return;
    }
    ledger *again = files->ledger ? ledger_again(files->steps, &events, files->ledger) : NULL;
    run_events_free(&run->events);
    run->events = events;
    files->events_bytes = bytes;
    if (again)
        files->ledger = again;
    else
        restart(run);
}

static bool is_there(arena *a, const char *dir, const char *name) {
    return file_exists(path_join(a, dir, name));
}

void watched_run_read(watched_run *self, double limit_s) {
    struct watched_files *files = self->files;
    arena_free(files->frame);
    arena *a = files->frame = arena_new("a look at a run");
    str_clear(&self->problems);
    self->has_status = run_status_read(a, self->dir, &self->status) == DRV_OK;
    if (!self->has_status && is_there(a, self->dir, "status.json")) note_problem(self);
    self->has_table = rank_table_read(a, self->dir, &self->table) == DRV_OK;
    if (!self->has_table && is_there(a, self->dir, "ranks/status")) note_problem(self);
    if (!self->has_table) self->table = (rank_table){0};
    read_events(self);
    const bool whole = read_metrics(self, limit_s);
    self->sums = ledger_close(a, files->ledger);
    if (!whole) self->sums.goodput = (double)NAN;
    if (files->metrics.too_long)
        str_printf(&self->problems,
                "metrics.jsonl: a line of more than %d MiB, expected JSON objects, one a line; the rest is not read\n",
                JSON_LINE_MAX >> 20);
    else if (self->n_broken)
        str_printf(&self->problems, "metrics.jsonl: %lld line%s broken and left out\n",
                (long long)self->n_broken, self->n_broken > 1 ? "s are" : " is");
}

void watched_run_close(watched_run *self) {
    struct watched_files *files = self->files;
    json_lines_close(&files->metrics);
    arena_free(files->names);
    arena_free(files->frame);
    arena_free(files->steps);
    run_events_free(&self->events);
    str_free(&self->problems);
    free(self->energy);
    free(files);
    free(self);
}

// --- the results
bool watched_run_is_one(const char *dir) {
    static const char *const names[] = {"metrics.jsonl", "status.json", "events.jsonl",
            "ranks/status"};
    arena *a = arena_new("names");
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= access(path_join(a, dir, names[i]), F_OK) == 0;
    arena_free(a);
    return found;
}

drv_status watched_run_none(const char *verb, const char *dir) {
    if (file_is_dir(dir) && access(dir, X_OK) != 0 && errno == EACCES)
        return file_fail("look into", dir);
    return drv_fail(DRV_E_USAGE,
            "%s: \"%s\" is not a run directory; expected metrics.jsonl, status.json, events.jsonl or "
            "ranks/status in it",
            verb, dir);
}

const char *watched_run_state(const watched_run *run) {
    double heard = -1;
    if (run->has_status && run->status.end != RUN_GOES_ON) return run_end_name(run->status.end);
    if (run->has_status) heard = run->status.time;
    if (run->has_table && run->table.time > heard) heard = run->table.time;
    if (heard < 0) return "unknown";
    if (clock_utc_s() - heard > SILENT_S) return "silent";
    return run->has_status ? run_state_name(run->status.state) : "running";
}

int64_t watched_run_step(const watched_run *run) {
    const int64_t told = run->has_status ? run->status.step : -1;
    return told > run->last.step ? told : run->last.step;
}

double watched_run_joules(const watched_run *run, double *per_step) {
    double joules = run->n_energy ? 0 : (double)NAN;
    *per_step = joules;
    for (int64_t i = 0; i < run->n_energy; i++) {
        joules += run->energy[i].joules;
        *per_step += run->energy[i].joules / (double)run->energy[i].steps;
    }
    return joules;
}

const char *watched_run_energy_text(const watched_run *run) {
    const char *words = "";
    for (int64_t i = 0; i < run->events.n; i++)
        if (run->events.events[i].kind == EVENT_RUNNING)
            words = run_event_text(&run->events.events[i], "energy");
    return words;
}
