// Plans a run with one setting changed at a time.
#include "search/step_advice.h"

#include <string.h>

#include "programs/fit.h"
#include "search/timed_plan.h"
#include "setup/run_layout.h"

// A change counts if it makes the run so much faster.
#define LEAST_GAIN 1.005

// --- the changes
// Each returns whether the setting can be changed so in this layout; what else has to divide is
// checked for all of them.
static void set_zero(run_config *cfg, int64_t level) {
    cfg->zero = cfg->given_zero = level;
}

static bool share_optimizer(run_config *cfg) {
    const bool possible = cfg->zero == 0 && cfg->data_ranks * cfg->context_parallel > 1;
    if (possible) set_zero(cfg, 1);
    return possible;
}

static bool share_optimizer_alone(run_config *cfg) {
    const bool possible = cfg->zero > 1 && cfg->zero_group == 0;
    if (possible) set_zero(cfg, 1);
    return possible;
}

static bool grow_micro_batch(run_config *cfg) {
    cfg->micro_batch_size *= 2;
    return true;
}

static bool shrink_micro_batch(run_config *cfg) {
    const bool possible = cfg->micro_batch_size % 2 == 0;
    cfg->micro_batch_size /= 2;
    return possible;
}

static bool grow_batch(run_config *cfg) {
    cfg->global_batch_size *= 2;
    return true;
}

static bool keep_all(run_config *cfg) {
    const bool possible = cfg->recompute != RECOMPUTE_NONE;
    cfg->recompute = RECOMPUTE_NONE;
    return possible;
}

static bool keep_products(run_config *cfg) {
    const bool possible = cfg->recompute == RECOMPUTE_FULL;
    cfg->recompute = RECOMPUTE_SELECTIVE;
    return possible;
}

static bool use_fp8(run_config *cfg) {
    const bool possible = cfg->precision == PRECISION_BF16;
    cfg->precision = PRECISION_F8;
    return possible;
}

static bool halve(int64_t *ranks) {
    const bool possible = *ranks % 2 == 0;
    *ranks /= 2;
    return possible;
}

static bool halve_tensor(run_config *cfg) {
    return halve(&cfg->tensor_parallel);
}

static bool halve_context(run_config *cfg) {
    return halve(&cfg->context_parallel);
}

static bool halve_pipeline(run_config *cfg) {
    return halve(&cfg->pipeline_parallel) &&
           (cfg->virtual_stages == 1 || cfg->pipeline_parallel > 1);
}

static bool share_tokens(run_config *cfg) {
    const bool possible = cfg->tensor_parallel > 1 && !cfg->sequence_parallel;
    cfg->sequence_parallel = true;
    return possible;
}

static bool add_stages(run_config *cfg) {
    const stage_schedule now = cfg->pipeline_schedule;
    cfg->virtual_stages *= 2;
    return cfg->pipeline_parallel > 1 && (now == SCHEDULE_AUTO || now == SCHEDULE_INTERLEAVED) &&
           cfg->virtual_stages * cfg->pipeline_parallel <= cfg->model.num_hidden_layers;
}

static bool split_backward(run_config *cfg) {
    const bool possible = cfg->pipeline_parallel > 1 && cfg->virtual_stages == 1 &&
                          cfg->pipeline_schedule != SCHEDULE_ZB_H1;
    cfg->pipeline_schedule = SCHEDULE_ZB_H1;
    return possible;
}

static const struct {
    const char *key;
    bool (*make)(run_config *cfg);
} changes[] = {
        {"parallel.zero", share_optimizer},
        {"parallel.zero", share_optimizer_alone},
        {"parallel.tensor", halve_tensor},
        {"parallel.context", halve_context},
        {"parallel.pipeline", halve_pipeline},
        {"parallel.virtual_stages", add_stages},
        {"parallel.schedule", split_backward},
        {"parallel.sequence", share_tokens},
        {"training.micro_batch_size", grow_micro_batch},
        {"training.micro_batch_size", shrink_micro_batch},
        {"training.global_batch_size", grow_batch},
        {"training.recompute", keep_all},
        {"training.recompute", keep_products},
        {"training.precision", use_fp8},
};
enum { N_CHANGES = sizeof changes / sizeof *changes };

// --- trying them
static const char *setting(arena *a, const run_config *cfg, const char *key) {
    const char *path, *value;
    for (int i = 0; (value = config_key_text(a, cfg, i, &path)); i++)
        if (strcmp(path, key) == 0) return arena_printf(a, "--set %s=%s", key, value);
    DRV_ASSERT(false, "no key is named %s", key);
    return NULL;
}

// Plans a changed run as drover plan does. Not DRV_OK: it is not possible.
static drv_status plan_changed(arena *a, int64_t ranks, const device_profile *device,
        run_config *cfg, timed_plan *out) {
    const memory_limit memory = {.free = device->memory, .what = "of a rank"};
    const char *why;
    cfg->rank = 0;
    DRV_TRY(config_set_ranks(cfg, ranks));
    DRV_TRY(fit_choose_zero(a, cfg, &memory, 0, &why));
    DRV_TRY(run_layout_check(cfg));
    return timed_plan_make(a, cfg, device, out);
}

static double tokens_of_step(const run_config *cfg) {
    return (double)(cfg->global_batch_size * cfg->sequence_length);
}

// Returns the term that falls most from one step to another one of `times` as many tokens.
static step_term most_reduced(const step_cost *from, const step_cost *to, double times) {
    step_term most = TERM_PRODUCTS;
    for (step_term t = 0; t < N_STEP_TERMS; t++)
        if (times * from->term[t] - to->term[t] > times * from->term[most] - to->term[most])
            most = t;
    return most;
}

// Keeps the best ones, the best first.
static void insert(const step_advice *new, step_advice *list, int *n) {
    int place = *n < MAX_ADVICE ? (*n)++ : MAX_ADVICE;
    for (; place > 0 && list[place - 1].faster < new->faster; place--)
        if (place < MAX_ADVICE) list[place] = list[place - 1];
    if (place < MAX_ADVICE) list[place] = *new;
}

int step_advice_find(arena *a, const run_config *cfg, const device_profile *device,
        const step_cost *cost, int64_t bytes, step_advice *out) {
    const mesh of_run = run_mesh(cfg);
    const int64_t most = bytes > device->memory ? bytes : device->memory;
    int n = 0;
    for (int i = 0; i < N_CHANGES; i++) {
        run_config changed = *cfg;
        timed_plan planned;
        if (!changes[i].make(&changed)) continue;
        arena *scratch = arena_new("a changed run");
        if (plan_changed(scratch, mesh_ranks(&of_run), device, &changed, &planned) == DRV_OK &&
                planned.bytes <= most) {
            const double times = tokens_of_step(&changed) / tokens_of_step(cfg);
            const step_advice found = {.keys = setting(a, &changed, changes[i].key),
                    .term = most_reduced(cost, &planned.cost, times),
                    .faster = times * cost->seconds / planned.cost.seconds};
            if (found.faster > LEAST_GAIN) insert(&found, out, &n);
        }
        arena_free(scratch);
    }
    return n;
}
