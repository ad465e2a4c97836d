// The work of a stage is the work of its layers, and what its place in the pipeline adds, such as
// the loss. Both follow from stages of one and of two layers. Variants that differ only in their
// schedule share these.
#include "search/layout_time.h"

#include "model/layout.h"
#include "programs/stages.h"

enum { FEW_LAYERS = 1, MORE_LAYERS = 2 }; // of a stage

// The update is of a rank, which may have several stages.
typedef struct stage_work {
    work forward, backward, update;
} stage_work;

// The settings on which the work of a stage depends, within one mesh.
typedef struct sample_key {
    int64_t micro_batch, zero, zero_group;
    recompute_mode recompute;
    bool sequence, split;
} sample_key;

typedef struct sample {
    sample_key key;
    drv_status status;
    stage_work layer, besides[N_STAGE_PLACES]; // besides[STAGE_ALONE] without a pipeline
    double boundary_bytes;
} sample;

struct layout_times {
    arena *a;
    sample **samples;
    int n_samples, cap_samples;
};

layout_times *layout_times_new(void) {
    arena *a = arena_new("times of layouts");
    layout_times *known = ARENA_NEW(a, layout_times);
    known->a = a;
    return known;
}

void layout_times_free(layout_times *known) {
    arena_free(known->a);
}

static void add(const stage_work *more, double times, stage_work *to) {
    work_add(&more->forward, times, &to->forward);
    work_add(&more->backward, times, &to->backward);
    work_add(&more->update, times, &to->update);
}

// Builds the programs of one stage of a small model, and takes out their work and its layers.
static drv_status build(const run_config *cfg, stage_place which, int layers, stage_work *out,
        double *n_layers, double *boundary_bytes) {
    run_config small = *cfg;
    programs built;
    const bool pipeline = which != STAGE_ALONE;
    small.model.num_hidden_layers = layers;
    small.rank = 0;
    if (pipeline) {
        small.model.num_hidden_layers = layers * N_PIPELINE_PLACES;
        small.pipeline_parallel = N_PIPELINE_PLACES;
        small.virtual_stages = 1;
        if (cfg->pipeline_schedule != SCHEDULE_ZB_H1) small.pipeline_schedule = SCHEDULE_1F1B;
    }
    DRV_TRY(config_set_ranks(&small, cfg->data_ranks * small.tensor_parallel *
                                             small.context_parallel * small.pipeline_parallel));
    const mesh ranks = run_mesh(&small);
    if (pipeline) small.rank = (int)which * mesh_stride(&ranks, AXIS_PIPELINE);
    arena *a = arena_new("a stage");
    const drv_status status = programs_outline(a, &small, &built);
    if (status == DRV_OK) {
        step_work whole = step_work_new(a, &small);
        const int stage = pipeline ? (int)which : 0;
        step_work_take(&built, &whole);
        *out = (stage_work){whole.forward[stage], whole.backward[stage], whole.update};
        *n_layers = (double)built.held.params.layout.n_layers;
        *boundary_bytes = whole.boundary_bytes;
    }
    arena_free(a);
    return status;
}

static drv_status take_sample(const run_config *cfg, sample *out) {
    const bool pipeline = cfg->pipeline_parallel > 1;
    const int first = pipeline ? STAGE_FIRST : STAGE_ALONE,
              end = pipeline ? N_PIPELINE_PLACES : N_STAGE_PLACES;
    const stage_place like = pipeline ? STAGE_MIDDLE : STAGE_ALONE;
    stage_work more;
    double layers[N_STAGE_PLACES], n_more;
    for (int place = first; place < end; place++)
        DRV_TRY(build(cfg, (stage_place)place, FEW_LAYERS, &out->besides[place], &layers[place],
                &out->boundary_bytes));
    DRV_TRY(build(cfg, like, MORE_LAYERS, &more, &n_more, &out->boundary_bytes));
    const double each = 1 / (n_more - layers[like]);
    add(&more, each, &out->layer);
    add(&out->besides[like], -each, &out->layer);
    for (int place = first; place < end; place++)
        add(&out->layer, -layers[place], &out->besides[place]);
    return DRV_OK;
}

static const sample *sample_of(layout_times *known, const run_config *cfg) {
    const sample_key key = {.micro_batch = cfg->micro_batch_size,
            .zero = cfg->zero,
            .zero_group = cfg->zero_group,
            .recompute = cfg->recompute,
            .sequence = cfg->sequence_parallel,
            .split = cfg->pipeline_schedule == SCHEDULE_ZB_H1};
    for (int i = 0; i < known->n_samples; i++) {
        const sample_key *other = &known->samples[i]->key;
        if (other->micro_batch == key.micro_batch && other->zero == key.zero &&
                other->zero_group == key.zero_group && other->recompute == key.recompute &&
                other->sequence == key.sequence && other->split == key.split)
            return known->samples[i];
    }
    sample *made = ARENA_NEW(known->a, sample);
    made->key = key;
    made->status = take_sample(cfg, made);
    ARENA_GROW(known->a, known->samples, known->n_samples, known->cap_samples);
    return known->samples[known->n_samples++] = made;
}

// Adds up the work of all stages. The update is that of the rank whose update touches most memory:
// the update of a middle stage without layers, and what each of the rank's stages adds to that.
static step_work compose(arena *a, const sample *like, const run_config *cfg) {
    step_work whole = step_work_new(a, cfg);
    const int n_stages = whole.n_stages, n_ranks = (int)cfg->pipeline_parallel;
    const work *common = &like->besides[n_stages > 1 ? STAGE_MIDDLE : STAGE_ALONE].update;
    work *update = ARENA_ARRAY(a, work, n_ranks);
    int *layers = ARENA_ARRAY(a, int, n_stages);
    layout_share_layers(&cfg->model, n_stages, layers);
    for (int rank = 0; rank < n_ranks; rank++)
        work_add(common, 1, &update[rank]);
    for (int stage = 0; stage < n_stages; stage++) {
        const stage_work *besides = &like->besides[stage_place_of(stage, n_stages)];
        work *of_rank = &update[stage % n_ranks];
        work_add(&besides->forward, 1, &whole.forward[stage]);
        work_add(&like->layer.forward, layers[stage], &whole.forward[stage]);
        work_add(&besides->backward, 1, &whole.backward[stage]);
        work_add(&like->layer.backward, layers[stage], &whole.backward[stage]);
        work_add(&besides->update, 1, of_rank);
        work_add(common, -1, of_rank);
        work_add(&like->layer.update, layers[stage], of_rank);
    }
    for (int rank = 0; rank < n_ranks; rank++)
        if (update[rank].bytes >= whole.update.bytes) whole.update = update[rank];
    whole.boundary_bytes = like->boundary_bytes;
    return whole;
}

drv_status layout_time_make(layout_times *known, const run_config *cfg,
        const device_profile *device, step_cost *out) {
    const sample *s = sample_of(known, cfg);
    const bool pipeline = cfg->pipeline_parallel > 1;
    pipeline_shape shape;
    DRV_TRY(s->status);
    if (pipeline) DRV_TRY(stages_find_shape(cfg, &shape));
    arena *a = arena_new("a layout's time");
    const step_work whole = compose(a, s, cfg);
    const drv_status status = step_cost_make(a, cfg, &whole, pipeline ? &shape : NULL, device, out);
    arena_free(a);
    return status;
}
