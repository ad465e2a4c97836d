#include "train/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "tensorboard.pb-c.h"

struct metrics {
    const char *json_path, *event_path;
    FILE *json, *event;
};

// --- TensorBoard
// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), masked as TFRecord wants it
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

static void write_event(metrics *m, const Tensorboard__Event *e) {
    unsigned char buffer[4096];
    uint64_t n = tensorboard__event__get_packed_size(e);
    if (n > sizeof buffer) return;
    tensorboard__event__pack(e, buffer);
    uint32_t head = masked_crc(&n, 8), body = masked_crc(buffer, n);
    fwrite(&n, 8, 1, m->event);
    fwrite(&head, 4, 1, m->event);
    fwrite(buffer, 1, n, m->event);
    fwrite(&body, 4, 1, m->event);
}

typedef struct scalar {
    const char *tag;
    double value;
} scalar;

static double wall_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_scalars(metrics *m, int64_t step, const scalar *s, int n) {
    Tensorboard__Value values[16], *list[16];
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    Tensorboard__Event e = TENSORBOARD__EVENT__INIT;
    for (int i = 0; i < n; i++) {
        tensorboard__value__init(&values[i]);
        values[i].tag = (char *)(uintptr_t)s[i].tag;
        values[i].simple_value = (float)s[i].value;
        list[i] = &values[i];
    }
    summary.value = list;
    summary.n_value = (size_t)n;
    e.wall_time = wall_time();
    e.step = step;
    e.summary = &summary;
    write_event(m, &e);
}

// --- files
// Keeps the lines up to a step: after a crash the file may be ahead of the checkpoint.
static drv_status cut_json(arena *a, const char *path, int64_t last) {
    if (!file_exists(path)) return DRV_OK;
    char *text;
    size_t n;
    DRV_TRY(file_read(a, path, &text, &n));
    str kept = {0};
    bool dropped = false;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *v = json_loadb(line, (size_t)(end - line), 0, NULL);
        const json_t *step = json_object_get(v, "step");
        if (json_is_integer(step) && json_integer_value(step) <= last)
            str_add(&kept, line, (size_t)(end - line) + 1);
        else
            dropped = true;
        json_decref(v);
    }
    drv_status s =
            dropped || kept.n != n ? file_write_atomic(path, kept.p ? kept.p : "", kept.n) : DRV_OK;
    str_free(&kept);
    return s;
}

static drv_status flush(FILE *f, const char *path) {
    if (fflush(f) != 0 || ferror(f))
        return drv_fail(DRV_E_IO, "could not write \"%s\": %s", path, strerror(errno));
    return DRV_OK;
}

drv_status metrics_open(arena *a, const char *run_dir, int64_t resumed_step, metrics **out) {
    metrics *m = ARENA_NEW(a, metrics);
    char *dir = path_join(a, run_dir, "tensorboard");
    m->json_path = path_join(a, run_dir, "metrics.jsonl");
    // TensorBoard wants "tfevents" in the name and reads the files of a run in name order.
    m->event_path = arena_printf(a, "%s/events.out.tfevents.%010lld.drover.%d", dir,
            (long long)time(NULL), (int)getpid());
    DRV_TRY(dir_make(dir));
    DRV_TRY(cut_json(a, m->json_path, resumed_step));
    m->json = fopen(m->json_path, "a");
    if (!m->json)
        return drv_fail(DRV_E_IO, "could not open \"%s\": %s", m->json_path, strerror(errno));
    m->event = fopen(m->event_path, "ab");
    if (!m->event)
        return drv_fail(DRV_E_IO, "could not open \"%s\": %s", m->event_path, strerror(errno));
    Tensorboard__Event first = TENSORBOARD__EVENT__INIT;
    first.wall_time = wall_time();
    first.file_version = (char *)(uintptr_t) "brain.Event:2";
    write_event(m, &first);
    *out = m;
    return flush(m->event, m->event_path);
}

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static drv_status write_json(metrics *m, json_t *o) {
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(o);
    fprintf(m->json, "%s\n", text);
    free(text);
    return flush(m->json, m->json_path);
}

drv_status metrics_step(metrics *m, const step_metrics *s) {
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(s->step));
    json_object_set_new(o, "loss", number(s->loss));
    json_object_set_new(o, "lr", number(s->lr));
    json_object_set_new(o, "grad_norm", number(s->grad_norm));
    json_object_set_new(o, "param_norm", number(s->param_norm));
    json_object_set_new(o, "tokens", json_integer(s->tokens));
    json_object_set_new(o, "consumed_samples", json_integer(s->consumed_samples));
    json_object_set_new(o, "tokens_per_s", number(s->tokens_per_s));
    json_object_set_new(o, "step_s", number(s->step_s));
    json_object_set_new(o, "data_s", number(s->data_s));
    json_object_set_new(o, "compute_s", number(s->compute_s));
    json_object_set_new(o, "update_s", number(s->update_s));
    json_object_set_new(o, "save_s", number(s->save_s));
    if (s->mfu > 0) json_object_set_new(o, "mfu", number(s->mfu));
    if (s->skipped) json_object_set_new(o, "skipped", json_true());
    const scalar list[] = {{"reduced_train_loss", s->loss}, {"lr", s->lr},
            {"gradient_norm", s->grad_norm}, {"parameter_norm", s->param_norm},
            {"global_step", (double)s->step}, {"consumed_samples", (double)s->consumed_samples},
            {"throughput", s->tokens_per_s}, {"mfu", s->mfu}};
    write_scalars(m, s->step, list, sizeof list / sizeof *list);
    DRV_TRY(flush(m->event, m->event_path));
    return write_json(m, o);
}

drv_status metrics_valid(metrics *m, int64_t step, double loss, int64_t tokens) {
    write_scalars(m, step, &(scalar){"val_loss", loss}, 1);
    DRV_TRY(flush(m->event, m->event_path));
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(step));
    json_object_set_new(o, "val_loss", number(loss));
    json_object_set_new(o, "val_tokens", json_integer(tokens));
    return write_json(m, o);
}

void metrics_close(metrics *m) {
    if (m && m->json) fclose(m->json);
    if (m && m->event) fclose(m->event);
}

const char *metrics_line(arena *a, const step_metrics *s) {
    char mfu[32] = "";
    if (s->mfu > 0) snprintf(mfu, sizeof mfu, "  mfu %.1f%%", 100 * s->mfu);
    return arena_printf(a,
            "step %lld/%lld  loss %.4f  lr %.3g  grad norm %.3f  %.0f tokens/s%s  eta %s%s",
            (long long)s->step, (long long)s->steps, s->loss, s->lr, s->grad_norm, s->tokens_per_s,
            mfu, str_duration(s->eta_s), s->skipped ? "  skipped" : "");
}
