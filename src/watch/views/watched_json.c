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

json_t *watched_run_json(const watched_run *run) {
    json_t *object = json_object(), *ranks = json_array(), *events = json_array();
    for (int i = 0; i < run->table.n; i++)
        json_array_append_new(ranks, rank_row_json(&run->table.rows[i], i));
    for (int64_t i = 0; i < run->events.n; i++)
        json_array_append(events, run->events.events[i].fields);
    json_object_set_new(object, "run", json_of_text(run->dir));
    json_object_set_new(object, "state", json_of_text(watched_run_state(run)));
    json_object_set_new(object, "status",
            run->has_status ? run_status_json(&run->status) : json_null());
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
