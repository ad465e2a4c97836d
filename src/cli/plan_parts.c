// Prints the stages of a pipeline, and the terms of a step's time on a device.
#include "cli/plan_parts.h"

#include <stdio.h>

#include "base/str.h"

void plan_stages_print(const stage_plans *s) {
    const pipeline_shape *shape = &s->shape;
    int peak = 0;
    for (int place = 0; place < s->n; place++)
        if (s->result.peak[place] > peak) peak = s->result.peak[place];
    printf("pipeline      %s, %d micro-batches: bubble %.1f %%, at most %d in flight%s\n",
            pipeline_kind_name(shape->kind), shape->micro_batches, 100 * s->result.bubble, peak,
            shape->chunks > 1 ? " (each on one of the chunks)" : "");
    for (int place = 0; place < s->n; place++) {
        printf("  rank %-6d  %12s  layers", place, str_bytes((double)s->bytes[place]));
        for (int v = 0; v < shape->chunks; v++) {
            int first = 0;
            const int stage = v * s->n + place;
            for (int i = 0; i < stage; i++)
                first += s->layers[i];
            printf(" %d-%d", first, first + s->layers[stage] - 1);
        }
        printf("%s%s%s\n", place == 0 ? ", embedding" : "", place == s->n - 1 ? ", head" : "",
                place == s->worst ? "  <- most, as below" : "");
    }
}

json_t *plan_stages_json(const stage_plans *s) {
    const pipeline_shape *shape = &s->shape;
    json_t *bytes = json_array(), *in_flight = json_array(), *layers = json_array(),
           *sent = json_array();
    for (int place = 0; place < s->n; place++) {
        json_array_append_new(bytes, json_integer(s->bytes[place]));
        json_array_append_new(in_flight, json_integer(s->result.peak[place]));
        json_array_append_new(sent, json_real(s->sent[place]));
    }
    for (int i = 0; i < s->n * shape->chunks; i++)
        json_array_append_new(layers, json_integer(s->layers[i]));
    return json_pack("{s:s,s:i,s:i,s:i,s:f,s:i,s:o,s:o,s:o,s:o}", "schedule",
            pipeline_kind_name(shape->kind), "ranks", s->n, "virtual_stages", shape->chunks,
            "micro_batches", shape->micro_batches, "bubble", s->result.bubble, "worst_rank",
            s->worst, "rank_bytes", bytes, "rank_wire_bytes", sent, "in_flight", in_flight,
            "stage_layers", layers);
}

// --- the time of a step
void step_terms_print(const step_cost *cost) {
    for (step_term t = 0; t < N_STEP_TERMS; t++)
        if (cost->term[t] >= 5e-4 * cost->seconds)
            printf("  %-11s %10.4g s %6.1f %%\n", step_term_name(t), cost->term[t],
                    100 * cost->term[t] / cost->seconds);
}

void device_plan_print(const device_plan *d, int ranks, int64_t steps) {
    const step_cost *c = &d->cost;
    printf("device        %s, %d of them\n", d->device.name, ranks);
    printf("step          %.4g s, %s tokens/s, %s a rank, %.1f %% MFU\n", c->seconds,
            str_si(d->tokens_per_s), str_si(d->tokens_per_s / ranks), 100 * d->mfu);
    step_terms_print(c);
    for (int i = 0; i < d->n_advice; i++)
        printf("%-13s --set %s: %.1f %% more tokens/s, less time for %s\n", i ? "" : "faster with",
                d->advice[i].setting, 100 * (d->advice[i].faster - 1),
                step_term_name(d->advice[i].term));
    printf("time          %s for %lld step%s; without evaluations and checkpoints\n",
            str_long_duration(c->seconds * (double)steps), (long long)steps, str_plural(steps));
}
