// Ten steps of a small model in fp32 on local devices of a PJRT plugin, in several layouts, against
// one device: losses, norms, gradients; and ranks that hold the same weights have the same bits.
// Skipped, saying so, where there is no plugin.
#include "layout_run.h"

#include <math.h>

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
static drv_status keep_weights(device_run *run, int rank, const programs *built) {
    const param_list *list = &built->params;
    int64_t at = 0;
    for (int i = 0; i < list->n; i++)
        run->bytes[rank] += param_elements(&list->p[i]) * 4;
    run->weights[rank] = mem_alloc((size_t)run->bytes[rank]);
    for (int i = 0; i < list->n; i++) {
        const int64_t bytes = param_elements(&list->p[i]) * 4;
        DRV_TRY(backend_read(built->b, 0, list->p[i].name, 0, bytes, run->weights[rank] + at));
        at += bytes;
    }
    return DRV_OK;
}

// One device takes a step as one program, several take it in parts.
static drv_status take_step(stepper *steps, const batch *b, step_values *out) {
    const double hyper[2 * N_HYPER] = {1e-3, 0.1, 0.05, 0, 1, 1e-3, 0.1, 0.05, 0, 1};
    if (steps->p->whole_step) {
        DRV_TRY(stepper_start(steps, b, hyper, out));
        return stepper_finish(steps, out);
    }
    DRV_TRY(stepper_gradients(steps, b, NULL, NULL, &out->loss));
    return stepper_update(steps, hyper, &out->grad_norm, &out->param_norm);
}

static drv_status take_steps(comm *self, arena *mem, device_run *run, programs *built) {
    const mesh ranks = programs_mesh(built->c);
    stepper steps = stepper_new(mem, built, self, &ranks);
    for (int step = 0; step < TAKEN; step++) {
        const batch whole = make_batch(mem, built->c, step),
                    global = share_of_batch(mem, built->c, &whole);
        step_values values;
        steps.step = step + 1;
        DRV_TRY(take_step(&steps, &global, &values));
        int n;
        const ckpt_tensor *list = state_optimizer(mem, built, &n);
        if (step == 0)
            DRV_TRY(put_tensors(self, mem, built, &ranks, list, n, "exp_avg.", run->moments));
        if (comm_rank(self) != 0) continue;
        run->loss[step] = values.loss;
        run->grad_norm[step] = values.grad_norm;
        run->param_norm[step] = values.param_norm;
    }
    return keep_weights(run, comm_rank(self), built);
}

static drv_status on_device(comm *self, arena *mem, device_run *run) {
    run_config cfg;
    programs built;
    backend *device;
    const backend_opts opts = {.pool = run->pool, .device = comm_rank(self)};
    DRV_TRY(config_load(mem, NULL, run->sets, run->n_sets, &cfg));
    DRV_TRY(config_set_ranks(&cfg, comm_size(self)));
    cfg.rank = comm_rank(self);
    const mesh ranks = programs_mesh(&cfg);
    DRV_TRY(backend_open_with(mem, "pjrt", &opts, &device));
    backend_join(device, self, &ranks);
    DRV_TRY(programs_build(mem, &cfg, &built));
    DRV_TRY(programs_load(mem, device, &built));
    DRV_TRY(programs_init_weights(&built));
    DRV_TRY(take_steps(self, mem, run, &built));
    backend_close(device);
    return DRV_OK;
}

static drv_status rank_of_run(comm *c, void *ctx) {
    arena *a = arena_new("rank");
    const drv_status status = on_device(c, a, ctx);
    arena_free(a);
    return status;
}

// --- a run
static run_config config_of(arena *a, const device_run *run) {
    run_config cfg;
    OK(config_load(a, NULL, run->sets, run->n_sets, &cfg));
    OK(config_set_ranks(&cfg, run->ranks));
    return cfg;
}

static device_run run_devices(device_pool *pool, int ranks, const char *const *sets, int n_sets) {
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

static void clear(device_run *run) {
    for (int i = 0; i < run->ranks; i++)
        free(run->weights[i]);
    free(run->weights);
    free(run->bytes);
    free(run->moments);
}

// --- comparisons
static void expect_near(const char *what, int step, double got, double want) {
    if (!(fabs(got / want - 1) <= 1e-5))
        fail_msg("step %d: %s %.9g, of one device %.9g", step, what, got, want);
}

// Every Hugging Face parameter by itself.
static void expect_gradients(const device_run *got, const device_run *want) {
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

// Ranks that differ along the data and context axes alone have all weights alike.
static void expect_replicas(const device_run *run, const mesh *m) {
    for (int rank = 0; rank < run->ranks; rank++) {
        const int first = rank - mesh_place(m, rank, AXIS_DATA) * mesh_stride(m, AXIS_DATA) -
                          mesh_place(m, rank, AXIS_CONTEXT) * mesh_stride(m, AXIS_CONTEXT);
        assert_int_equal(run->bytes[rank], run->bytes[first]);
        if (memcmp(run->weights[rank], run->weights[first], (size_t)run->bytes[first]) != 0)
            fail_msg("ranks %d and %d have other weights", first, rank);
    }
}

typedef struct layout_case {
    int ranks;
    const char *sets[3];
} layout_case;
static const layout_case cases[] = {{8, {"parallel.zero=0"}}, {8, {"parallel.zero=1"}},
        {8, {"parallel.lanes=8", "training.recompute=full"}},
        {2, {"parallel.tensor=2", "parallel.sequence=false"}}, {2, {"parallel.tensor=2"}},
        {4, {"parallel.tensor=4", "parallel.sequence=false"}},
        {4, {"parallel.tensor=4", "training.recompute=selective"}},
        {8, {"parallel.tensor=2", "parallel.zero=1"}},
        {8, {"parallel.context=4", "parallel.zero=1"}},
        {8, {"parallel.context=2", "parallel.tensor=4"}},
        {8, {"parallel.tensor=2", "parallel.zero=0", "model.tie_word_embeddings=true"}}};

static void every_layout(void **state) {
    static const char *const tie[] = {"model.tie_word_embeddings=true"};
    device_run alone[] = {run_devices(*state, 1, NULL, 0), run_devices(*state, 1, tie, 1)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const layout_case *c = &cases[i];
        const bool tied = c->sets[2] != NULL;
        arena *a = arena_new("config");
        const device_run one = alone[tied];
        device_run several = run_devices(*state, c->ranks, c->sets, 1 + !!c->sets[1] + tied);
        const run_config cfg = config_of(a, &several);
        const mesh m = programs_mesh(&cfg);
        print_message("%d ranks, %s %s\n", c->ranks, c->sets[0], c->sets[1] ? c->sets[1] : "");
        for (int step = 0; step < TAKEN; step++) {
            expect_near("loss", step, several.loss[step], one.loss[step]);
            expect_near("gradient norm", step, several.grad_norm[step], one.grad_norm[step]);
            expect_near("weight norm", step, several.param_norm[step], one.param_norm[step]);
        }
        expect_gradients(&several, &one);
        expect_replicas(&several, &m);
        clear(&several);
        arena_free(a);
    }
    clear(&alone[0]);
    clear(&alone[1]);
}

int main(void) {
    return run_on_pool(DEVICES, "every_layout", every_layout);
}
