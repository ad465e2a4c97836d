// Checkpoints of a run: written beside the steps, forgiven twice, noted when in place.
#include "train/run.h"

#include <stdlib.h>

#include "base/log.h"
#include "train/resume.h"
#include "train/state.h"

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

drv_status run_start_save(run *self) {
    ckpt_ranks ranks;
    if (self->state.step == self->saved_step || self->state.step == self->saving_step)
        return DRV_OK;
    DRV_TRY(run_settle_save(self, true));
    if (!self->saver) {
        self->saver = ckpt_saver_new(self->checkpoints, self->cfg->checkpoint_keep,
                state_ranks(&self->p, &ranks), state_read_f32, &self->p);
        int *n_model = &self->content.n_model;
        self->content.model = self->content.is_adapter
                                      ? state_adapter(self->a, &self->p, false, n_model)
                                      : state_model(self->a, &self->p, false, n_model);
        self->content.optimizer = state_optimizer(self->a, &self->p, &self->content.n_optimizer);
    }
    char *json = trainer_json_text(&self->state, self->about);
    self->content.trainer_json = json;
    self->saving_step = self->state.step;
    self->save_ended = false;
    drv_status status = ckpt_start(self->saver, self->state.step, &self->content);
    free(json);
    if (status == DRV_OK) return DRV_OK;
    status = note_result(self, status);
    self->saving_step = -1;
    return status;
}

drv_status run_save_last(run *r) {
    DRV_TRY(run_settle_save(r, true));
    if (r->state.step <= r->saved_step || r->state.step == 0) return DRV_OK;
    r->failed_saves = MAX_FAILED_SAVES - 1; // no interval will come to try again at
    DRV_TRY(run_start_save(r));
    return run_settle_save(r, true);
}
