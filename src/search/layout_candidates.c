// Enumerates meshes, and of each mesh schedules, micro-batches, recomputation, sharing of tokens
// and of the optimizer. Time and memory are estimated by the formulas of Korthikanti et al.
// (arXiv:2205.05198) and Narayanan et al. (arXiv:2104.04473), good enough for an order: what is
// listed is really planned.
//
// Legend: t, p, n, d ranks along the tensor, pipeline, context and data axes; M micro-batches of a
// data rank, V stages of a pipeline rank; h, f, k hidden, feed-forward, key-value width; T tokens
// of a micro-batch.
#include "search/layout_candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/round.h"
#include "ir/shard.h"
#include "model/layout.h"
#include "weights/run_layout.h"

enum { MAX_VIRTUAL = 32 };
// Estimates may be so much too high before a layout is left out unplanned.
#define SLACK 1.15

typedef struct search {
    const run_config *cfg;
    run_config with; // the same with the keys of the candidate that is looked at
    int64_t ranks;
    const step_flops *flops;
    const rank_power *power;
    layout_candidates *out;
    double parameters, begin; // begin: clock_s
} search;

bool layout_same_mesh(const layout_candidate *x, const layout_candidate *y) {
    return x->tensor == y->tensor && x->pipeline == y->pipeline && x->context == y->context;
}

mesh layout_mesh(const layout_candidate *c) {
    return (mesh){{[AXIS_PIPELINE] = (int)c->pipeline,
            [AXIS_DATA] = (int)c->data,
            [AXIS_CONTEXT] = (int)c->context,
            [AXIS_TENSOR] = (int)c->tensor}};
}

drv_status layout_candidate_apply(const layout_candidate *c, int64_t ranks, run_config *out) {
    out->tensor_parallel = c->tensor;
    out->pipeline_parallel = c->pipeline;
    out->context_parallel = c->context;
    out->context_blocks = 0;
    out->data_parallel = c->data;
    out->micro_batch_size = c->micro_batch;
    out->zero = c->zero;
    out->pipeline_schedule = c->schedule;
    out->virtual_stages = c->virtual_stages;
    out->recompute = c->recompute;
    out->sequence_parallel = c->sequence;
    out->rank = 0;
    return config_set_ranks(out, ranks);
}

// --- estimates
static double micro_batches_of(const search *s, const layout_candidate *c) {
    return (double)(s->cfg->global_batch_size / c->data / c->micro_batch);
}

// Micro-batches whose activations the first rank holds, each of a whole rank's layers.
static double in_flight(const layout_candidate *c, double micro_batches) {
    const double p = (double)c->pipeline, v = (double)c->virtual_stages;
    switch (c->schedule) {
    case SCHEDULE_GPIPE:
        return micro_batches;
    case SCHEDULE_INTERLEAVED:
        return fmin(2 * (p - 1) / v + p * (v - 1) / v + 1 / v, micro_batches);
    default:
        return fmin(p, micro_batches);
    }
}

// Bytes that the forward of a layer leaves for its backward, on one rank.
static double kept_of_layer(const search *s, const layout_candidate *c) {
    const model_config *m = &s->cfg->model;
    const double t = (double)c->tensor, unit = s->cfg->precision != PRECISION_F32 ? 2 : 4,
                 tokens = (double)(c->micro_batch * s->cfg->sequence_length / c->context),
                 h = (double)m->hidden_size, f = (double)m->intermediate_size,
                 heads = fmax((double)m->num_key_value_heads / t, 1), // of keys, at least one
            k = heads * (double)m->head_dim, alike = c->sequence ? t : 1;
    if (c->recompute == RECOMPUTE_FULL) return unit * tokens * h / alike;
    const double all = unit * tokens * (4 * h / alike + (2 * h + 3 * f) / t + 2 * k);
    if (c->recompute == RECOMPUTE_NONE) return all;
    return all - unit * tokens * (2 * h / alike + f / t);
}

// Counts the sums of each element of a gradient that a step of ZeRO-2 leaves open (ir/shard.h).
static double open_sums(const search *s, const layout_candidate *c) {
    const int64_t all = s->cfg->global_batch_size / c->micro_batch,
                  accum_groups = s->cfg->accum_groups ? s->cfg->accum_groups : 1;
    return shard_most_open(all, c->data, all / accum_groups);
}

static double bytes_of(const search *s, const layout_candidate *c) {
    const bool bf16 = s->cfg->precision != PRECISION_F32;
    const double layers = (double)s->cfg->model.num_hidden_layers, p = (double)c->pipeline,
                 parameters = s->parameters / (double)(c->tensor * c->pipeline);
    const double sums = c->zero == 2 ? 4.0 * open_sums(s, c) / (double)c->data : 4,
                 state = (bf16 ? 2 : 4) + sums,
                 moments = s->cfg->optimizer == OPTIMIZER_ADAMW ? 8 : 4,
                 optimizer = ((bf16 ? 4 : 0) + moments) /
                             (c->zero ? (double)(c->data * c->context) : 1);
    return parameters * (state + optimizer) +
           kept_of_layer(s, c) * layers / p * in_flight(c, micro_batches_of(s, c));
}

// The slowest rank works, the others wait while the pipeline fills and drains.
static double compute_seconds(const search *work, const layout_candidate *of) {
    const model_config *m = &work->cfg->model;
    const int n_stages = (int)(of->pipeline * of->virtual_stages);
    const double head = layout_head_in_layers(m), all = (double)m->num_hidden_layers + head,
                 tokens = (double)(of->micro_batch * work->cfg->sequence_length / of->context),
                 micro_batches = micro_batches_of(work, of);
    const double one = work->flops->per_token[of->recompute] * tokens /
                       ((double)of->tensor * work->power->flops); // a micro-batch through the model
    double slowest = 0, fill;
    int *layers = mem_alloc(sizeof *layers * (size_t)n_stages);
    layout_share_layers(m, n_stages, layers);
    for (int rank = 0; rank < of->pipeline; rank++) {
        double mine = rank == of->pipeline - 1 ? head : 0;
        for (int v = 0; v < of->virtual_stages; v++)
            mine += layers[v * of->pipeline + rank];
        slowest = fmax(slowest, mine / all);
    }
    free(layers);
    fill = (double)(of->pipeline - 1) / (double)of->pipeline / (double)of->virtual_stages;
    if (of->schedule == SCHEDULE_ZB_H1) fill /= 3; // tF + tI - tW of tF + tI + tW
    return one * (micro_batches * slowest + fill);
}

// Sums overlap with two thirds of a micro-batch, its backward pass, and new weights during the
// forward pass of the next one.
double layout_exposed_seconds(const run_config *cfg, double data_s, double micro_batch_s) {
    const run_layout run = run_layout_of(cfg);
    const double weights = cfg->precision != PRECISION_F32 ? 2 : 4, // bytes of wire a parameter
            sums = run.zero == 2 ? 4 * (double)run.micro_batches
                   : run.zero    ? 4
                                 : 8,
                 gathers = run.zero ? weights : 0, sums_s = data_s * sums / (sums + gathers);
    if (!run.gathers_async && !run.sums.ranks) return data_s;
    return fmax(sums_s - (run.sums.ranks ? micro_batch_s * 2 / 3 : 0), 0) +
           fmax(data_s - sums_s - micro_batch_s / 3, 0);
}

// compute_s: of the step.
static double wire_seconds(const search *work, const layout_candidate *of, double compute_s) {
    const model_config *model = &work->cfg->model;
    const double t = (double)of->tensor, n = (double)of->context, d = (double)of->data * n,
                 h = (double)model->hidden_size,
                 layers = (double)model->num_hidden_layers / (double)of->pipeline,
                 tokens = (double)(of->micro_batch * work->cfg->sequence_length / of->context),
                 bf16 = work->cfg->precision != PRECISION_F32 ? 1 : 2;
    const double kv = (double)(model->num_key_value_heads * model->head_dim),
                 // Keys and values forward and backward, their gradients in fp32.
            ring = (8 * bf16 + 8) * tokens * kv / t * (n - 1) * layers;
    const double between = (of->sequence ? 20 : 16) * bf16 * tokens * h * (t - 1) / t * layers;
    const double boundary = of->pipeline > 1 ? 4 * bf16 * tokens * h * (double)of->virtual_stages /
                                                       (of->sequence ? t : 1)
                                             : 0;
    const double weights = work->parameters / (t * (double)of->pipeline),
                 sums = of->zero == 2 ? 4 * micro_batches_of(work, of) : 4,
                 data = (d - 1) / d * weights * (of->zero ? sums + 2 * bf16 : 8);
    const link_speeds *l = &work->power->links;
    const mesh m = layout_mesh(of);
    const double each = link_axis_seconds(l, &m, AXIS_TENSOR, between) +
                        link_axis_seconds(l, &m, AXIS_PIPELINE, boundary) +
                        link_axis_seconds(l, &m, AXIS_CONTEXT, ring);
    return each * micro_batches_of(work, of) + layout_exposed_seconds(&work->with,
                                                       link_axis_seconds(l, &m, AXIS_DATA, data),
                                                       compute_s / micro_batches_of(work, of));
}

// --- enumeration
double layout_update_seconds(const run_config *cfg, const step_flops *flops,
        const rank_power *power, const layout_candidate *of) {
    const bool shared = of->zero && !config_backend(cfg)->has_devices;
    return flops->update /
           ((double)of->pipeline * power->flops * (shared ? (double)(of->data * of->context) : 1));
}

static void add(search *s, layout_candidate c) {
    layout_candidates *out = s->out;
    s->with.zero = c.zero;
    c.bytes = bytes_of(s, &c);
    if (c.bytes > SLACK * s->power->memory) {
        out->n_too_large++;
        return;
    }
    const double compute_s = compute_seconds(s, &c);
    c.seconds = compute_s + layout_update_seconds(s->cfg, s->flops, s->power, &c) +
                wire_seconds(s, &c, compute_s);
    MEM_GROW(out->list, out->n, out->cap);
    out->list[out->n++] = c;
}

// ZeRO-2 where there are data ranks that can have it.
static int64_t most_zero(search *s, const layout_candidate *c) {
    if (c->data * c->context == 1) return 0;
    s->with.zero = 2;
    return c->data > 1 && run_layout_check(&s->with) == DRV_OK ? 2 : 1;
}

// Recomputation, tokens and optimizer shared or not.
static void add_variants(search *s, layout_candidate c) {
    const int64_t tokens = c.micro_batch * s->cfg->sequence_length / c.context,
                  zero_end = most_zero(s, &c) + 1;
    for (int mode = RECOMPUTE_NONE; mode <= RECOMPUTE_FULL; mode++)
        for (int sequence = 0; sequence <= (c.tensor > 1 && tokens % c.tensor == 0); sequence++)
            for (int64_t zero = 0; zero < zero_end; zero++) {
                c.recompute = (recompute_mode)mode;
                c.sequence = sequence;
                c.zero = zero;
                add(s, c);
            }
}

static void add_schedules(search *s, layout_candidate c) {
    static const stage_schedule whole[] = {SCHEDULE_1F1B, SCHEDULE_GPIPE, SCHEDULE_ZB_H1};
    c.virtual_stages = 1;
    c.schedule = SCHEDULE_AUTO;
    if (c.pipeline == 1) {
        add_variants(s, c);
        return;
    }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        c.schedule = whole[i];
        add_variants(s, c);
    }
    c.schedule = SCHEDULE_INTERLEAVED;
    if (micro_batches_of(s, &c) < (double)c.pipeline) return;
    for (c.virtual_stages = 2; c.virtual_stages <= MAX_VIRTUAL &&
                               c.virtual_stages * c.pipeline <= s->cfg->model.num_hidden_layers;
            c.virtual_stages++)
        add_variants(s, c);
}

static void add_micro_batches(search *s, layout_candidate c) {
    const int64_t share = s->cfg->global_batch_size / c.data;
    const int before = s->out->n + s->out->n_too_large;
    for (c.micro_batch = 1; c.micro_batch <= 16 && c.micro_batch <= share; c.micro_batch *= 2) {
        c.virtual_stages = 1;
        if (share % c.micro_batch == 0 && layout_candidate_apply(&c, s->ranks, &s->with) == DRV_OK)
            add_schedules(s, c);
    }
    s->out->n_meshes += s->out->n + s->out->n_too_large > before;
}

// Degrees come in rising order.
static void refuse(search *s, const char *axis, int64_t degree, const char *why) {
    layout_candidates *out = s->out;
    int i = 0;
    while (i < out->n_refused &&
            (strcmp(out->refused[i].axis, axis) != 0 || strcmp(out->refused[i].why, why) != 0))
        i++;
    if (i == MAX_REFUSALS) return;
    layout_refusal *r = &out->refused[i];
    if (i == out->n_refused) {
        *r = (layout_refusal){.axis = axis};
        snprintf(r->why, sizeof r->why, "%s", why);
        out->n_refused++;
    }
    str_printf(&r->degrees, "%s%lld", r->degrees.n ? ", " : "", (long long)degree);
}

void layout_refusals_add(const layout_candidates *c, str *out) {
    for (int i = 0; i < c->n_refused; i++)
        str_printf(out, "%s%s %s (%s)", i ? "; " : "", c->refused[i].axis, c->refused[i].degrees.p,
                c->refused[i].why);
}

// Shows how far the estimates are, which take seconds for many ranks with many divisors.
static void show_estimates(const search *s) {
    if (clock_s() - s->begin > 1)
        progress("estimating layouts: %d variants of %d meshes", s->out->n + s->out->n_too_large,
                s->out->n_meshes);
}

static void add_pipelines(search *s, layout_candidate c) {
    const int64_t left = s->ranks / c.tensor / c.context;
    show_estimates(s);
    for (c.pipeline = 1; c.pipeline <= left && c.pipeline <= s->cfg->model.num_hidden_layers;
            c.pipeline++) {
        if (left % c.pipeline) continue;
        c.data = left / c.pipeline;
        if (s->cfg->global_batch_size % c.data == 0) add_micro_batches(s, c);
    }
}

// Rows are cut in 2 n parts, of which each rank has two.
static bool context_divides(const search *s, int64_t n) {
    return n == 1 || s->cfg->sequence_length % (2 * n) == 0;
}

static void add_contexts(search *s, layout_candidate c) {
    for (c.context = 1; c.context <= s->ranks / c.tensor; c.context++)
        if (s->ranks / c.tensor % c.context == 0 && context_divides(s, c.context))
            add_pipelines(s, c);
}

// Degrees that are refused whatever the others are.
static void refuse_degrees(search *s) {
    const int64_t layers = s->cfg->model.num_hidden_layers, batch = s->cfg->global_batch_size;
    char why[96];
    for (int64_t n = 1; n <= s->ranks; n++) {
        if (s->ranks % n) continue;
        snprintf(why, sizeof why, "expected at most the %lld layers of the model",
                (long long)layers);
        if (n > layers) refuse(s, "pipeline", n, why);
        snprintf(why, sizeof why,
                n > batch ? "expected at most the %lld rows of training.global_batch_size"
                          : "expected a divisor of training.global_batch_size %lld",
                (long long)batch);
        if (batch % n) refuse(s, "data", n, why);
        snprintf(why, sizeof why, "expected half a divisor of data.sequence_length %lld",
                (long long)s->cfg->sequence_length);
        if (!context_divides(s, n)) refuse(s, "context", n, why);
    }
}

// --- order
static int by_speed(const void *x, const void *y) {
    const layout_candidate *a = x, *b = y;
    if (a->seconds != b->seconds) return a->seconds < b->seconds ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

// Takes the candidates of each mesh together, in the order of the fastest ones.
static void group_meshes(layout_candidates *c) {
    if (c->n) qsort(c->list, (size_t)c->n, sizeof *c->list, by_speed);
    layout_candidate *grouped = mem_alloc(sizeof *grouped * (size_t)(c->n + 1));
    bool *taken = mem_zeroed((size_t)(c->n + 1));
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        if (taken[i]) continue;
        for (int k = i; k < c->n; k++) {
            if (taken[k] || !layout_same_mesh(&c->list[i], &c->list[k])) continue;
            grouped[n++] = c->list[k];
            taken[k] = true;
        }
    }
    free(taken);
    free(c->list);
    c->list = grouped;
}

void layout_candidates_find(const run_config *cfg, int64_t ranks, const step_flops *flops,
        const rank_power *power, layout_candidates *out) {
    search work = {.cfg = cfg,
            .with = *cfg,
            .ranks = ranks,
            .flops = flops,
            .power = power,
            .out = out,
            .parameters = (double)model_parameters(&cfg->model),
            .begin = clock_s()};
    *out = (layout_candidates){0};
    refuse_degrees(&work);
    for (int64_t t = 1; t <= ranks; t++) {
        const mesh m = {{1, 1, 1, (int)t}};
        const layout_opts opts = {.blocks = (int)cfg->tensor_blocks};
        model_layout layout;
        if (ranks % t) continue;
        if (layout_on(&cfg->model, &m, 0, &opts, &layout) == DRV_OK)
            add_contexts(&work, (layout_candidate){.tensor = t});
        else
            refuse(&work, "tensor", t, strstr(drv_message(), "expected"));
    }
    group_meshes(out);
    progress_end();
}

void layout_candidates_free(layout_candidates *c) {
    free(c->list);
    for (int i = 0; i < c->n_refused; i++)
        str_free(&c->refused[i].degrees);
}
