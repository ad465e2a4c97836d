// The end of a run: however its loop ended, the last finished step is saved, and rank 0 says why.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/stop.h"
#include "train/ranks.h"
#include "train/run.h"

// Names what asked for a stop: a signal, or a key of this run.
const char *run_stop_reason(const run *r) {
    return r->limit ? r->limit : stop_requested();
}

// A run that is stopped while it is opened has nothing to save.
drv_status run_end_early(run *r) {
    DRV_TRY(ranks_share_stop(r));
    if (r->leads) record_stop(r->record, r->state.step, stop_requested(), NULL);
    return drv_fail(DRV_STOPPED, "stopped by %s while it was opened; the same command%s resumes it",
            stop_requested(), r->fresh ? " without --fresh" : "");
}

// All steps were skipped, here and in the parts before: nothing was learned.
static drv_status check_learned(run *r) {
    const run_state *state = &r->state;
    if (state->updates > 0 || state->step < r->cfg->steps || state->step == 0) return DRV_OK;
    r->cause = "not_finite";
    r->weights_lost = true; // they are those of the start: no result
    return drv_fail(DRV_E_DATA,
            "none of the %lld steps changed a weight: the gradient of each was not finite, or no token was to be "
            "predicted; look at the first skipped step in log.txt, at optimizer.lr and at the weights that it began with",
            (long long)state->step);
}

// Saves the last step beside the run directory where that is not this run's any more.
static drv_status leave_dir(run *r, drv_status status, char *why, size_t size) {
    char before[1024];
    if (!r->lost_dir) {
        const drv_status held = run_check_dir(r);
        if (held == DRV_OK || held == DRV_E_PEER) return held == DRV_OK ? status : held;
        snprintf(before, sizeof before, "%s", why);
        const bool failed = status != DRV_OK && status != DRV_STOPPED;
        snprintf(why, size, "%s%s%s", failed ? before : "", failed ? "; " : "", drv_message());
    }
    r->cause = NULL;
    if (r->weights_lost || r->state.step == 0) return DRV_E_IO;
    if (run_move_out(r) != DRV_OK) {
        r->weights_lost = true; // there is no place for them
        snprintf(before, sizeof before, "%s; %s", why, drv_message());
        snprintf(why, size, "%s", before);
    }
    return DRV_E_IO;
}

// Tells the end of a run that was stopped, in a message.
static drv_status tell_stopped(const run *r) {
    const long long step = r->state.step, steps = r->cfg->steps;
    if (r->limit && strcmp(r->limit, "training.stop_at_step") == 0)
        return drv_fail(DRV_STOPPED, "stopped by %s after step %lld of %lld; raise it to go on",
                r->limit, step, steps);
    return drv_fail(DRV_STOPPED,
            "stopped by %s after step %lld of %lld; the same command%s resumes it",
            run_stop_reason(r), step, steps, r->fresh ? " without --fresh" : "");
}

// However the loop ended, its last finished step is saved, unless that is what failed.
drv_status run_end(run *r, drv_status status) {
    char why[1024];
    snprintf(why, sizeof why, "%s", drv_message());
    progress_end();
    if (status != DRV_OK && run_finish_steps(r) != DRV_OK) log_file_only("%s", drv_message());
    const long long step = r->state.step;
    if (status == DRV_STOPPED) log_info("%s: saving after step %lld", run_stop_reason(r), step);
    // Asked while the last evaluation ran: all steps are done; the next start evaluates.
    if (status == DRV_STOPPED && step >= r->cfg->steps) status = DRV_OK;
    if (status == DRV_STOPPED && r->leads)
        record_stop(r->record, step, r->limit ? NULL : stop_requested(), r->limit);
    drv_status saved = DRV_OK;
    // If one rank of several fails, the others are in the middle of a step.
    r->together |= status == DRV_OK || status == DRV_STOPPED || comm_size(r->comm) == 1;
    if (status == DRV_OK && check_learned(r) != DRV_OK) {
        status = DRV_E_DATA;
        snprintf(why, sizeof why, "%s", drv_message());
    }
    if (r->together && status != DRV_E_PEER) status = leave_dir(r, status, why, sizeof why);
    if (!r->weights_lost && !r->saves_given_up && r->together) saved = run_save_last(r);
    // One that is under way was read before the weights were lost.
    else if (r->together && run_settle_save(r, true) != DRV_OK)
        log_file_only("%s", drv_message());
    // Rank 0 says what all know of; a line that another rank has said needs no second one.
    const bool silent = !*why || (r->together && !r->leads);
    if (status != DRV_OK && silent) return drv_fail(status, "%s", why);
    if (status == DRV_OK && !r->leads) return DRV_OK;
    if (status == DRV_OK) {
        if (saved == DRV_OK && r->saved_step >= 0 && !r->audit)
            report_summary(r->report,
                    arena_printf(r->a, "%s/step-%06lld", r->checkpoints, (long long)r->saved_step));
        return saved;
    }
    if (saved != DRV_OK && status == DRV_E_FAULT) { // it does not answer any more
        log_file_only("%s", drv_message());
        return drv_fail(status, "%s; step %lld could not be saved", why, step);
    }
    if (saved != DRV_OK) return drv_context(saved, "%s", why);
    if (status == DRV_STOPPED) return tell_stopped(r);
    if (r->saved_step < 0) return drv_fail(status, "%s", why);
    if (r->lost_dir)
        return drv_fail(status, "%s; step %lld is saved in \"%s\"", why, (long long)r->saved_step,
                r->run_dir);
    return drv_fail(status, "%s; step %lld is saved", why, (long long)r->saved_step);
}
