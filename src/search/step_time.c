// Steps on random tokens, for the time that they take.
#include "search/step_time.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pair_word.h"
#include "base/rng.h"
#include "ir/hyper.h"
#include "ir/program_inputs.h"
#include "train/fit.h"
#include "weights/device.h"

// A pair in each row, whose halves are the two responses. `words`: room for a micro-batch.
static drv_status write_pairs(programs *to, int32_t *words) {
    const run_config *cfg = to->held.c;
    const int64_t in_row = cfg->sequence_length, n = cfg->micro_batch_size * in_row;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i % in_row;
        words[i] = pair_word(i / in_row, at >= in_row / 2, at == 0 || at == in_row / 2);
    }
    return backend_write(to->held.b, 0, input_name_of(INPUT_PAIR, INPUT_ALONE).text, 0, n * 4,
            words);
}

// Random tokens of micro-batch i to the inputs of a step, or of a whole one to its i-th slice.
static drv_status write_random_batch(programs *to, uint64_t index, int64_t slice) {
    const run_config *cfg = to->held.c;
    const int64_t n_tokens = cfg->micro_batch_size * cfg->sequence_length, bytes = n_tokens * 4,
                  first = to->whole_step ? slice * bytes : 0;
    const int of = to->whole_step ? INPUT_OF_STEP : INPUT_ALONE;
    int32_t *numbers = mem_alloc((size_t)bytes);
    const rng_key key = {1, RNG_TEST, index};
    for (int64_t i = 0; i < n_tokens; i++)
        numbers[i] = (int32_t)(rng_u64(&key, (uint64_t)i) % (uint64_t)cfg->model.vocab_size);
    drv_status status = backend_write(to->held.b, 0, input_name_of(INPUT_TOKENS, of).text, first,
            bytes, numbers);
    if (status == DRV_OK)
        status = backend_write(to->held.b, 0, input_name_of(INPUT_LABELS, of).text, first, bytes,
                numbers);
    for (int64_t i = 0; i < n_tokens; i++)
        numbers[i] = (int32_t)(i % cfg->sequence_length);
    if (status == DRV_OK)
        status = backend_write(to->held.b, 0, input_name_of(INPUT_POSITION, of).text, first, bytes,
                numbers);
    if (status == DRV_OK && cfg->objective == OBJECTIVE_DPO) status = write_pairs(to, numbers);
    free(numbers);
    return status;
}

static drv_status write_numbers(programs *p) {
    const run_config *cfg = p->held.c;
    const double dloss = 1.0 / (double)(cfg->global_batch_size * cfg->sequence_length);
    // Of the update (ir/hyper.h), once more for a whole step.
    const double hyper[2 * N_HYPER] = {1e-5, 0.1, 0.05, 1, 1, 1e-5, 0.1, 0.05, 1, 1};
    DRV_TRY(programs_write_dloss(p, dloss));
    const input_name name = input_name_of(INPUT_HYPER, p->whole_step ? INPUT_OF_STEP : INPUT_ALONE);
    const int64_t bytes = (p->whole_step ? 2 : 1) * N_HYPER * (int64_t)sizeof *hyper;
    return backend_write(p->held.b, 0, name.text, 0, bytes, hyper);
}

static drv_status run_micro_batch(programs *p, uint64_t index) {
    DRV_TRY(write_random_batch(p, index, 0));
    return backend_run(p->held.b, p->step);
}

// A device computes on its own: its step has ended when its numbers are here.
static drv_status run_whole_step(programs *p, uint64_t index, int64_t n_micro) {
    double loss;
    for (int64_t i = 0; i < n_micro; i++)
        DRV_TRY(write_random_batch(p, index * 1000 + (uint64_t)i, i));
    DRV_TRY(backend_run(p->held.b, p->whole_step));
    return backend_read(p->held.b, 0, "loss", 0, sizeof loss, &loss);
}

static drv_status run_step(programs *p, uint64_t index) {
    const int64_t n_micro = p->held.c->global_batch_size / p->held.c->micro_batch_size;
    DRV_TRY(write_numbers(p));
    if (p->whole_step) return run_whole_step(p, index, n_micro);
    for (int64_t i = 0; i < n_micro; i++)
        DRV_TRY(run_micro_batch(p, index * 1000 + (uint64_t)i));
    return backend_run(p->held.b, p->update);
}

drv_status step_time(programs *p, int64_t repeats, step_times *out) {
    double sum = 0, ignored[N_OPS];
    DRV_TRY(run_step(p, 0));
    *out = (step_times){.best = HUGE_VAL};
    for (int64_t i = 0; i < repeats; i++) {
        backend_profile(p->held.b, ignored);
        const double begin = clock_s();
        DRV_TRY(run_step(p, 1 + (uint64_t)i));
        const double seconds = clock_s() - begin;
        sum += seconds;
        progress("step %lld of %lld: %.2f s", (long long)i + 1, (long long)repeats, seconds);
        if (seconds < out->best) {
            out->best = seconds;
            backend_profile(p->held.b, out->op_s);
        }
    }
    progress_end();
    out->mean = sum / (double)repeats;
    return DRV_OK;
}

// --- a rehearsal
// Calls the function until `least_s` have passed, at least twice; the mean of the calls.
static drv_status mean_seconds(programs *p, drv_status (*fn)(programs *p, uint64_t index),
        double least_s, double *out) {
    const double begin = clock_s();
    uint64_t n_calls = 0;
    do
        DRV_TRY(fn(p, ++n_calls));
    while (n_calls < 2 || clock_s() - begin < least_s);
    *out = (clock_s() - begin) / (double)n_calls;
    return DRV_OK;
}

static drv_status run_update(programs *p, uint64_t index) {
    (void)index;
    return backend_run(p->held.b, p->update);
}

static drv_status rehearse(arena *a, const run_config *cfg, backend *device, double *micro_batch_s,
        double *update_s) {
    programs p;
    DRV_TRY(programs_build(a, cfg, &p));
    DRV_TRY(programs_load(a, device, &p));
    DRV_TRY(held_init_weights(&p.held));
    DRV_TRY(run_step(&p, 0));
    if (p.whole_step) { // of one micro-batch: its update is in it
        *update_s = 0;
        return mean_seconds(&p, run_step, 0.2, micro_batch_s);
    }
    DRV_TRY(mean_seconds(&p, run_micro_batch, 0.2, micro_batch_s));
    return mean_seconds(&p, run_update, 0.05, update_s);
}

drv_status step_rehearse(arena *a, const run_config *cfg, const memory_limit *limit,
        double by_peak_s, double *step_s, bool *measured) {
    run_config one = *cfg; // a step of a single micro-batch touches all memory as well
    memory_plan planned;
    backend *device;
    *measured = false;
    const int64_t n_micro = cfg->global_batch_size / (cfg->micro_batch_size * cfg->data_ranks);
    if (by_peak_s <= 0 || by_peak_s / (double)n_micro > 1) return DRV_OK;
    one.global_batch_size = cfg->micro_batch_size;
    one.data_ranks = one.n_lanes = 1;
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
