// Times training steps on random tokens.
#include "search/step_time.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "ir/pair_word.h"
#include "base/rng.h"
#include "ir/program_inputs.h"
#include "programs/fit.h"
#include "programs/step.h"
#include "setup/device.h"

// The optimizer's numbers (ir/hyper.h), twice, as a program of a whole step needs them.
static const double hyper[2 * N_HYPER] = {1e-5, 0.1, 0.05, 1, 1, 1e-5, 0.1, 0.05, 1, 1};

typedef struct random_rows {
    const batch *batch;
    const run_config *cfg;
    uint64_t index; // number of the global batch
} random_rows;

// Makes a row, which is the same on all ranks that have a part of it. For preference pairs it has
// one pair, whose halves are the responses.
static void make_row(void *ctx, const row_out *out) {
    const random_rows *all = ctx;
    const batch *b = all->batch;
    const int64_t n = all->cfg->sequence_length,
                  row = batch_index(b, b->filled / b->micro) * b->micro + b->filled % b->micro;
    const rng_key key = {1, RNG_TEST, all->index};
    for (int64_t i = 0; i < n; i++) {
        out->tokens[i] = out->labels[i] = (int32_t)(rng_u64(&key, (uint64_t)(row * n + i)) %
                                                    (uint64_t)all->cfg->model.vocab_size);
        out->position[i] = (int32_t)i;
        if (!out->pair) continue;
        out->pair[i] = pair_word(0, i >= n / 2, i == 0 || i == n / 2);
        out->reference[2 * i] = out->reference[2 * i + 1] = 0;
        out->hidden[2 * i] = out->hidden[2 * i + 1] = 0;
    }
}

// Fills this rank's part of global batch number `index` with random tokens.
static void fill_randomly(batch *b, const run_config *cfg, uint64_t index) {
    random_rows all = {b, cfg, index};
    batch_clear(b);
    while (b->filled < b->rows)
        batch_make_row(b, make_row, &all);
    b->rows_before = (int64_t)index * cfg->global_batch_size;
    b->counted = cfg->global_batch_size * cfg->sequence_length;
    b->pairs = cfg->global_batch_size;
}

static batch new_batch(arena *a, const programs *p) {
    const run_config *cfg = p->held.config;
    batch b = batch_of_run(a, cfg, cfg->global_batch_size / cfg->data_ranks);
    b.every_micro = p->layout.every_micro;
    b.first_micro = p->layout.first_micro;
    return b;
}

// A device computes asynchronously: its step has ended when the loss can be read.
static drv_status run_whole_step(programs *p, const batch *b) {
    double loss;
    DRV_TRY(programs_write_dloss(p, 1 / (double)b->counted));
    DRV_TRY(backend_write(p->held.b, input_name_of(INPUT_HYPER, INPUT_OF_STEP).text, 0,
            sizeof hyper, hyper));
    DRV_TRY(batch_feed_step(b, p));
    DRV_TRY(backend_run(p->held.b, p->whole_step));
    return backend_read(p->held.b, "loss", 0, sizeof loss, &loss);
}

static drv_status run_step(stepper *s, const batch *b) {
    double loss, grad_norm, param_norm;
    if (s->p->whole_step) return run_whole_step(s->p, b);
    DRV_TRY(stepper_gradients(s, b, &loss));
    return stepper_update(s, hyper, &grad_norm, &param_norm);
}

drv_status step_time(arena *a, programs *p, comm *ranks, int64_t repeats, step_times *out,
        step_profile *profile) {
    stepper steps = stepper_new(a, p, ranks, &p->layout.mesh);
    batch taken = new_batch(a, p);
    double sum = 0;
    fill_randomly(&taken, p->held.config, 0);
    DRV_TRY(run_step(&steps, &taken));
    *out = (step_times){.best = HUGE_VAL};
    for (steps.step = 1; steps.step <= repeats; steps.step++) {
        fill_randomly(&taken, p->held.config, (uint64_t)steps.step);
        if (profile) backend_time_nodes(p->held.b, true);
        const double begin = clock_s();
        DRV_TRY(run_step(&steps, &taken));
        const double seconds = clock_s() - begin;
        sum += seconds;
        progress("step %lld of %lld: %.2f s", (long long)steps.step, (long long)repeats, seconds);
        if (seconds >= out->best) continue;
        out->best = seconds;
        if (profile) step_profile_take(p, seconds, profile);
    }
    if (profile) backend_time_nodes(p->held.b, false);
    progress_end();
    out->mean = sum / (double)repeats;
    return DRV_OK;
}

// --- a rehearsal
typedef struct rehearsal {
    programs *programs;
    batch *batch; // one micro-batch
} rehearsal;

static drv_status run_micro_batch(const rehearsal *r) {
    if (r->programs->whole_step) return run_whole_step(r->programs, r->batch);
    DRV_TRY(batch_feed(r->batch, r->programs, INPUT_ALONE, 0));
    return backend_run(r->programs->held.b, r->programs->step);
}

static drv_status run_update(const rehearsal *r) {
    return backend_run(r->programs->held.b, r->programs->update);
}

// Calls the function at least twice and until `least_s` have passed; *out is the mean time of a call.
static drv_status mean_seconds(const rehearsal *r, drv_status (*fn)(const rehearsal *r),
        double least_s, double *out) {
    const double begin = clock_s();
    int n_calls = 0;
    do
        DRV_TRY(fn(r));
    while (++n_calls < 2 || clock_s() - begin < least_s);
    *out = (clock_s() - begin) / n_calls;
    return DRV_OK;
}

// Builds the programs of one micro-batch and runs them once, which touches all their memory.
static drv_status prepare(arena *a, const run_config *cfg, backend *device, rehearsal *out) {
    programs *p = ARENA_NEW(a, programs);
    batch *b = ARENA_NEW(a, batch);
    *out = (rehearsal){p, b};
    DRV_TRY(programs_build(a, cfg, p));
    DRV_TRY(programs_load(a, device, p));
    DRV_TRY(held_init_weights(&p->held));
    *b = new_batch(a, p);
    fill_randomly(b, cfg, 0);
    if (p->whole_step) return run_micro_batch(out);
    DRV_TRY(programs_write_dloss(p, 1 / (double)b->counted));
    DRV_TRY(backend_write(device, program_inputs[INPUT_HYPER].name, 0, N_HYPER * sizeof *hyper,
            hyper));
    DRV_TRY(run_micro_batch(out));
    return run_update(out);
}

drv_status step_sample(arena *a, const run_config *cfg, backend *device, step_profile *out) {
    rehearsal all;
    DRV_TRY(prepare(a, cfg, device, &all));
    backend_time_nodes(device, true);
    const double begin = clock_s();
    DRV_TRY(run_micro_batch(&all));
    DRV_TRY(run_update(&all));
    step_profile_take(all.programs, clock_s() - begin, out);
    backend_time_nodes(device, false);
    return DRV_OK;
}

static drv_status rehearse(arena *a, const run_config *cfg, backend *device, double *micro_batch_s,
        double *update_s) {
    rehearsal all;
    DRV_TRY(prepare(a, cfg, device, &all));
    *update_s = 0; // a program of a whole step includes the update
    DRV_TRY(mean_seconds(&all, run_micro_batch, 0.2, micro_batch_s));
    if (all.programs->whole_step) return DRV_OK;
    return mean_seconds(&all, run_update, 0.05, update_s);
}

drv_status step_rehearse(arena *a, const run_config *cfg, const memory_limit *limit,
        double by_peak_s, double *step_s, bool *measured) {
    run_config one = *cfg; // a step of a single micro-batch touches all the memory too
    memory_plan planned;
    backend *device;
    *measured = false;
    const int64_t n_micro = cfg->global_batch_size / (cfg->micro_batch_size * cfg->data_ranks);
    if (by_peak_s <= 0 || by_peak_s / (double)n_micro > 1) return DRV_OK;
    one.global_batch_size = cfg->micro_batch_size;
    one.data_ranks = one.n_accum_groups = 1;
    DRV_TRY(fit_plan(&one, &planned));
    if (planned.total > 1 << 30 || planned.total > limit->free / 2) return DRV_OK;
    DRV_TRY(device_open(a, cfg, &device));
    double micro_batch_s, update_s;
    const drv_status status = rehearse(a, &one, device, &micro_batch_s, &update_s);
    backend_close(device);
    if (status != DRV_OK) return status;
    *step_s = (double)n_micro * micro_batch_s + update_s;
    *measured = true;
    return DRV_OK;
}
