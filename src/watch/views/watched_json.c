// Prints a watched run as one JSON object.

#include "watch/views/watched_run.h"

static json_t *step_json(const watched_step *step) {
    json_t *object = json_object();
    json_object_set_new(object, "step", json_of_count(step->step));
    json_object_set_new(object, "loss", json_of_f64(step->loss));
    json_object_set_new(object, "lr", json_of_f64(step->lr));
    json_object_set_new(object, "grad_norm", json_of_f64(step->grad_norm));
    json_object_set_new(object, "tokens", json_of_f64(step->tokens));
    json_object_set_new(object, "tokens_per_s", json_of_f64(step->tokens_per_s));
    json_object_set_new(object, "mfu", json_of_f64(step->mfu));
    json_object_set_new(object, "step_s", json_of_f64(step->step_s));
    json_object_set_new(object, "val_loss", json_of_f64(step->val_loss));
    return object;
}

static json_t *energy_json(const watched_run *run) {
    double per_step;
    json_t *object = json_object(), *hosts = json_array();
    json_object_set_new(object, "joules", json_of_f64(watched_run_joules(run, &per_step)));
    json_object_set_new(object, "joules_per_step", json_of_f64(per_step));
    json_object_set_new(object, "source", json_of_text(watched_run_energy_text(run)));
    for (int64_t i = 0; i < run->n_energy; i++) {
        const watched_energy *of = &run->energy[i];
        json_t *host = json_object();
        json_object_set_new(host, "host", json_of_text(of->host));
        json_object_set_new(host, "joules", json_of_f64(of->joules));
        json_object_set_new(host, "steps", json_of_count(of->steps));
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
        json_object_set_new(planned, pairs[i].name, json_of_f64(pairs[i].planned_s));
        json_object_set_new(measured, pairs[i].name, json_of_f64(pairs[i].measured_s));
    }
    json_object_set_new(object, "device", json_of_text(device));
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
        json_object_set_new(classes, ledger_key((ledger_class)i), json_of_f64(sums->seconds[i]));
    json_object_set_new(object, "wall_s", json_of_f64(sums->wall_s));
    json_object_set_new(object, "goodput", json_of_f64(sums->goodput));
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
    json_object_set_new(object, "host", json_of_text(row->host));
    json_object_set_new(object, "pid", json_of_count(row->pid));
    json_object_set_new(object, "step", json_of_count(row->step));
    json_object_set_new(object, "program", json_of_text(row->program));
    json_object_set_new(object, "operation", json_of_text(row->op));
    json_object_set_new(object, "ended", json_boolean(row->ended));
    json_object_set_new(object, "since_s", json_of_f64(row->since_s));
    json_object_set_new(object, "heard_s", json_of_f64(row->heard_s));
    json_object_set_new(object, "compute_s", json_of_f64(row->compute_s));
    json_object_set_new(object, "wait_s", json_of_f64(row->wait_s));
    json_object_set_new(object, "data_s", json_of_f64(row->data_s));
    json_object_set_new(object, "save_s", json_of_f64(row->save_s));
    json_object_set_new(object, "resident_bytes", json_integer(row->resident));
    json_object_set_new(object, "planned_bytes", json_integer(row->planned));
    json_object_set_new(object, "device_bytes", json_integer(row->device));
    json_object_set_new(object, "sent_bytes", json_integer(row->sent));
    json_object_set_new(object, "arithmetic", json_of_text(row->arithmetic));
    return object;
}

static json_t *status_json(const run_status *status) {
    json_t *object = json_object();
    const char *end = run_end_name(status->end);
    json_object_set_new(object, "state", json_of_text(run_state_name(status->state)));
    json_object_set_new(object, "time", json_of_f64(status->time));
    json_object_set_new(object, "step", json_of_count(status->step));
    json_object_set_new(object, "steps", json_of_count(status->steps));
    json_object_set_new(object, "eta_s", json_of_f64(status->eta_s));
    json_object_set_new(object, "attempt", json_of_count(status->attempt));
    json_object_set_new(object, "ranks", json_of_count(status->ranks));
    json_object_set_new(object, "nodes", json_of_count(status->nodes));
    json_object_set_new(object, "saved_step", json_of_count(status->saved_step));
    json_object_set_new(object, "end", json_of_text(end));
    json_object_set_new(object, "status", json_of_count(status->exit_status));
    json_object_set_new(object, "cause", json_of_text(status->cause));
    json_object_set_new(object, "message", json_of_text(status->message));
    return object;
}

json_t *watched_run_json(const watched_run *run) {
    json_t *object = json_object(), *ranks = json_array(), *events = json_array();
    for (int i = 0; i < run->table.n; i++)
        json_array_append_new(ranks, rank_json(&run->table.rows[i], i));
    for (int64_t i = 0; i < run->events.n; i++)
        json_array_append(events, run->events.events[i].fields);
    json_object_set_new(object, "run", json_of_text(run->dir));
    json_object_set_new(object, "state", json_of_text(watched_run_state(run)));
    json_object_set_new(object, "status",
            run->has_status ? status_json(&run->status) : json_null());
    json_object_set_new(object, "last_step", step_json(&run->last));
    json_object_set_new(object, "metrics_read",
            json_real(run->metrics_bytes > 0 ? (double)run->read_bytes / (double)run->metrics_bytes
                                             : 1));
    json_object_set_new(object, "ledger", ledger_json(run));
    json_object_set_new(object, "terms", terms_json(run));
    json_object_set_new(object, "ranks_time",
            run->has_table ? json_of_f64(run->table.time) : json_null());
    json_object_set_new(object, "ranks", ranks);
    json_object_set_new(object, "events", events);
    json_object_set_new(object, "problems", json_of_text(run->problems.n ? run->problems.p : ""));
    return object;
}
