// Prints a watched run as one JSON object.
#include <math.h>
#include <string.h>

#include "watch/views/watched_run.h"

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *count(int64_t x) {
    return x >= 0 ? json_integer(x) : json_null();
}

static json_t *text(const char *s) { // also NULL: bytes that are not UTF-8
    json_t *value = json_string(s);
    return value ? value : json_null();
}

static json_t *step_json(const watched_step *step) {
    json_t *object = json_object();
    json_object_set_new(object, "step", count(step->step));
    json_object_set_new(object, "loss", number(step->loss));
    json_object_set_new(object, "lr", number(step->lr));
    json_object_set_new(object, "grad_norm", number(step->grad_norm));
    json_object_set_new(object, "tokens", number(step->tokens));
    json_object_set_new(object, "tokens_per_s", number(step->tokens_per_s));
    json_object_set_new(object, "mfu", number(step->mfu));
    json_object_set_new(object, "step_s", number(step->step_s));
    json_object_set_new(object, "val_loss", number(step->val_loss));
    return object;
}

static json_t *energy_json(const watched_run *run) {
    double per_step;
    json_t *object = json_object(), *hosts = json_array();
    json_object_set_new(object, "joules", number(watched_run_joules(run, &per_step)));
    json_object_set_new(object, "joules_per_step", number(per_step));
    json_object_set_new(object, "source", text(watched_run_energy_words(run)));
    for (int64_t i = 0; i < run->n_energy; i++) {
        const watched_energy *of = &run->energy[i];
        json_t *host = json_object();
        json_object_set_new(host, "host", text(of->host));
        json_object_set_new(host, "joules", number(of->joules));
        json_object_set_new(host, "steps", count(of->steps));
        json_array_append_new(hosts, host);
    }
    json_object_set_new(object, "hosts", hosts);
    return object;
}

static json_t *terms_json(const watched_run *run) {
    arena *a = arena_new("terms");
    const term_pair *pairs;
    const char *device;
    const int n = watched_terms_pairs(a, &run->terms, &run->events, &pairs, &device);
    json_t *object = json_object(), *planned = json_object(), *measured = json_object();
    for (int i = 0; i < n; i++) {
        json_object_set_new(planned, pairs[i].name, number(pairs[i].planned_s));
        json_object_set_new(measured, pairs[i].name, number(pairs[i].measured_s));
    }
    json_object_set_new(object, "device", text(device));
    json_object_set_new(object, "planned_s", planned);
    json_object_set_new(object, "measured_s", measured);
    arena_free(a);
    return object;
}

static json_t *ledger_json(const watched_run *run) {
    const ledger_sums *sums = &run->sums;
    json_t *object = json_object(), *classes = json_object();
    json_object_set_new(object, "energy", energy_json(run));
    for (int i = 0; i < N_LEDGER_CLASSES; i++)
        json_object_set_new(classes, ledger_key((ledger_class)i), number(sums->seconds[i]));
    json_object_set_new(object, "wall_s", number(sums->wall_s));
    json_object_set_new(object, "goodput", number(sums->goodput));
    json_object_set_new(object, "seconds", classes);
    json_object_set_new(object, "attempts", json_integer(sums->n_attempts));
    json_object_set_new(object, "lost_steps", json_integer(sums->n_lost_steps));
    json_object_set_new(object, "negative_gaps", json_integer(sums->n_negative));
    return object;
}

static json_t *rank_json(const rank_row *row, int rank) {
    json_t *object = json_object();
    json_object_set_new(object, "rank", json_integer(rank));
    json_object_set_new(object, "known", json_boolean(row->known));
    if (!row->known) return object;
    json_object_set_new(object, "host", text(row->host));
    json_object_set_new(object, "pid", count(row->pid));
    json_object_set_new(object, "step", count(row->step));
    json_object_set_new(object, "program", text(row->program));
    json_object_set_new(object, "operation", text(row->op));
    json_object_set_new(object, "ended", json_boolean(row->ended));
    json_object_set_new(object, "since_s", number(row->since_s));
    json_object_set_new(object, "heard_s", number(row->heard_s));
    json_object_set_new(object, "compute_s", number(row->compute_s));
    json_object_set_new(object, "wait_s", number(row->wait_s));
    json_object_set_new(object, "data_s", number(row->data_s));
    json_object_set_new(object, "save_s", number(row->save_s));
    json_object_set_new(object, "resident_bytes", json_integer(row->resident));
    json_object_set_new(object, "planned_bytes", json_integer(row->planned));
    json_object_set_new(object, "device_bytes", json_integer(row->device));
    json_object_set_new(object, "sent_bytes", json_integer(row->sent));
    json_object_set_new(object, "arithmetic", text(row->arithmetic));
    return object;
}

static json_t *status_json(const run_status *status) {
    json_t *object = json_object();
    const char *end = run_end_name(status->end);
    json_object_set_new(object, "state", text(run_state_name(status->state)));
    json_object_set_new(object, "time", number(status->time));
    json_object_set_new(object, "step", count(status->step));
    json_object_set_new(object, "steps", count(status->steps));
    json_object_set_new(object, "eta_s", number(status->eta_s));
    json_object_set_new(object, "attempt", count(status->attempt));
    json_object_set_new(object, "ranks", count(status->ranks));
    json_object_set_new(object, "nodes", count(status->nodes));
    json_object_set_new(object, "saved_step", count(status->saved_step));
    json_object_set_new(object, "end", end ? text(end) : json_null());
    json_object_set_new(object, "status", count(status->exit_status));
    json_object_set_new(object, "cause", text(status->cause));
    json_object_set_new(object, "message", text(status->message));
    return object;
}

json_t *watched_run_json(const watched_run *run) {
    json_t *object = json_object(), *ranks = json_array(), *events = json_array();
    for (int i = 0; i < run->table.n; i++)
        json_array_append_new(ranks, rank_json(&run->table.rows[i], i));
    for (int64_t i = 0; i < run->events.n; i++)
        json_array_append(events, run->events.events[i].fields);
    json_object_set_new(object, "run", text(run->dir));
    json_object_set_new(object, "state", text(watched_run_state(run)));
    json_object_set_new(object, "status",
            run->has_status ? status_json(&run->status) : json_null());
    json_object_set_new(object, "last_step", step_json(&run->last));
    json_object_set_new(object, "metrics_read",
            json_real(run->metrics_bytes > 0 ? (double)run->read_bytes / (double)run->metrics_bytes
                                             : 1));
    json_object_set_new(object, "ledger", ledger_json(run));
    json_object_set_new(object, "terms", terms_json(run));
    json_object_set_new(object, "ranks_time",
            run->has_table ? number(run->table.time) : json_null());
    json_object_set_new(object, "ranks", ranks);
    json_object_set_new(object, "events", events);
    json_object_set_new(object, "problems", text(run->problems.n ? run->problems.p : ""));
    return object;
}
