// Compares terms by their names, whatever they are.
#include "watch/views/watched_terms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double number(const json_t *value) {
    const double x = json_is_number(value) ? json_number_value(value) : (double)NAN;
    return x >= 0 && x < 1e9 ? x : (double)NAN;
}

static int index_of(watched_terms *self, const char *name) {
    for (int i = 0; i < self->n; i++)
        if (strcmp(self->name[i], name) == 0) return i;
    if (self->n == MAX_WATCHED_TERMS || strlen(name) >= sizeof self->name[0]) return -1;
    snprintf(self->name[self->n], sizeof self->name[0], "%s", name);
    return self->n++;
}

void watched_terms_add(watched_terms *self, const json_t *record) {
    json_t *terms = json_object_get(record, "terms"), *value;
    const double step_s = number(json_object_get(record, "step_s"));
    const char *name;
    if (!json_is_object(terms) || isnan(step_s)) return;
    if (self->steps++ < 0) return;
    self->step_s += step_s;
    json_object_foreach(terms, name, value) {
        const int i = index_of(self, name);
        if (i >= 0 && !isnan(number(value))) self->seconds[i] += number(value);
    }
}

static const json_t *newest_plan(const run_event_list *events) {
    for (int64_t i = events->n - 1; i >= 0; i--) {
        const run_event *e = &events->events[i];
        const json_t *plan = json_object_get(e->fields, "plan");
        if (e->kind == EVENT_RUNNING) return json_is_object(plan) ? plan : NULL;
    }
    return NULL;
}

static double measured(const watched_terms *self, const char *name) {
    for (int i = 0; i < self->n && self->steps > 0; i++)
        if (strcmp(self->name[i], name) == 0) return self->seconds[i] / (double)self->steps;
    return (double)NAN;
}

int watched_terms_pairs(arena *a, const watched_terms *self, const run_event_list *events,
        const term_pair **out, const char **device) {
    const json_t *plan = newest_plan(events);
    json_t *terms = json_object_get(plan, "terms"), *value;
    const char *name, *of = json_string_value(json_object_get(plan, "device"));
    term_pair *pairs = ARENA_ARRAY(a, term_pair, 2 * MAX_WATCHED_TERMS + 1);
    int n = 0;
    *device = of ? of : "";
    *out = pairs;
    json_object_foreach(terms, name, value) if (n < MAX_WATCHED_TERMS) pairs[n++] =
            (term_pair){name, number(value), measured(self, name)};
    for (int i = 0; i < self->n && self->steps > 0; i++)
        if (!json_object_get(terms, self->name[i]))
            pairs[n++] = (term_pair){self->name[i], (double)NAN, measured(self, self->name[i])};
    if (n == 0) return 0;
    pairs[n++] = (term_pair){"step", number(json_object_get(plan, "step_s")),
            self->steps > 0 ? self->step_s / (double)self->steps : (double)NAN};
    return n;
}

const char *watched_terms_text(arena *a, const term_pair *pairs, int n) {
    int most = -1;
    double largest = 0;
    for (int i = 0; i < n - 1; i++) {
        const double apart = fabs(pairs[i].measured_s - pairs[i].planned_s);
        if (!(apart > largest)) continue;
        largest = apart;
        most = i;
    }
    if (most < 0) return "";
    const term_pair *p = &pairs[most], *step = &pairs[n - 1];
    return arena_printf(a,
            "%s takes %.3g s instead of %.3g s, the largest difference; a step takes %.3g s instead of %.3g s",
            p->name, p->measured_s, p->planned_s, step->measured_s, step->planned_s);
}
