// Checkpoints of a run: written beside the steps, forgiven twice, noted when in place.
#include "train/run.h"

#include <stdlib.h>

#include "base/log.h"
#include "train/resume.h"
#include "train/state.h"

static drv_status read_state(void *ctx, const char *source, int64_t offset, int64_t bytes,
        void *dst) {
    backend *b = ctx;
    return backend_read(b, 0, source, offset, bytes, dst);
}

static drv_status note_result(run *r, drv_status status) {
    if (status == DRV_OK) {
        r->failed_saves = 0;
        r->saved_step = r->saving_step;
        if (r->leads) resume_note_saved(r->cfg->run_dir, r->saved_step);
        return DRV_OK;
    }
    if (status == DRV_E_PEER) return status;
    if (++r->failed_saves < MAX_FAILED_SAVES) {
        static const char text[] = "%s; training continues and tries again at the next checkpoint";
        if (r->leads)
            log_warn(text, drv_message());
        else
            log_info(text, drv_message()); // all ranks know of it, one says it
        return DRV_OK;
    }
    return drv_context(status, "%d times in a row", r->failed_saves);
}

drv_status run_settle_save(run *r, bool wait) {
    if (r->saving_step < 0 || !(wait || r->save_ended)) return DRV_OK;
    drv_status status = note_result(r, ckpt_wait(r->saver));
    r->saving_step = -1;
    r->together |= status != DRV_OK && status != DRV_E_PEER;
    return status;
}

drv_status run_start_save(run *r) {
    ckpt_ranks ranks;
    if (r->state.step == r->saved_step || r->state.step == r->saving_step) return DRV_OK;
    DRV_TRY(run_settle_save(r, true));
    if (!r->saver) {
        r->saver = ckpt_saver_new(r->checkpoints, r->cfg->checkpoint_keep,
                state_ranks(&r->p, &ranks), read_state, r->b);
        int *n_model = &r->content.n_model;
        r->content.model = r->content.is_adapter ? state_adapter(r->a, &r->p, false, n_model)
                                                 : state_model(r->a, &r->p, false, n_model);
        r->content.optimizer = state_optimizer(r->a, &r->p, &r->content.n_optimizer);
    }
    char *json = trainer_json_text(&r->state, r->about);
    r->content.trainer_json = json;
    r->saving_step = r->state.step;
    r->save_ended = false;
    drv_status status = ckpt_start(r->saver, r->state.step, &r->content);
    free(json);
    if (status == DRV_OK) return DRV_OK;
    status = note_result(r, status);
    r->saving_step = -1;
    return status;
}

drv_status run_save_last(run *r) {
    DRV_TRY(run_settle_save(r, true));
    if (r->state.step <= r->saved_step || r->state.step == 0) return DRV_OK;
    r->failed_saves = MAX_FAILED_SAVES - 1; // no interval will come to try again at
    DRV_TRY(run_start_save(r));
    return run_settle_save(r, true);
}
