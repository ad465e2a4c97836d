// Checks a job by planning its config as drover plan does.
#include "search/job_fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/str.h"
#include "programs/fit.h"
#include "search/elastic_layouts.h"
#include "search/timed_plan.h"
#include "setup/device.h"
#include "setup/process_bytes.h"

#define ANY "any" // a device of which only the memory is known

// Returns the nearest numbers of nodes that the layout divides, as "; 2 or 4 nodes would do".
static const char *near_nodes(arena *a, const run_config *cfg, const job_spec *spec) {
    enum { FARTHEST = 1024 };
    const int nodes = spec->nodes - spec->spares;
    int below = 0, above = 0;
    for (int i = 1; i <= FARTHEST && !(below && above); i++) {
        run_config copy = *cfg;
        if (!below && nodes - i > 0 &&
                config_set_ranks(&copy, (int64_t)(nodes - i) * spec->ranks) == DRV_OK)
            below = spec->nodes - i;
        copy = *cfg;
        if (!above && config_set_ranks(&copy, (int64_t)(nodes + i) * spec->ranks) == DRV_OK)
            above = spec->nodes + i;
    }
    if (below && above)
        return arena_printf(a, "; the nearest that would do: %d or %d nodes", below, above);
    if (below || above)
        return arena_printf(a, "; the nearest that would do: %d nodes", below ? below : above);
    return "; no number of nodes near would do";
}

static drv_status set_ranks(arena *a, run_config *cfg, const job_spec *spec) {
    run_config tried = *cfg;
    const drv_status status = config_set_ranks(&tried, job_ranks(spec));
    if (status == DRV_OK) {
        *cfg = tried;
        return DRV_OK;
    }
    const char *why = arena_strdup(a, drv_message());
    return drv_fail(status, "--nodes %d%s, of %d ranks each: %s%s", spec->nodes,
            spec->spares ? arena_printf(a, " with %d spare", spec->spares) : "", spec->ranks, why,
            near_nodes(a, cfg, spec));
}

// Makes the profile of a rank from that of its device, with as many ranks per host as the job has.
// If no profile has the device, only its memory is known.
static drv_status read_device(arena *a, const job_spec *spec, device_profile *out) {
    const instance_type *t = spec->instance;
    const link_speeds links = {1e9, 1e9, 0};
    if (t->device) {
        DRV_TRY_CTX(device_profile_read(a, t->device, out), "the device of %s", t->name);
        out->links.ranks_per_host = spec->ranks;
        return DRV_OK;
    }
    *out = device_profile_by_hand(ANY, 1e12,
            t->family == DEVICE_NONE ? t->pod_memory / spec->ranks : t->device_memory, &links);
    out->fp8_flops = out->bf16_flops;
    return DRV_OK;
}

static drv_status check_backend(const run_config *cfg, const instance_type *t) {
    if (t->family == DEVICE_NONE || config_backend(cfg)->has_devices) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: backend \"%s\" leaves the %d devices of %s idle; expected one that has devices, with its plugin (docs/accelerators.md)",
            config_where(cfg, "backend"), cfg->backend, t->devices, t->name);
}

// Checks that a job which may continue with fewer nodes has a layout for the smallest number of
// them. Without this check the job would end at its first failure.
static drv_status check_fewest(arena *a, const run_config *cfg, const job_spec *spec,
        const device_profile *device) {
    const int nodes = spec->nodes - spec->spares;
    const elastic_job job = {.cfg = cfg,
            .n_nodes = nodes,
            .ranks = spec->ranks,
            .device = *device,
            .on_host = spec->instance->family == DEVICE_NONE};
    elastic_layout found;
    if (spec->fewest >= nodes) return DRV_OK;
    DRV_TRY_CTX(elastic_on(a, &job, spec->fewest, &found), "--min-nodes %d", spec->fewest);
    return DRV_OK;
}

drv_status job_check_compile(const run_config *cfg, const job_spec *spec) {
    const instance_type *t = spec->instance;
    const int n = device_count(cfg);
    if (!config_backend(cfg)->has_devices)
        return drv_fail(DRV_E_USAGE,
                "%s: --job compile, but backend \"%s\" has nothing to compile; expected pjrt, with its plugin (docs/accelerators.md)",
                config_where(cfg, "backend"), cfg->backend);
    if (t->family == DEVICE_NONE || n <= instance_ranks(t)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "--job compile: the layout asks for %d devices, and one %s of the job has %d; the first start of the run compiles the programs that its cache lacks",
            n, t->name, instance_ranks(t));
}

// Returns the time of a step as the summary has it; "" where the device of a rank is not known.
static const char *speed(arena *a, const run_config *cfg, const device_profile *device,
        const timed_plan *planned) {
    const double seconds = planned->cost.seconds;
    if (strcmp(device->name, ANY) == 0) return "";
    return arena_printf(a, "; a step takes %.3g s, %s tokens/s by the profile %s", seconds,
            str_si((double)(cfg->global_batch_size * cfg->sequence_length) / seconds),
            device->name);
}

drv_status job_check_fit(arena *a, run_config *cfg, const job_spec *spec, const char **summary) {
    const instance_type *type = spec->instance;
    device_profile device;
    timed_plan planned;
    const char *keys = NULL, *chosen;
    const run_config any_ranks = *cfg;
    DRV_TRY(check_backend(cfg, type));
    DRV_TRY(set_ranks(a, cfg, spec));
    par_set_threads(type->cpus / spec->ranks);
    DRV_TRY(read_device(a, spec, &device));
    const bool on_device = type->family != DEVICE_NONE;
    const memory_limit memory = {.free = device.memory,
            .what = arena_printf(a, "on %s", type->name)};
    DRV_TRY(fit_choose_zero(a, cfg, &memory, on_device ? 0 : process_bytes(cfg), &chosen));
    DRV_TRY(timed_plan_make(a, cfg, &device, &planned));
    const int64_t process = process_bytes(cfg), has = device.memory,
                  needs = on_device ? planned.bytes : planned.bytes + process;
    if (needs <= has) {
        DRV_TRY(check_fewest(a, &any_ranks, spec, &device));
        *summary = arena_printf(a, "%d node%s%s x %d rank%s on %s: a rank needs %s of %s%s",
                spec->nodes - spec->spares, str_plural(spec->nodes - spec->spares),
                spec->spares ? arena_printf(a, " (and %d spare)", spec->spares) : "", spec->ranks,
                str_plural(spec->ranks), type->name, str_bytes((double)needs),
                str_bytes((double)has), speed(a, cfg, &device, &planned));
        return DRV_OK;
    }
    const memory_limit limit = {.machine = has, .free = on_device ? has + process : has};
    DRV_TRY(fit_suggest(a, cfg, &limit, &keys));
    return drv_fail(DRV_E_USAGE,
            "a rank needs %s, but %s has %s for it; expected more ranks to share the model%s%s",
            str_bytes((double)needs), type->name, str_bytes((double)has), keys ? ", or " : "",
            keys ? keys : "");
}
