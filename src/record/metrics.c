// Writes metrics.jsonl, hashes.jsonl and TensorBoard events of a run.
#include "record/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/append_file.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "tensorboard.pb-c.h"

// NxD Training's window: its throughput is the mean over this many steps.
enum { WINDOW = 10 };

struct metrics {
    append_file *json, *event, *hash; // hash: NULL if no step is hashed
    struct { // the ends of the last steps, oldest first; [0] is the one before the window
        double time_s;
        int64_t samples;
    } window[WINDOW + 1];
    int n_window;
    double throughput_peak; // of this process
};

// --- TensorBoard
// Computes CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), masked as TFRecord requires
// (tensorflow/core/lib/hash/crc32c.h).
static uint32_t masked_crc(const void *p, size_t n) {
    uint32_t c = 0xFFFFFFFF;
    for (const unsigned char *s = p; n--; s++) {
        c ^= *s;
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0x82F63B78u : 0);
    }
    c = ~c;
    return (c >> 15 | c << 17) + 0xA282EAD8u;
}

static drv_status write_event(metrics *m, const Tensorboard__Event *e) {
    unsigned char record[4096]; // size, its checksum, the event, its checksum
    const uint64_t n = tensorboard__event__get_packed_size(e);
    if (n + 16 > sizeof record) return DRV_OK;
    tensorboard__event__pack(e, record + 12);
    const uint32_t head = masked_crc(&n, 8), body = masked_crc(record + 12, n);
    memcpy(record, &n, 8);
    memcpy(record + 8, &head, 4);
    memcpy(record + 12 + n, &body, 4);
    return append_file_add(m->event, record, n + 16);
}

typedef struct scalar {
    const char *tag;
    double value;
} scalar;

static drv_status write_scalars(metrics *m, int64_t step, const scalar *s, int n) {
    Tensorboard__Value values[16], *list[16];
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    Tensorboard__Event e = TENSORBOARD__EVENT__INIT;
    for (int i = 0; i < n; i++) {
        tensorboard__value__init(&values[i]);
        values[i].tag = (char *)(uintptr_t)s[i].tag;
        values[i].value_case = TENSORBOARD__VALUE__VALUE_SIMPLE_VALUE;
        values[i].simple_value = (float)s[i].value;
        list[i] = &values[i];
    }
    summary.value = list;
    summary.n_value = (size_t)n;
    e.wall_time = clock_utc_s();
    e.step = step;
    e.summary = &summary;
    return write_event(m, &e);
}

// Writes the start of a session, at which TensorBoard drops the events of this step and later ones
// (its plugin_event_accumulator.py, _CheckForRestartAndMaybePurge).
static drv_status write_start(metrics *m, int64_t first_step) {
    Tensorboard__SessionLog log = TENSORBOARD__SESSION_LOG__INIT;
    Tensorboard__Event e = TENSORBOARD__EVENT__INIT;
    log.status = TENSORBOARD__SESSION_LOG__SESSION_STATUS__START;
    e.wall_time = clock_utc_s();
    e.step = first_step;
    e.session_log = &log;
    return write_event(m, &e);
}

// --- files
// A line of metrics.jsonl or hashes.jsonl.
typedef struct metrics_line {
    const char *text;
    size_t n; // including its line feed
    int64_t step;
    double step_s;
    bool evaluates;
} metrics_line;

typedef struct line_list {
    metrics_line *lines;
    int64_t n, cap;
} line_list;

// Returns false if the line belongs to no step.
static bool read_line(const char *text, size_t n, metrics_line *out) {
    json_t *v = json_loadb(text, n, 0, NULL);
    const json_t *step = json_object_get(v, "step"), *seconds = json_object_get(v, "step_s");
    *out = (metrics_line){.text = text,
            .n = n + 1,
            .step = json_integer_value(step),
            .step_s = json_number_value(seconds),
            .evaluates = json_object_get(v, "val_loss") != NULL};
    const bool has_step = json_is_integer(step);
    json_decref(v);
    return has_step;
}

// A repeated step replaces all lines from that step on, a repeated evaluation the previous one.
static void add_line(line_list *list, const metrics_line *line) {
    while (list->n > 0) {
        const metrics_line *last = &list->lines[list->n - 1];
        const bool stays = last->step < line->step ||
                           (last->step == line->step && line->evaluates && !last->evaluates);
        if (stays) break;
        list->n--;
    }
    MEM_GROW(list->lines, list->n, list->cap);
    list->lines[list->n++] = *line;
}

// Reads the lines of a file, each step once and in order. free(out->lines). *n_bytes: the file's
// size.
static drv_status read_lines(arena *a, const char *path, line_list *out, size_t *n_bytes) {
    char *text;
    *out = (line_list){0};
    *n_bytes = 0;
    if (!file_exists(path)) return DRV_OK;
    DRV_TRY(file_read(a, path, &text, n_bytes));
    metrics_line line;
    for (char *begin = text, *end; (end = strchr(begin, '\n')); begin = end + 1)
        if (read_line(begin, (size_t)(end - begin), &line)) add_line(out, &line);
    return DRV_OK;
}

lost_metrics metrics_count_lost(const char *run_dir, int64_t after_step) {
    arena *a = arena_new("lost metrics");
    line_list list;
    size_t n;
    lost_metrics lost = {0};
    if (read_lines(a, path_join(a, run_dir, "metrics.jsonl"), &list, &n) == DRV_OK)
        for (int64_t i = 0; i < list.n; i++)
            if (list.lines[i].step > after_step && !list.lines[i].evaluates) {
                lost.steps++;
                lost.seconds += list.lines[i].step_s;
            }
    free(list.lines);
    arena_free(a);
    return lost;
}

// Keeps the lines up to a step: after a crash the file may be ahead of the checkpoint. They go to a
// new file even if all are kept: an attempt that has lost the run directory (docs/adr/0006) may
// have the old one open, and its lines must not be seen.
static drv_status renew_json(arena *a, const char *path, int64_t last) {
    line_list list;
    size_t n;
    str kept = {0};
    if (!file_exists(path)) return DRV_OK;
    drv_status status = read_lines(a, path, &list, &n);
    for (int64_t i = 0; i < list.n && list.lines[i].step <= last; i++)
        str_add(&kept, list.lines[i].text, list.lines[i].n);
    if (status == DRV_OK) status = file_write_atomic(path, kept.p ? kept.p : "", kept.n);
    free(list.lines);
    str_free(&kept);
    return status;
}

drv_status metrics_open(arena *a, const char *run_dir, int64_t resumed_step, bool hashes,
        metrics **out) {
    metrics *self = ARENA_NEW(a, metrics);
    char *dir = path_join(a, run_dir, "tensorboard"),
         *json_path = path_join(a, run_dir, "metrics.jsonl"),
         *hash_path = path_join(a, run_dir, "hashes.jsonl");
    // TensorBoard requires "tfevents" in the name and reads the files of a run in the order of
    // their names, which must be that of sessions even if a run is killed and resumed within a
    // second.
    const int64_t now_ms = (int64_t)(clock_utc_s() * 1e3);
    const char *event_path = arena_printf(a, "%s/events.out.tfevents.%010lld.%03d.drover.%d", dir,
            (long long)(now_ms / 1000), (int)(now_ms % 1000), (int)getpid());
    DRV_TRY(dir_make(dir));
    DRV_TRY(renew_json(a, json_path, resumed_step > 0 ? resumed_step : -1));
    DRV_TRY(renew_json(a, hash_path, resumed_step > 0 ? resumed_step : -1));
    DRV_TRY(append_file_open(a, json_path, &self->json));
    if (hashes) DRV_TRY(append_file_open(a, hash_path, &self->hash));
    DRV_TRY(append_file_open(a, event_path, &self->event));
    Tensorboard__Event first = TENSORBOARD__EVENT__INIT;
    first.wall_time = clock_utc_s();
    first.file_version = (char *)(uintptr_t) "brain.Event:2";
    *out = self;
    DRV_TRY(write_event(self, &first));
    return write_start(self, resumed_step > 0 ? resumed_step + 1 : 0);
}

// --- records
// Returns sequences a second over the last steps, with time for data, checkpoints and evaluations.
static double throughput(metrics *m, const step_metrics *s) {
    const double now = clock_s();
    if (m->n_window == 0) {
        m->window[0].time_s = now - s->step_s;
        m->window[0].samples = s->consumed_samples - s->step_samples;
        m->n_window = 1;
    } else if (m->n_window > WINDOW) {
        memmove(m->window, m->window + 1, sizeof m->window - sizeof *m->window);
        m->n_window = WINDOW;
    }
    m->window[m->n_window].time_s = now;
    m->window[m->n_window++].samples = s->consumed_samples;
    const double seconds = now - m->window[0].time_s;
    const double rate =
            seconds > 0 ? (double)(s->consumed_samples - m->window[0].samples) / seconds : 0;
    m->throughput_peak = fmax(m->throughput_peak, rate);
    return rate;
}

// Returns the time as "2026-11-22T00:41:21.123Z".
static json_t *time_now(void) {
    const double now = clock_utc_s();
    const time_t seconds = (time_t)now;
    char day[32], text[48];
    struct tm tm;
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
    snprintf(text, sizeof text, "%s.%03dZ", day, (int)((now - (double)seconds) * 1e3));
    return json_string(text);
}

static drv_status write_line(append_file *f, json_t *o) {
    str line = {0};
    json_print_to(&line, o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    str_puts(&line, "\n");
    const drv_status status = append_file_add(f, line.p, line.n);
    str_free(&line);
    return status;
}

// --- hashes
static json_t *hash_text(uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    return json_string(text);
}

static json_t *by_tensor(const tensor_hashes *h) {
    json_t *all = json_object();
    for (int i = 0; i < h->n; i++)
        json_object_set_new(all, h->list[i].entry.name, hash_text(h->of[i]));
    return all;
}

static json_t *exact_real(double x) { // "0x1.5bf0a8b145769p+1"
    char text[40];
    snprintf(text, sizeof text, "%a", x);
    return json_string(text);
}

static drv_status write_hashes(metrics *m, const step_metrics *step) {
    if (!step->hashed) return DRV_OK;
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(step->step));
    json_object_set_new(o, "loss", exact_real(step->loss));
    json_object_set_new(o, "grad_norm", exact_real(step->grad_norm));
    json_object_set_new(o, "param_norm", exact_real(step->param_norm));
    json_object_set_new(o, "arithmetic", json_string(step->hashes.arithmetic));
    json_object_set_new(o, "batch", hash_text(step->hashes.batch));
    json_object_set_new(o, "before", by_tensor(&step->hashes.before));
    json_object_set_new(o, "gradients", by_tensor(&step->hashes.gradients));
    json_object_set_new(o, "weights", by_tensor(&step->hashes.weights));
    return write_line(m->hash, o);
}

// Adds the times of each rank over the steps since the last such line, and the rank that the others
// wait for.
static void add_ranks(json_t *record, const rank_times *t) {
    json_t *compute = json_array(), *data = json_array(), *wait = json_array(),
           *sent = json_array();
    for (int rank = 0; rank < t->n; rank++) {
        json_array_append_new(compute, json_of_f64(t->of[rank].compute));
        json_array_append_new(data, json_of_f64(t->of[rank].data));
        json_array_append_new(wait, json_of_f64(t->of[rank].wait));
        json_array_append_new(sent, json_of_f64(t->of[rank].sent));
    }
    json_object_set_new(record, "slowest_rank", json_integer(t->slowest));
    json_object_set_new(record, "slowest_host", json_string(comm_host(t->comm, t->slowest)));
    json_object_set_new(record, "slowest_reason", json_string(t->reason));
    json_object_set_new(record, "rank_compute_s", compute);
    json_object_set_new(record, "rank_data_s", data);
    json_object_set_new(record, "rank_wait_s", wait);
    json_object_set_new(record, "rank_sent_bytes", sent);
}

static void add_terms(json_t *record, const step_metrics *step) {
    json_t *terms = json_object();
    for (int i = 0; i < step->n_terms; i++)
        json_object_set_new(terms, step->term_name(i), json_of_f64(step->terms[i]));
    if (step->n_terms)
        json_object_set_new(record, "terms", terms);
    else
        json_decref(terms);
}

// Adds the energy that each host used since its last reading, for hosts that were read now.
static void add_energy(json_t *record, const rank_times *t) {
    json_t *hosts = json_array();
    for (int rank = 0; rank < (t->n ? t->n : 1); rank++) {
        const rank_time *of = &t->of[rank];
        if (!(of->energy_steps > 0)) continue;
        json_t *host = json_object();
        json_object_set_new(host, "host", json_string(comm_host(t->comm, rank)));
        json_object_set_new(host, "joules", json_of_f64(of->joules));
        json_object_set_new(host, "steps", json_integer((json_int_t)of->energy_steps));
        json_object_set_new(host, "joules_per_step", json_of_f64(of->joules / of->energy_steps));
        json_array_append_new(hosts, host);
    }
    if (json_array_size(hosts))
        json_object_set_new(record, "energy", hosts);
    else
        json_decref(hosts);
}

// Names the figures of pairs as TRL does, for training and for evaluation.
enum { N_PAIR_SCALARS = 4 };
static void pair_scalars(const pair_figures *pairs, bool valid, scalar out[N_PAIR_SCALARS]) {
    static const char *const names[2][N_PAIR_SCALARS] = {{"rewards/chosen", "rewards/rejected",
                                                                 "rewards/margins",
                                                                 "rewards/accuracies"},
            {"val_rewards/chosen", "val_rewards/rejected", "val_rewards/margins",
                    "val_rewards/accuracies"}};
    const double values[N_PAIR_SCALARS] = {pairs->chosen, pairs->rejected,
            pairs->chosen - pairs->rejected, pairs->accuracy};
    for (int i = 0; i < N_PAIR_SCALARS; i++)
        out[i] = (scalar){names[valid][i], values[i]};
}

static void add_pairs(json_t *record, const scalar list[N_PAIR_SCALARS]) {
    for (int i = 0; i < N_PAIR_SCALARS; i++)
        json_object_set_new(record, list[i].tag, json_of_f64(list[i].value));
}

// Keeps the first failure; the other files are still written.
static void keep_first(drv_status *all, drv_status one) {
    if (*all == DRV_OK) *all = one;
}

drv_status metrics_step(metrics *self, const step_metrics *step) {
    json_t *record = json_object();
    const double rate = throughput(self, step);
    scalar pairs[N_PAIR_SCALARS];
    pair_scalars(&step->pairs, false, pairs);
    json_object_set_new(record, "step", json_integer(step->step));
    json_object_set_new(record, "time", time_now());
    json_object_set_new(record, "loss", json_of_f64(step->loss));
    json_object_set_new(record, "lr", json_of_f64(step->lr));
    json_object_set_new(record, "grad_norm", json_of_f64(step->grad_norm));
    json_object_set_new(record, "param_norm", json_of_f64(step->param_norm));
    json_object_set_new(record, "tokens", json_integer(step->tokens));
    json_object_set_new(record, "consumed_samples", json_integer(step->consumed_samples));
    json_object_set_new(record, "tokens_per_s", json_of_f64(step->tokens_per_s));
    json_object_set_new(record, "throughput", json_of_f64(rate));
    json_object_set_new(record, "step_s", json_of_f64(step->step_s));
    json_object_set_new(record, "data_s", json_of_f64(step->data_s));
    json_object_set_new(record, "compute_s", json_of_f64(step->compute_s));
    json_object_set_new(record, "update_s", json_of_f64(step->update_s));
    json_object_set_new(record, "save_s", json_of_f64(step->save_s));
    add_terms(record, step);
    if (step->mfu > 0) json_object_set_new(record, "mfu", json_of_f64(step->mfu));
    if (step->n_pairs) {
        json_object_set_new(record, "pairs", json_integer(step->n_pairs));
        add_pairs(record, pairs);
    }
    if (step->skipped) json_object_set_new(record, "skipped", json_true());
    if (step->hashed) {
        json_object_set_new(record, "gradient_hash", hash_text(step->hashes.gradients.all));
        json_object_set_new(record, "weight_hash", hash_text(step->hashes.weights.all));
    }
    if (step->shared && step->times->n) add_ranks(record, step->times);
    if (step->shared) add_energy(record, step->times);
    const scalar list[] = {{"reduced_train_loss", step->loss}, {"lr", step->lr},
            {"gradient_norm", step->grad_norm}, {"parameter_norm", step->param_norm},
            {"global_step", (double)step->step},
            {"consumed_samples", (double)step->consumed_samples}, {"throughput", rate},
            {"throughput_peak", self->throughput_peak}, {"tokens_per_s", step->tokens_per_s},
            {"mfu", step->mfu}};
    const int n = sizeof list / sizeof *list;
    drv_status status = write_scalars(self, step->step, list, step->mfu > 0 ? n : n - 1);
    if (step->n_pairs) keep_first(&status, write_scalars(self, step->step, pairs, N_PAIR_SCALARS));
    keep_first(&status, write_hashes(self, step));
    keep_first(&status, write_line(self->json, record));
    return status;
}

drv_status metrics_valid(metrics *m, int64_t step, const evaluation_result *result) {
    scalar list[1 + N_PAIR_SCALARS] = {{"val_loss", result->loss}};
    pair_scalars(&result->pairs, true, list + 1);
    drv_status status = write_scalars(m, step, list, result->n_pairs ? 1 + N_PAIR_SCALARS : 1);
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(step));
    json_object_set_new(o, "time", time_now());
    json_object_set_new(o, "val_loss", json_of_f64(result->loss));
    json_object_set_new(o, "val_tokens", json_integer(result->tokens));
    if (result->n_pairs) {
        json_object_set_new(o, "val_pairs", json_integer(result->n_pairs));
        add_pairs(o, list + 1);
    }
    keep_first(&status, write_line(m->json, o));
    return status;
}

void metrics_close(metrics *m) {
    if (!m) return;
    append_file_close(m->json);
    append_file_close(m->event);
    append_file_close(m->hash);
}
