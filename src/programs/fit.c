// Plans a run and its cheaper variants, and compares them with the memory there is.
#include "programs/fit.h"

#include "setup/process_bytes.h"

drv_status fit_plan(const run_config *cfg, memory_plan *out) {
    arena *a = arena_new("fit");
    programs p;
    const drv_status status = programs_plan(a, cfg, &p);
    if (status == DRV_OK) *out = programs_memory(&p);
    arena_free(a);
    return status;
}

static bool fits(const run_config *cfg, const memory_plan *planned, const memory_limit *limit) {
    return planned->total + process_bytes(cfg) <= limit->free;
}

static int64_t state_bytes(const memory_plan *planned) {
    return planned->weights + planned->gradients + planned->optimizer;
}

// Returns the largest micro-batch of whole partial sums that fits and divides the config's; 0:
// there is none.
static drv_status largest_micro_batch(const run_config *cfg, const memory_limit *limit,
        int64_t *out) {
    run_config smaller = *cfg;
    memory_plan planned;
    const int64_t least = cfg->partial_sum_rows ? cfg->partial_sum_rows : 1;
    *out = 0;
    smaller.micro_batch_size = least;
    DRV_TRY(fit_plan(&smaller, &planned));
    if (!fits(&smaller, &planned, limit)) return DRV_OK;
    *out = least;
    for (int64_t size = cfg->micro_batch_size; size > least; size--) {
        if (cfg->micro_batch_size % size || size % least) continue;
        smaller.micro_batch_size = size;
        DRV_TRY(fit_plan(&smaller, &planned));
        if (!fits(&smaller, &planned, limit)) continue;
        *out = size;
        return DRV_OK;
    }
    return DRV_OK;
}

static const char *differences(arena *a, const run_config *cfg, const run_config *other) {
    str keys = {0};
    if (other->micro_batch_size != cfg->micro_batch_size)
        str_printf(&keys, " --set training.micro_batch_size=%lld",
                (long long)other->micro_batch_size);
    if (other->recompute != cfg->recompute)
        str_printf(&keys, " --set training.recompute=%s", recompute_name(other->recompute));
    if (other->precision != cfg->precision)
        str_printf(&keys, " --set training.precision=%s", precision_name(other->precision));
    if (other->zero != cfg->zero)
        str_printf(&keys, " --set parallel.zero=%lld", (long long)other->zero);
    if (other->lora.rank != cfg->lora.rank)
        str_printf(&keys, " --set lora.rank=%lld%s", (long long)other->lora.rank,
                config_loads_weights(cfg) ? "" : " (adapters for a model that model.from loads)");
    const char *text = keys.n ? arena_strdup(a, keys.p + 1) : "";
    str_free(&keys);
    return text;
}

// Finds the change that costs least time: first rows and recomputation, then changes of the
// arithmetic.
static drv_status suggest(arena *a, const run_config *cfg, const run_config *base,
        const memory_limit *limit, const char **keys) {
    static const recompute_mode modes[] = {RECOMPUTE_NONE, RECOMPUTE_GATHERS, RECOMPUTE_SELECTIVE,
            RECOMPUTE_FULL};
    static const precision precisions[] = {PRECISION_F32, PRECISION_BF16};
    memory_plan planned;
    DRV_TRY(fit_plan(base, &planned));
    // Neither rows nor recomputation make the state smaller, and bf16 keeps fp32 beside it, but for
    // weights that rest.
    if (state_bytes(&planned) + process_bytes(cfg) > limit->free &&
            (base->lora.rank == 0 || base->precision != PRECISION_F32))
        return DRV_OK;
    for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            run_config other = *base;
            if (precisions[p] != cfg->precision && precisions[p] != PRECISION_BF16) continue;
            if (modes[m] < cfg->recompute) continue;
            other.precision = precisions[p];
            other.recompute = modes[m];
            int64_t micro_batch;
            DRV_TRY(largest_micro_batch(&other, limit, &micro_batch));
            if (micro_batch == 0) continue;
            other.micro_batch_size = micro_batch;
            *keys = differences(a, cfg, &other);
            return DRV_OK;
        }
    return DRV_OK;
}

// --- levels of ZeRO
enum { N_LEVELS = 4 };

typedef struct zero_levels {
    int64_t bytes[N_LEVELS]; // of a rank; 0: not planned, or not possible
    run_config chosen;       // the lowest that fits, else the last that was planned
    bool fits;
} zero_levels;

static int64_t sharing_ranks(const run_config *cfg) {
    return cfg->data_ranks * cfg->context_parallel;
}

// Plans a rank of each pipeline stage; the largest counts.
static drv_status stage_bytes(const run_config *cfg, int64_t *out) {
    run_config one = *cfg;
    memory_plan planned;
    const int64_t apart = sharing_ranks(cfg) * cfg->tensor_parallel;
    *out = 0;
    for (int64_t stage = 0; stage < cfg->pipeline_parallel; stage++) {
        one.rank = stage * apart;
        DRV_TRY(fit_plan(&one, &planned));
        if (planned.total > *out) *out = planned.total;
    }
    return DRV_OK;
}

// Plans levels from `first` on, until one fits.
static drv_status try_levels(const run_config *cfg, int64_t first, const memory_limit *limit,
        int64_t process, zero_levels *out) {
    const int64_t ranks = sharing_ranks(cfg) * cfg->tensor_parallel * cfg->pipeline_parallel;
    *out = (zero_levels){.chosen = *cfg};
    for (int64_t level = first; level < N_LEVELS && !out->fits; level++) {
        run_config other = *cfg;
        other.zero = level;
        if (config_set_ranks(&other, ranks) != DRV_OK || other.zero != level) continue;
        if (run_layout_check(&other) != DRV_OK) continue;
        DRV_TRY(stage_bytes(&other, &out->bytes[level]));
        out->bytes[level] += process;
        out->chosen = other;
        out->fits = out->bytes[level] <= limit->free;
    }
    return DRV_OK;
}

static const char *reason(arena *a, const zero_levels *levels, const memory_limit *limit) {
    const int64_t level = levels->chosen.zero;
    if (!limit->what)
        return arena_printf(a, "zero %lld: the memory is not known", (long long)level);
    const char *here = str_bytes((double)levels->bytes[level]),
               *all = arena_printf(a, "%s %s", str_bytes((double)limit->free), limit->what);
    int64_t below = level - 1;
    while (below > 0 && levels->bytes[below] == 0)
        below--;
    if (!levels->fits)
        return arena_printf(a, "zero %lld: even so a rank needs %s, more than %s", (long long)level,
                here, all);
    if (levels->bytes[below] == 0)
        return arena_printf(a, "zero %lld: it needs %s a rank of %s", (long long)level, here, all);
    return arena_printf(a, "zero %lld: %s a rank with zero %lld exceed %s; zero %lld holds %s",
            (long long)level, str_bytes((double)levels->bytes[below]), (long long)below, all,
            (long long)level, here);
}

drv_status fit_choose_zero(arena *a, run_config *cfg, const memory_limit *limit, int64_t process,
        const char **why) {
    zero_levels levels;
    *why = NULL;
    if (cfg->given_zero >= 0 || sharing_ranks(cfg) == 1) return DRV_OK;
    DRV_TRY(try_levels(cfg, cfg->zero, limit, process, &levels));
    *cfg = levels.chosen;
    *why = reason(a, &levels, limit);
    return DRV_OK;
}

// The lowest level of ZeRO above the config's at which the run fits as it is.
static drv_status suggest_zero(arena *a, const run_config *cfg, const memory_limit *limit,
        const char **keys) {
    zero_levels levels;
    if (sharing_ranks(cfg) == 1) return DRV_OK;
    DRV_TRY(try_levels(cfg, cfg->zero + 1, limit, process_bytes(cfg), &levels));
    if (levels.fits) *keys = differences(a, cfg, &levels.chosen);
    return DRV_OK;
}

drv_status fit_suggest(arena *a, const run_config *cfg, const memory_limit *limit,
        const char **keys) {
    enum { RANK = 16 };
    run_config adapters = *cfg;
    *keys = NULL;
    DRV_TRY(suggest(a, cfg, cfg, limit, keys));
    if (!*keys) DRV_TRY(suggest_zero(a, cfg, limit, keys));
    if (*keys || cfg->lora.rank > 0 || *cfg->lora.adapter) return DRV_OK;
    adapters.lora.rank = RANK;
    adapters.lora.alpha = RANK; // as a config that gives the rank alone has it
    return suggest(a, cfg, &adapters, limit, keys);
}

drv_status fit_check(const run_config *cfg, const memory_limit *limit) {
    memory_plan planned;
    const char *keys;
    if (!config_backend(cfg)->uses_host_memory) return DRV_OK; // a device's memory is its own
    DRV_TRY(fit_plan(cfg, &planned));
    if (fits(cfg, &planned, limit)) return DRV_OK;
    arena *a = arena_new("fit");
    drv_status status = fit_suggest(a, cfg, limit, &keys);
    const int64_t state = state_bytes(&planned);
    if (status == DRV_OK && keys)
        status = drv_fail(DRV_E_DEVICE,
                "the run needs %s of memory, but %s are %s; this would fit: %s",
                str_bytes((double)(planned.total + process_bytes(cfg))),
                str_bytes((double)limit->free), limit->what, keys);
    else if (status == DRV_OK)
        status = drv_fail(DRV_E_DEVICE,
                "the run needs %s of memory, but %s are %s; its weights, gradients and optimizer alone "
                "take %s: expected a smaller model%s",
                str_bytes((double)(planned.total + process_bytes(cfg))),
                str_bytes((double)limit->free), limit->what, str_bytes((double)state),
                state + process_bytes(cfg) < limit->free ? " or a smaller data.sequence_length"
                                                         : "");
    arena_free(a);
    return status;
}

const char *fit_less(arena *a, const run_config *cfg) {
    const char *ways[4];
    int n = 0;
    if (cfg->micro_batch_size > 1) ways[n++] = "a smaller training.micro_batch_size";
    ways[n++] = "a smaller data.sequence_length";
    if (cfg->recompute != RECOMPUTE_FULL) ways[n++] = "training.recompute full";
    if (cfg->precision == PRECISION_F32) ways[n++] = "training.precision bf16";
    const char *all = ways[0];
    for (int i = 1; i < n; i++)
        all = arena_printf(a, "%s%s%s", all, i + 1 < n ? ", " : " or ", ways[i]);
    return all;
}
