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

void journal_restart(const run_journal *self, const attempt_end *end, const decision *made) {
    add(self, EVENT_RESTART,
            json_pack("{s:s, s:o, s:o, s:o, s:f}", "cause", end_cause_name(end->cause), "node",
                    json_of_count(end->node), "host", json_of_words(end->host), "step",
                    json_of_count(end->step), "wait_s", made->wait_s));
}

void journal_exclusion(const run_journal *self, const attempt_end *end) {
    add(self, EVENT_EXCLUSION,
            json_pack("{s:i, s:o, s:s}", "node", end->node, "host", json_of_words(end->host),
                    "cause", end_cause_name(end->cause)));
}

void journal_layout(const run_journal *self, const attempt_layout *layout, int ranks) {
    str sets = {0};
    for (int i = 0; i < layout->n_sets; i++)
        str_printf(&sets, "%s%s", i ? " " : "", layout->sets[i]);
    add(self, EVENT_LAYOUT,
            json_pack("{s:i, s:i, s:s, s:b}", "nodes", layout->n_nodes, "ranks",
                    layout->n_nodes * ranks, "settings", sets.p ? sets.p : "", "same_bits",
                    (int)layout->same_bits));
    str_free(&sets);
}
