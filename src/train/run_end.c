// Ends a run: saves the last finished step, however the loop ended, and one rank prints the reason.
#include <math.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "train/run.h"

const char *run_stop_key(const run *r) {
    static const char *const keys[] =
            {[STOP_MAX_MINUTES] = "training.max_minutes", [STOP_AT_STEP] = "training.stop_at_step"};
    return keys[r->ending.stop];
}

const char *run_stop_reason(const run *r) {
    const char *key = run_stop_key(r);
    return key ? key : stop_requested();
}

// Uses only rank 0's clock, since the clocks of other ranks may differ.
static bool minutes_are_over(const run *r, double minutes, double since_s) {
    return r->rank.leads && minutes > 0 && clock_s() >= since_s + 60 * minutes;
}

drv_status run_agree(run *r, drv_status mine, bool *save) {
    const run_config *cfg = r->rank.cfg;
    enum { LONGEST_S = 1000000 };
    stepper *steps = &r->opened.stepper;
    const double gradients_s = steps->gradients_s < LONGEST_S ? steps->gradients_s : LONGEST_S;
    int32_t asked[] = {stop_number(), stop_take_save_request(),
            r->saving.saver && !ckpt_ended(r->saving.saver, 0), mine != DRV_OK,
            minutes_are_over(r, cfg->max_minutes, r->progress.began_s),
            (int32_t)ceil(1000 * gradients_s)};
    if (minutes_are_over(r, cfg->checkpoint_minutes, r->saving.began_s)) asked[1] = 1;
    DRV_TRY(comm_all_reduce(comm_all_ranks(r->rank.comm), DT_I32, COMM_MAX, asked,
            sizeof asked / sizeof *asked, NULL));
    if (asked[3]) return ranks_together(&r->rank, mine);
    if (asked[5] > 0) stepper_pace(steps, asked[5] / 1e3); // 0: there was no step yet
    stop_take_over(asked[0]);
    if (asked[0] || asked[4]) r->ending.stop = asked[0] ? STOP_SIGNAL : STOP_MAX_MINUTES;
    *save = asked[1];
    if (r->saving.state == SAVE_RUNNING && !asked[2]) r->saving.state = SAVE_ENDED;
    return DRV_OK;
}

drv_status run_end_early(run *r) {
    DRV_TRY(ranks_share_stop(&r->rank));
    if (r->rank.leads) record_stop(r->shown.record, r->progress.state.step, stop_requested(), NULL);
    return drv_fail(DRV_STOPPED, "stopped by %s while it was opened; the same command%s resumes it",
            stop_requested(), r->opened.fresh ? " without --fresh" : "");
}

static void say_stop(void *ctx) {
    const run *r = ctx;
    const char *name = stop_requested();
    log_info("%s: the run ends after this %s and saves the last finished step%s", name,
            r->evaluates                    ? "micro-batch of the evaluation"
            : r->opened.programs.whole_step ? "step"
                                            : "micro-batch",
            stop_number() == SIGINT ? "; a second SIGINT ends it at once" : "");
}

void run_tell_stop(run *r) {
    if (!r->rank.leads || r->audit) return; // an audit saves nothing
    if (stop_tell_request(say_stop, r) != DRV_OK) log_warn("%s", drv_message());
}

// Fails if all steps were skipped, also before a resume: the weights are still the initial ones.
static drv_status check_learned(run *r) {
    const run_state *state = &r->progress.state;
    if (state->updates > 0 || state->step < r->rank.cfg->steps || state->step == 0) return DRV_OK;
    r->ending.not_finite = true;
    r->progress.weights = WEIGHTS_LOST; // initial weights are not saved as a result
    return drv_fail(DRV_E_DATA,
            "none of the %lld steps changed a weight: the gradient of each was not finite, or there was no "
            "token to predict; look at the first skipped step in log.txt, at optimizer.lr and at the weights that it began with",
            (long long)state->step);
}

// If the run directory no longer belongs to this run, makes another one for the last save and adds
// the reason to `why`.
static drv_status leave_dir(run *r, drv_status status, char *why, size_t size) {
    char before[1024];
    if (!r->saving.lost_dir) {
        const drv_status held = run_check_dir(r);
        if (held == DRV_OK || held == DRV_E_PEER) return held == DRV_OK ? status : held;
        snprintf(before, sizeof before, "%s", why);
        const bool failed = status != DRV_OK && status != DRV_STOPPED;
        snprintf(why, size, "%s%s%s", failed ? before : "", failed ? "; " : "", drv_message());
    }
    r->ending.not_finite = false;
    if (r->progress.weights != WEIGHTS_OF_STEP || r->progress.state.step == 0) return DRV_E_IO;
    if (run_move_out(r) != DRV_OK) {
        r->progress.weights = WEIGHTS_LOST; // there is no folder to save them in
        snprintf(before, sizeof before, "%s; %s", why, drv_message());
        snprintf(why, size, "%s", before);
    }
    return DRV_E_IO;
}

// Makes the message of a run that was stopped.
static drv_status report_stopped(const run *r) {
    const long long step = r->progress.state.step, steps = r->rank.cfg->steps;
    if (r->ending.stop == STOP_AT_STEP)
        return drv_fail(DRV_STOPPED, "stopped by %s after step %lld of %lld; raise it to go on",
                run_stop_reason(r), step, steps);
    return drv_fail(DRV_STOPPED,
            "stopped by %s after step %lld of %lld; the same command%s resumes it",
            run_stop_reason(r), step, steps, r->opened.fresh ? " without --fresh" : "");
}

drv_status run_end(run *r, drv_status status) {
    char why[1024];
    snprintf(why, sizeof why, "%s", drv_message());
    if (r->rank.leads) stop_untell();
    progress_end();
    if (status != DRV_OK && run_finish_steps(r) != DRV_OK) log_file_only("%s", drv_message());
    const long long step = r->progress.state.step;
    if (status == DRV_STOPPED)
        log_info("%s: %s after step %lld", run_stop_reason(r), step > 0 ? "saving" : "ending",
                step);
    // The stop was requested during the last evaluation, which the next start will do.
    if (status == DRV_STOPPED && step >= r->rank.cfg->steps) status = DRV_OK;
    if (status == DRV_STOPPED && r->rank.leads)
        record_stop(r->shown.record, step, run_stop_key(r) ? NULL : stop_requested(),
                run_stop_key(r));
    drv_status saved = DRV_OK;
    // If only one of several ranks failed, the others are in the middle of a step and cannot save.
    r->rank.together |= status == DRV_OK || status == DRV_STOPPED || comm_size(r->rank.comm) == 1;
    if (status == DRV_OK && check_learned(r) != DRV_OK) {
        status = DRV_E_DATA;
        snprintf(why, sizeof why, "%s", drv_message());
    }
    if (r->rank.together && status != DRV_E_PEER) status = leave_dir(r, status, why, sizeof why);
    if (r->progress.weights == WEIGHTS_OF_STEP && r->saving.state != SAVE_GAVE_UP &&
            r->rank.together)
        saved = run_save_last(r);
    // A save that is still running had read the weights before they were lost.
    else if (r->rank.together && run_settle_save(r, true) != DRV_OK)
        log_file_only("%s", drv_message());
    // Rank 0 prints a failure that all know; one that another rank has printed is not repeated.
    const bool silent = !*why || (r->rank.together && !r->rank.leads);
    if (status != DRV_OK && silent) return drv_fail(status, "%s", why);
    if (status == DRV_OK && !r->rank.leads) return DRV_OK;
    if (status == DRV_OK) {
        if (saved == DRV_OK && r->saving.saved_step >= 0 && !r->audit)
            report_summary(r->shown.report,
                    arena_printf(r->rank.a, "%s/step-%06lld", r->saving.checkpoints,
                            (long long)r->saving.saved_step));
        return saved;
    }
    if (saved != DRV_OK && status == DRV_E_FAULT) { // the device no longer responds
        log_file_only("%s", drv_message());
        return drv_fail(status, "%s; step %lld could not be saved", why, step);
    }
    if (saved != DRV_OK) return drv_context(saved, "%s", why);
    if (status == DRV_STOPPED) return report_stopped(r);
    if (r->saving.saved_step < 0) return drv_fail(status, "%s", why);
    if (r->saving.lost_dir)
        return drv_fail(status, "%s; step %lld is saved in \"%s\"", why,
                (long long)r->saving.saved_step, r->saving.run_dir);
    return drv_fail(status, "%s; step %lld is saved", why, (long long)r->saving.saved_step);
}
