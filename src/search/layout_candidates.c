// Enumerates meshes, and for each mesh schedules, micro-batch sizes, recomputation, sequence
// parallelism and levels of ZeRO. The time of a candidate is estimated from the work of one layer
// (layer_work.h) by the model of time that plans use (step_cost.h), its memory from small models
// (layout_bytes.h). Each thread takes one degree of tensor parallelism at a time, with its own
// layers and small models.
#include "search/layout_candidates.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/round.h"
#include "model/layout.h"
#include "programs/stages.h"
#include "search/layer_work.h"
#include "search/layout_bytes.h"
#include "search/step_cost.h"
#include "setup/run_layout.h"

enum { MAX_VIRTUAL = 32, MOST_TASKS = 512 }; // longer tables are not simulated for an estimate
// A layout is left out without a plan if its estimated memory exceeds the device's by this factor.
#define SLACK 1.15

// The inputs, which all threads read.
typedef struct search_inputs {
    const run_config *cfg;
    int64_t ranks;
    const device_profile *device;
    const mesh *pinned;
    double parameters, begin; // begin: clock_s
    atomic_int *n_meshes;     // estimated so far, by all threads
} search_inputs;

// The layouts of one degree of tensor parallelism.
typedef struct search {
    const run_config *cfg;
    run_config with; // the same config with the keys of the current candidate
    int64_t ranks;
    const search_inputs *in;
    layer_works *layers;
    layout_bytes *bytes;
    layout_candidates *out;
    bool shows; // this thread shows the progress of all
} search;

typedef struct tensor_degree {
    int64_t tensor;
    char why[112]; // it is not possible; empty: it is
    layout_candidates found;
} tensor_degree;

bool layout_same_mesh(const layout_candidate *x, const layout_candidate *y) {
    return x->tensor == y->tensor && x->pipeline == y->pipeline && x->context == y->context;
}

static mesh layout_mesh(const layout_candidate *c) {
    return (mesh){.size = {[AXIS_PIPELINE] = (int)c->pipeline,
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
    out->zero = out->given_zero = c->zero;
    out->zero_group = c->zero_group;
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

static const layer_work *layer_of(const search *s, const layout_candidate *c) {
    const layer_key key = {.tensor = c->tensor,
            .context = c->context,
            .micro_batch = c->micro_batch,
            .recompute = c->recompute,
            .sequence = c->sequence};
    return layer_works_get(s->layers, &key);
}

// Bytes per parameter that an update reads and writes: for all parameters of a rank, and in
// addition for those of its shard.
enum { OWN_BYTES = 6, SHARED_BYTES = 38 };

// Sets the traffic of data ranks and the work of the update. A gradient takes 4 bytes, a weight 2
// or 4.
static void compose_shared(const search *s, const layout_candidate *c, step_work *to) {
    const double shared = (double)(c->data * c->context), groups = (double)layout_groups(c),
                 mine = s->in->parameters / (double)(c->tensor * c->pipeline),
                 sent = mine * (shared - groups) / shared,
                 between = mine * groups / shared * (groups - 1) / groups,
                 weights = s->cfg->precision != PRECISION_F32 ? 2 : 4;
    const double in_update[] = {8, 4 + weights, weights, 0}; // by level of ZeRO
    for (int64_t rank = 0; rank < c->pipeline; rank++) {
        const double gathered = c->zero == 3 ? weights * sent : 0;
        to->forward[rank].wire[AXIS_DATA] = gathered;
        to->backward[rank].wire[AXIS_DATA] = (c->zero >= 2 ? 4 * sent : 0) + gathered;
    }
    to->update.wire[AXIS_DATA] = in_update[c->zero] * sent + (4 + weights) * between;
    to->update.bytes = mine * (OWN_BYTES + SHARED_BYTES / (c->zero ? shared : 1));
}

// Sets the work of a step by stage. If `to` has one stage for each rank, the stages of a rank are
// added up.
static void compose(const search *s, const layout_candidate *c, const layer_work *layer,
        step_work *to) {
    const int n_stages = (int)(c->pipeline * c->virtual_stages);
    int *layers = mem_alloc(sizeof *layers * (size_t)n_stages);
    layout_share_layers(&s->cfg->model, n_stages, layers);
    for (int stage = 0; stage < n_stages; stage++) {
        work_add(&layer->forward, layers[stage], &to->forward[stage % to->n_stages]);
        work_add(&layer->backward, layers[stage], &to->backward[stage % to->n_stages]);
    }
    free(layers);
    work_add(&layer->ends_forward, 1, &to->forward[to->n_stages - 1]);
    work_add(&layer->ends_backward, 1, &to->backward[to->n_stages - 1]);
    compose_shared(s, c, to);
}

// Returns the bytes that a stage sends to the next one.
static double boundary_of(const search *s, const layout_candidate *c) {
    const double tokens = (double)(c->micro_batch * s->cfg->sequence_length / c->context);
    return tokens * (double)s->cfg->model.hidden_size *
           (s->cfg->precision != PRECISION_F32 ? 2 : 4) / (double)(c->sequence ? c->tensor : 1);
}

// Estimates the seconds in which a rank waits while the pipeline fills and drains.
static double bubble_of(const layout_candidate *c, const step_cost *cost, double micro_batches) {
    const double busy = cost->seconds - cost->term[TERM_DATA] - cost->term[TERM_UPDATE],
                 fill = (double)(c->pipeline - 1) / (double)c->virtual_stages;
    // tF + tI - tW of tF + tI + tW
    return busy / micro_batches * (c->schedule == SCHEDULE_ZB_H1 ? fill / 3 : fill);
}

// --- enumeration
drv_status layout_shape(const layout_candidate *c, int64_t micro_batches, pipeline_shape *out) {
    *out = (pipeline_shape){.kind = stages_kind(c->schedule),
            .ranks = (int)c->pipeline,
            .chunks = (int)c->virtual_stages,
            .micro_batches = (int)micro_batches};
    return pipeline_find_group(out);
}

static double seconds_of(search *s, const layout_candidate *c, const layer_work *layer) {
    const double micro_batches = micro_batches_of(s, c);
    arena *a = arena_new("an estimate");
    pipeline_shape shape;
    const bool simulates =
            c->pipeline > 1 &&
            micro_batches * (double)(c->pipeline * c->virtual_stages) <= MOST_TASKS &&
            layout_shape(c, (int64_t)micro_batches, &shape) == DRV_OK;
    const int n = (int)(simulates ? c->pipeline * c->virtual_stages : c->pipeline);
    step_work all = {.n_stages = n,
            .forward = ARENA_ARRAY(a, work, n),
            .backward = ARENA_ARRAY(a, work, n),
            .boundary_bytes = boundary_of(s, c)};
    step_cost cost;
    compose(s, c, layer, &all);
    const drv_status status =
            step_cost_make(a, &s->with, &all, simulates ? &shape : NULL, s->in->device, &cost);
    arena_free(a);
    if (status != DRV_OK) return HUGE_VAL;
    return cost.seconds + (simulates ? 0 : bubble_of(c, &cost, micro_batches));
}

static void add(search *s, layout_candidate c) {
    layout_candidates *out = s->out;
    const layer_work *layer = layer_of(s, &c);
    if (!layer) return;
    s->with.zero = c.zero;
    s->with.zero_groups = layout_groups(&c);
    c.bytes = layout_bytes_of(s->bytes, &s->with, &c);
    if (c.bytes == 0) return;
    if (c.bytes > SLACK * (double)s->in->device->memory) {
        out->n_too_large++;
        return;
    }
    c.seconds = seconds_of(s, &c, layer);
    MEM_GROW(out->list, out->n, out->cap);
    out->list[out->n++] = c;
}

// ZeRO-3 if the data ranks allow it.
static int64_t most_zero(search *s, const layout_candidate *c) {
    if (c->data * c->context == 1) return 0;
    s->with.zero = 3;
    return c->data > 1 && run_layout_check(&s->with) == DRV_OK ? 3 : 1;
}

// Adds a level of ZeRO; of level 3 also in groups of the data ranks of a host, whose links are
// faster.
static void add_zero(search *s, layout_candidate c) {
    const link_speeds *links = &s->in->device->links;
    const int64_t here = links->ranks_per_host / (c.tensor * c.context);
    c.zero_group = 0;
    add(s, c);
    if (c.zero < 3 || links->inside <= links->between || here < 2) return;
    if (here >= c.data || c.data % here != 0) return;
    c.zero_group = here;
    if (s->cfg->accum_groups % layout_groups(&c) == 0) add(s, c);
}

// Recomputation, sequence parallelism and ZeRO, each on or off.
static void add_variants(search *s, layout_candidate c) {
    const int64_t tokens = c.micro_batch * s->cfg->sequence_length / c.context,
                  zero_end = most_zero(s, &c) + 1;
    for (int mode = RECOMPUTE_NONE; mode <= RECOMPUTE_FULL; mode++)
        for (int sequence = 0; sequence <= (c.tensor > 1 && tokens % c.tensor == 0); sequence++)
            for (int64_t zero = 0; zero < zero_end; zero++) {
                if (mode == RECOMPUTE_GATHERS && !sequence) continue; // nothing is gathered
                c.recompute = (recompute_mode)mode;
                c.sequence = sequence;
                c.zero = zero;
                add_zero(s, c);
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

static bool is_wanted(const search *s, const layout_candidate *c) {
    const mesh m = layout_mesh(c);
    for (int axis = 0; s->in->pinned && axis < N_AXES; axis++)
        if (s->in->pinned->size[axis] && s->in->pinned->size[axis] != m.size[axis]) return false;
    return true;
}

static void add_micro_batches(search *s, layout_candidate c) {
    if (!is_wanted(s, &c)) return;
    const int64_t share = s->cfg->global_batch_size / c.data;
    const int before = s->out->n + s->out->n_too_large;
    for (c.micro_batch = 1; c.micro_batch <= 16 && c.micro_batch <= share; c.micro_batch *= 2) {
        c.virtual_stages = 1;
        if (share % c.micro_batch == 0 && layout_candidate_apply(&c, s->ranks, &s->with) == DRV_OK)
            add_schedules(s, c);
    }
    if (s->out->n + s->out->n_too_large == before) return;
    s->out->n_meshes++;
    atomic_fetch_add_explicit(s->in->n_meshes, 1, memory_order_relaxed);
}

// Degrees come in ascending order.
static void refuse(layout_candidates *out, const char *axis, int64_t degree, const char *why) {
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

// Shows the progress of the estimates, which take seconds for many ranks with many divisors.
static void show_estimates(const search *s) {
    if (s->shows && clock_s() - s->in->begin > 1)
        progress("estimating layouts: %d meshes", atomic_load(s->in->n_meshes));
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

// Each row is cut into 2 n parts, and each rank has two of them.
static bool context_divides(const run_config *cfg, int64_t n) {
    return n == 1 || cfg->sequence_length % (2 * n) == 0;
}

static void add_contexts(search *s, layout_candidate c) {
    for (c.context = 1; c.context <= s->ranks / c.tensor; c.context++)
        if (s->ranks / c.tensor % c.context == 0 && context_divides(s->cfg, c.context))
            add_pipelines(s, c);
}

// Refuses degrees that are impossible whatever the other degrees are.
static void refuse_degrees(const run_config *cfg, int64_t ranks, layout_candidates *out) {
    const int64_t layers = cfg->model.num_hidden_layers, batch = cfg->global_batch_size;
    char why[96];
    for (int64_t n = 1; n <= ranks; n++) {
        if (ranks % n) continue;
        snprintf(why, sizeof why, "expected at most the %lld layers of the model",
                (long long)layers);
        if (n > layers) refuse(out, "pipeline", n, why);
        snprintf(why, sizeof why,
                n > batch ? "expected at most the %lld rows of training.global_batch_size"
                          : "expected a divisor of training.global_batch_size %lld",
                (long long)batch);
        if (batch % n) refuse(out, "data", n, why);
        snprintf(why, sizeof why, "expected half a divisor of data.sequence_length %lld",
                (long long)cfg->sequence_length);
        if (!context_divides(cfg, n)) refuse(out, "context", n, why);
    }
}

typedef struct find_arg {
    const search_inputs *in;
    tensor_degree *degrees;
} find_arg;

static void find_of_degree(void *arg, int64_t i) {
    const search_inputs *in = ((find_arg *)arg)->in;
    tensor_degree *degree = &((find_arg *)arg)->degrees[i];
    const mesh m = {.size = {1, 1, 1, (int)degree->tensor}};
    const layout_opts opts = {.blocks = (int)in->cfg->tensor_blocks};
    model_layout layout;
    if (layout_on(&in->cfg->model, &m, 0, &opts, &layout) != DRV_OK) {
        snprintf(degree->why, sizeof degree->why, "%s", strstr(drv_message(), "expected"));
        return;
    }
    search all = {.cfg = in->cfg,
            .with = *in->cfg,
            .ranks = in->ranks,
            .in = in,
            .layers = layer_works_new(in->cfg),
            .bytes = layout_bytes_new(in->cfg),
            .out = &degree->found,
            .shows = par_thread() == 0};
    add_contexts(&all, (layout_candidate){.tensor = degree->tensor});
    layer_works_free(all.layers);
    layout_bytes_free(all.bytes);
}

// Appends what was found of a degree to `out`, and frees it.
static void append(layout_candidates *out, layout_candidates *found) {
    for (int i = 0; i < found->n; i++) {
        MEM_GROW(out->list, out->n, out->cap);
        out->list[out->n++] = found->list[i];
    }
    out->n_meshes += found->n_meshes;
    out->n_too_large += found->n_too_large;
    free(found->list);
}

// --- order
static int by_speed(const void *x, const void *y) {
    const layout_candidate *a = x, *b = y;
    if (a->seconds != b->seconds) return a->seconds < b->seconds ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

// The candidates of a mesh, which follow each other.
typedef struct mesh_group {
    const layout_candidate *first;
    int n;
} mesh_group;

static int by_fastest(const void *x, const void *y) {
    return by_speed(((const mesh_group *)x)->first, ((const mesh_group *)y)->first);
}

// Orders the candidates of each mesh, and the meshes by their fastest candidate.
static void order_meshes(layout_candidates *c) {
    layout_candidate *ordered = mem_alloc(sizeof *ordered * (size_t)(c->n + 1));
    mesh_group *groups = mem_alloc(sizeof *groups * (size_t)(c->n_meshes + 1));
    int n = 0, n_ordered = 0;
    for (int i = 0, end = 0; i < c->n; i = end) {
        while (end < c->n && layout_same_mesh(&c->list[i], &c->list[end]))
            end++;
        qsort(&c->list[i], (size_t)(end - i), sizeof *c->list, by_speed);
        groups[n++] = (mesh_group){&c->list[i], end - i};
    }
    if (n) qsort(groups, (size_t)n, sizeof *groups, by_fastest);
    for (int i = 0; i < n; n_ordered += groups[i++].n)
        memcpy(&ordered[n_ordered], groups[i].first, sizeof *ordered * (size_t)groups[i].n);
    free(groups);
    free(c->list);
    c->list = ordered;
}

void layout_candidates_find(const run_config *cfg, int64_t ranks, const device_profile *device,
        const mesh *pinned, layout_candidates *out) {
    atomic_int n_meshes = 0;
    const search_inputs in = {.cfg = cfg,
            .ranks = ranks,
            .device = device,
            .pinned = pinned,
            .parameters = (double)model_parameters(&cfg->model),
            .begin = clock_s(),
            .n_meshes = &n_meshes};
    tensor_degree *degrees = NULL;
    int n = 0, room = 0;
    for (int64_t t = 1; t <= ranks; t++) {
        if (ranks % t) continue;
        MEM_GROW(degrees, n, room);
        degrees[n++] = (tensor_degree){.tensor = t};
    }
    *out = (layout_candidates){0};
    refuse_degrees(cfg, ranks, out);
    par_for(n, find_of_degree, &(find_arg){&in, degrees});
    for (int i = 0; i < n; i++) {
        if (degrees[i].why[0]) refuse(out, "tensor", degrees[i].tensor, degrees[i].why);
        append(out, &degrees[i].found);
    }
    free(degrees);
    order_meshes(out);
    progress_end();
}

void layout_candidates_free(layout_candidates *c) {
    free(c->list);
    for (int i = 0; i < c->n_refused; i++)
        str_free(&c->refused[i].degrees);
}

const char *layout_schedule(const layout_candidate *c, const char *otherwise) {
    static const char *const names[] = {[SCHEDULE_1F1B] = "1f1b",
            [SCHEDULE_GPIPE] = "gpipe",
            [SCHEDULE_INTERLEAVED] = "interleaved",
            [SCHEDULE_ZB_H1] = "zb-h1"};
    return c->schedule == SCHEDULE_AUTO ? otherwise : names[c->schedule];
}

const char *layout_keys(arena *a, const layout_candidate *c) {
    const char *keys = arena_printf(a,
            "--set parallel.tensor=%lld --set parallel.pipeline=%lld --set parallel.context=%lld --set "
            "parallel.data=%lld "
            "--set training.micro_batch_size=%lld --set training.recompute=%s",
            (long long)c->tensor, (long long)c->pipeline, (long long)c->context, (long long)c->data,
            (long long)c->micro_batch, recompute_name(c->recompute));
    if (c->pipeline > 1)
        keys = arena_printf(a, "%s --set parallel.schedule=%s", keys, layout_schedule(c, "auto"));
    if (c->virtual_stages > 1)
        keys = arena_printf(a, "%s --set parallel.virtual_stages=%lld", keys,
                (long long)c->virtual_stages);
    if (c->tensor > 1)
        keys = arena_printf(a, "%s --set parallel.sequence=%s", keys,
                c->sequence ? "true" : "false");
    if (c->data * c->context > 1)
        keys = arena_printf(a, "%s --set parallel.zero=%lld", keys, (long long)c->zero);
    if (c->zero_group)
        keys = arena_printf(a, "%s --set parallel.zero_group=%lld", keys, (long long)c->zero_group);
    return keys;
}

double layout_tokens_per_s(const run_config *cfg, const layout_candidate *c) {
    return (double)(cfg->global_batch_size * cfg->sequence_length) / c->seconds;
}
