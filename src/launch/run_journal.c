// Reads what node 0 needs to know of a run, and appends to its journal. The run directory belongs
// to the ranks, so node 0 writes only where one of its own attempts has run.

#include "base/json.h"
#include "base/log.h"
#include "launch/run_journal.h"

// A run that has not started yet has no files.
static bool read_status(const run_journal *self, run_status *out) {
    return run_status_read(self->a, self->run_dir, out) == DRV_OK;
}

void journal_read_progress(const run_journal *self, int64_t *run_attempt, int64_t *saved_step) {
    run_status status;
    const bool found = read_status(self, &status);
    *run_attempt = found ? status.attempt : 0;
    *saved_step = found ? status.saved_step : -1;
}

bool journal_read_status(const run_journal *self, run_status *out) {
    return read_status(self, out) && out->attempt > self->attempt_before;
}

// A journal that cannot be written does not end the job.
static void add(const run_journal *self, run_event_kind kind, json_t *fields) {
    run_status status;
    run_events *events;
    if (!journal_read_status(self, &status) ||
            run_events_open(self->a, self->run_dir, status.attempt, &events) != DRV_OK) {
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

void journal_restart(const run_journal *self, const attempt_end *end, const decision *made) {
    json_t *fields = json_object();
    json_object_set_new(fields, "cause", json_string(end_cause_name(end->cause)));
    json_object_set_new(fields, "node", node_or_null(end->node));
    json_object_set_new(fields, "host", host_of(end->host));
    json_object_set_new(fields, "step", end->step >= 0 ? json_integer(end->step) : json_null());
    json_object_set_new(fields, "wait_s", json_real(made->wait_s));
    add(self, EVENT_RESTART, fields);
}

void journal_exclusion(const run_journal *self, const attempt_end *end) {
    json_t *fields = json_object();
    json_object_set_new(fields, "node", json_integer(end->node));
    json_object_set_new(fields, "host", host_of(end->host));
    json_object_set_new(fields, "cause", json_string(end_cause_name(end->cause)));
    add(self, EVENT_EXCLUSION, fields);
}

void journal_layout(const run_journal *self, const attempt_layout *layout, int ranks) {
    str sets = {0};
    json_t *fields = json_object();
    for (int i = 0; i < layout->n_sets; i++)
        str_printf(&sets, "%s%s", i ? " " : "", layout->sets[i]);
    json_object_set_new(fields, "nodes", json_integer(layout->n_nodes));
    json_object_set_new(fields, "ranks", json_integer(layout->n_nodes * ranks));
    json_object_set_new(fields, "settings", json_string(sets.p ? sets.p : ""));
    json_object_set_new(fields, "same_bits", json_boolean(layout->same_bits));
    str_free(&sets);
    add(self, EVENT_LAYOUT, fields);
}
