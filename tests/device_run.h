// Ten steps of a small model in fp32 on local devices of a PJRT plugin, in any layout, and what is
// compared with one device: losses, norms, gradients; ranks that hold the same weights have the
// same bits.
#pragma once
#include "layout_run.h"

#include "pjrt_pool.h"

enum { DEVICES = 8, TAKEN = 10 };

typedef struct device_run {
    device_pool *pool;
    const char *sets[MAX_SETS];
    int n_sets, ranks;
    double loss[TAKEN], grad_norm[TAKEN], param_norm[TAKEN];
    float *moments; // of the whole model after a step: the gradient, but for a factor
    char **weights; // by rank: all weights as it has them, after all steps
    int64_t *bytes;
} device_run;

static const char *const common[] = {"model.preset=tiny", "model.num_hidden_layers=2",
        "data.sequence_length=40", "training.global_batch_size=8", "training.micro_batch_size=1",
        "training.precision=fp32", "backend=pjrt", "model.num_key_value_heads=2"};
enum { N_COMMON = sizeof common / sizeof *common };

// --- a rank
// All weights as this rank has them, one after the other.
static inline drv_status keep_weights(device_run *run, int rank, const programs *p) {
    const param_list *list = &p->held.params;
    int64_t at = 0;
    for (int i = 0; i < list->n; i++)
        run->bytes[rank] += held_weight_bytes(&p->held, &list->p[i]);
    run->weights[rank] = mem_alloc((size_t)run->bytes[rank]);
    for (int i = 0; i < list->n; i++) {
        const int64_t bytes = held_weight_bytes(&p->held, &list->p[i]);
        DRV_TRY(backend_read(p->held.b, list->p[i].name, 0, bytes, run->weights[rank] + at));
        at += bytes;
    }
    return DRV_OK;
}

// One device takes a step as one program, several take it in parts.
static inline drv_status take_step(stepper *steps, const batch *b, step_values *out) {
    const double hyper[2 * N_HYPER] = {1e-3, 0.1, 0.05, 0, 1, 1e-3, 0.1, 0.05, 0, 1};
    if (steps->p->whole_step) {
        DRV_TRY(stepper_start(steps, b, hyper, out));
        return stepper_finish(steps, out);
    }
    DRV_TRY(stepper_gradients(steps, b, &out->loss));
    return stepper_update(steps, hyper, &out->grad_norm, &out->param_norm);
}

static inline drv_status take_steps(comm *self, arena *a, device_run *run, programs *p) {
    const mesh ranks = run_mesh(p->held.config);
    stepper steps = stepper_new(a, p, self, &ranks);
    for (int step = 0; step < TAKEN; step++) {
        const batch whole = make_batch(a, p->held.config, step),
                    global = share_of_batch(a, p->held.config, &whole);
        step_values values;
        steps.step = step + 1;
        DRV_TRY(take_step(&steps, &global, &values));
        int n;
        const ckpt_tensor *list = state_optimizer(a, &p->held, &n);
        if (step == 0) DRV_TRY(put_tensors(self, a, p, &ranks, list, n, "exp_avg.", run->moments));
        if (comm_rank(self) != 0) continue;
        run->loss[step] = values.loss;
        run->grad_norm[step] = values.grad_norm;
        run->param_norm[step] = values.param_norm;
    }
    return keep_weights(run, comm_rank(self), p);
}

static inline drv_status on_device(comm *self, arena *a, device_run *run) {
    rank_run mine;
    const backend_opts opts = {.pool = run->pool, .device = comm_rank(self)};
    DRV_TRY(rank_run_open(self, a, run->sets, run->n_sets, "pjrt", &opts, &mine));
    DRV_TRY(take_steps(self, a, run, &mine.built));
    backend_close(mine.device);
    return DRV_OK;
}

static inline drv_status rank_of_run(comm *c, void *ctx) {
    arena *a = arena_new("rank");
    const drv_status status = on_device(c, a, ctx);
    arena_free(a);
    return status;
}

// --- a run
static inline run_config config_of(arena *a, const device_run *run) {
    run_config cfg;
    OK(config_load(a, NULL, run->sets, run->n_sets, &cfg));
    OK(config_set_ranks(&cfg, run->ranks));
    return cfg;
}

static inline device_run run_devices(device_pool *pool, int ranks, const char *const *sets,
        int n_sets) {
    device_run run = {.pool = pool, .ranks = ranks};
    arena *a = arena_new("config");
    for (int i = 0; i < N_COMMON; i++)
        run.sets[run.n_sets++] = common[i];
    for (int i = 0; i < n_sets; i++)
        run.sets[run.n_sets++] = sets[i];
    const run_config cfg = config_of(a, &run);
    run.moments = mem_zeroed(sizeof(float) * (size_t)model_parameters(&cfg.model));
    run.weights = mem_zeroed(sizeof *run.weights * (size_t)ranks);
    run.bytes = mem_zeroed(sizeof *run.bytes * (size_t)ranks);
    OK(comm_run_threads(ranks, 1, NULL, rank_of_run, &run));
    arena_free(a);
    return run;
}

static inline void clear(device_run *run) {
    for (int i = 0; i < run->ranks; i++)
        free(run->weights[i]);
    free(run->weights);
    free(run->bytes);
    free(run->moments);
}

// --- comparisons
static inline void expect_near(const char *what, int step, double got, double want) {
    if (!(fabs(got / want - 1) <= 1e-5))
        fail_msg("step %d: %s %.9g, of one device %.9g", step, what, got, want);
}

// Every Hugging Face parameter by itself.
static inline void expect_gradients(const device_run *got, const device_run *want) {
    arena *a = arena_new("gradients");
    const run_config cfg = config_of(a, want);
    const model_layout all = layout_of(&cfg.model);
    const param_list model = llama_params(a, &all, NULL);
    for (int i = 0; i < model.n; i++)
        for (int k = 0; k < model.p[i].n_parts; k++) {
            const param_part *part = &model.p[i].part[k];
            const int64_t at = place_of(&model, part->hf_name),
                          n = part->all_rows * model.p[i].all_columns;
            double *mine = ARENA_ARRAY(a, double, n), *theirs = ARENA_ARRAY(a, double, n);
            for (int64_t e = 0; e < n; e++) {
                mine[e] = (double)got->moments[at + e];
                theirs[e] = (double)want->moments[at + e];
            }
            const double error = relative_error(mine, theirs, n);
            if (!(error <= 1e-5))
                fail_msg("gradient of %s: relative error %.3g", part->hf_name, error);
        }
    arena_free(a);
}

// Ranks that differ along the data and context axes alone have all weights alike, up to ZeRO-2.
static inline void expect_replicas(const device_run *run, const mesh *m) {
    for (int rank = 0; rank < run->ranks; rank++) {
        const int first = rank - mesh_place(m, rank, AXIS_DATA) * mesh_stride(m, AXIS_DATA) -
                          mesh_place(m, rank, AXIS_CONTEXT) * mesh_stride(m, AXIS_CONTEXT);
        assert_int_equal(run->bytes[rank], run->bytes[first]);
        if (memcmp(run->weights[rank], run->weights[first], (size_t)run->bytes[first]) != 0)
            fail_msg("ranks %d and %d have other weights", first, rank);
    }
}

static inline void expect_run(const device_run *several, const device_run *one) {
    arena *a = arena_new("config");
    const run_config cfg = config_of(a, several);
    const mesh m = run_mesh(&cfg);
    for (int step = 0; step < TAKEN; step++) {
        expect_near("loss", step, several->loss[step], one->loss[step]);
        expect_near("gradient norm", step, several->grad_norm[step], one->grad_norm[step]);
        expect_near("weight norm", step, several->param_norm[step], one->param_norm[step]);
    }
    expect_gradients(several, one);
    if (cfg.zero < 3) expect_replicas(several, &m);
    arena_free(a);
}
