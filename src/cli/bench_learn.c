// drover bench device --from: learns the profile of a device from a finished run.
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/run_about.h"
#include "search/device_learn.h"
#include "search/device_measure.h"
#include "watch/files/metrics_part.h"
#include "watch/views/watched_run.h"

// Returns the peak of one rank that the run measured, FLOP/s, from the newest step with an MFU: a
// step that was faster than the measured peak has none. NaN: no step has.
static double peak_of_run(arena *a, const run_plan *planned, const char *dir) {
    json_t *step = metrics_newest(path_join(a, dir, "metrics.jsonl"), "mfu");
    const double speed = json_number_value(json_object_get(step, "tokens_per_s")),
                 mfu = json_number_value(json_object_get(step, "mfu"));
    json_decref(step);
    return mfu > 0 ? speed * planned->flops_per_token / mfu / planned->n_ranks : (double)NAN;
}

// Returns the profile that the run was planned with: that of its config, or one by the peak that it
// measured.
static drv_status profile_before(arena *a, const run_plan *planned, const watched_run *seen,
        device_profile *out) {
    const link_speeds links = {UNKNOWN_LINK, UNKNOWN_LINK, planned->n_ranks};
    const char *device = planned->cfg->device;
    if (*device) return device_profile_read(a, device, out);
    const double peak = peak_of_run(a, planned, seen->dir);
    if (!(peak > 0) || !isfinite(peak))
        return drv_fail(DRV_E_DATA,
                "bench device: %s has neither the key device nor mfu in metrics.jsonl, expected one of them",
                seen->dir);
    *out = device_profile_by_hand("a run", peak, memory_limit_read("").free / planned->n_ranks,
            &links);
    return DRV_OK;
}

static void read_terms(const watched_run *seen, double out[N_STEP_TERMS]) {
    const watched_terms *of = &seen->terms;
    for (step_term t = 0; t < N_STEP_TERMS; t++) {
        out[t] = (double)NAN;
        for (int i = 0; i < of->n && of->steps > 0; i++)
            if (strcmp(of->name[i], step_term_name(t)) == 0)
                out[t] = of->seconds[i] / (double)of->steps;
    }
}

static drv_status learn(arena *a, const cli_args *args, const watched_run *seen) {
    const char *learned, *left;
    run_config cfg;
    run_plan planned;
    device_profile profile;
    double measured[N_STEP_TERMS];
    str text = {0};
    if (!run_about_config(a, seen->dir, &cfg))
        return drv_fail(DRV_E_DATA, "bench device: %s", arena_strdup(a, drv_message()));
    if (seen->terms.steps <= 0)
        return drv_fail(DRV_E_DATA,
                "bench device: metrics.jsonl of %s has no terms of two steps, expected a run on a back end that times its ops",
                seen->dir);
    read_terms(seen, measured);
    DRV_TRY(run_plan_make(a, &cfg, &planned));
    DRV_TRY(profile_before(a, &planned, seen, &profile));
    DRV_TRY(device_profile_learn(a, &planned, measured, &profile, &learned, &left));
    log_info("learned: %s; not learned: %s", *learned ? learned : "nothing", *left ? left : "none");
    const char *source = arena_printf(a, "drover bench device --from a run of %lld steps, %d ranks",
            (long long)seen->terms.steps, planned.n_ranks);
    device_profile_print(&profile, source, &text);
    return cli_write_text(cli_get(args, "--out", NULL), &text);
}

drv_status bench_learn(arena *a, const cli_args *args) {
    const char *dir = cli_get(args, "--from", NULL);
    if (!watched_run_is_one(dir)) return watched_run_none("bench device --from", dir);
    watched_run *seen = watched_run_open(dir, 0);
    watched_run_read(seen, 0);
    const drv_status status = learn(a, args, seen);
    watched_run_close(seen);
    return status;
}
