// Reads what node 0 needs of a run, and adds to its journal: the run directory belongs to the
// ranks, so it writes only where one of its own attempts has been.
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "launch/head.h"

// A run that has not begun yet has no files.
static bool read_status(const head *h, run_status *out) {
    return run_status_read(h->a, h->job->run_dir, out) == DRV_OK;
}

void record_look(const head *h, int64_t *run_attempt, int64_t *saved_step) {
    run_status status;
    const bool found = read_status(h, &status);
    *run_attempt = found ? status.attempt : 0;
    *saved_step = found ? status.saved_step : -1;
}

bool record_said(const head *h, run_status *out) {
    return read_status(h, out) && out->attempt > h->attempt.attempt_before;
}

// A journal that cannot be written stops nothing.
static void add(const head *h, run_event_kind kind, json_t *fields) {
    run_status status;
    run_events *events;
    if (!record_said(h, &status) ||
            run_events_open(h->a, h->job->run_dir, status.attempt, &events) != DRV_OK) {
        json_decref(fields);
        return;
    }
    if (run_events_add(events, kind, fields) != DRV_OK) log_warn("%s", drv_message());
    run_events_close(events);
}

static json_t *host_of(const char *host) {
    json_t *text = *host ? json_string(host) : NULL;
    return text ? text : json_null();
}

static json_t *node_or_null(int node) {
    return node >= 0 ? json_integer(node) : json_null();
}

void record_restart(const head *h, const attempt_end *end, const decision *made) {
    json_t *fields = json_object();
    json_object_set_new(fields, "cause", json_string(end_cause_name(end->cause)));
    json_object_set_new(fields, "node", node_or_null(end->node));
    json_object_set_new(fields, "host", host_of(end->host));
    json_object_set_new(fields, "step", end->step >= 0 ? json_integer(end->step) : json_null());
    json_object_set_new(fields, "wait_s", json_real(made->wait_s));
    add(h, EVENT_RESTART, fields);
}

void record_exclusion(const head *h, const attempt_end *end) {
    json_t *fields = json_object();
    json_object_set_new(fields, "node", json_integer(end->node));
    json_object_set_new(fields, "host", host_of(end->host));
    json_object_set_new(fields, "cause", json_string(end_cause_name(end->cause)));
    add(h, EVENT_EXCLUSION, fields);
}

void record_layout(const head *h, const attempt_layout *layout) {
    str sets = {0};
    json_t *fields = json_object();
    for (int i = 0; i < layout->n_sets; i++)
        str_printf(&sets, "%s%s", i ? " " : "", layout->sets[i]);
    json_object_set_new(fields, "nodes", json_integer(layout->n_nodes));
    json_object_set_new(fields, "ranks", json_integer(layout->n_nodes * h->job->ranks));
    json_object_set_new(fields, "settings", json_string(sets.p ? sets.p : ""));
    json_object_set_new(fields, "same_bits", json_boolean(layout->same_bits));
    str_free(&sets);
    add(h, EVENT_LAYOUT, fields);
}
