// Checkpoints of a run: written during the steps, forgiven for a while, noted when in place.
#include "train/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/ranks.h"
#include "train/resume.h"
#include "train/set_counters.h"
#include "weights/state.h"

drv_status run_check_dir(run *r) {
    if (r->lost_dir) return DRV_OK; // it saves elsewhere
    const drv_status status = ranks_together(r, record_check(r->record));
    r->lost_dir = status != DRV_OK && status != DRV_E_PEER;
    return status;
}

static drv_status is_ours(void *ctx) {
    const run *r = ctx;
    return r->lost_dir ? DRV_OK : record_check(r->record);
}

static void note_saved(run *r) {
    double seconds;
    int64_t n_bytes;
    ckpt_saved(r->saver, &seconds, &n_bytes);
    r->failed_saves = 0;
    r->saved_step = r->saving_step;
    if (!r->leads) return;
    resume_note_saved(r->run_dir, r->saved_step, is_ours, r);
    record_saved(r->record, r->saved_step, seconds, r->blocked_s, n_bytes);
}

// Returns whether saves have failed often and long enough, by rank 0's clock, so that all ranks
// decide alike.
static drv_status gives_up(run *r, bool *out) {
    const double now = clock_s();
    if (r->failed_saves++ == 0) r->failing_since_s = now;
    double failing_s = now - r->failing_since_s;
    DRV_TRY(comm_broadcast(comm_all_ranks(r->comm), 0, &failing_s, sizeof failing_s));
    *out = r->failed_saves >= MIN_FAILED_SAVES &&
           failing_s >= 60 * r->cfg->checkpoint_give_up_minutes;
    return DRV_OK;
}

static drv_status note_failed(run *r, drv_status status) {
    drv_saved failed;
    drv_save(status, &failed);
    if (status == DRV_E_PEER) return status;
    DRV_TRY(run_check_dir(r)); // that says more
    DRV_TRY(gives_up(r, &r->saves_given_up));
    drv_restore(&failed);
    if (!r->saves_given_up) {
        static const char text[] = "%s; training continues and tries again at the next checkpoint";
        if (r->leads)
            log_warn(text, drv_message());
        else
            log_info(text, drv_message()); // all ranks know of it, one says it
        return DRV_OK;
    }
    return drv_context(status, "%d times in a row", r->failed_saves);
}

static drv_status note_result(run *r, drv_status status) {
    if (status != DRV_OK) return note_failed(r, status);
    note_saved(r);
    return DRV_OK;
}

drv_status run_settle_save(run *r, bool wait) {
    if (r->saving_step < 0 || !(wait || r->save_ended)) return DRV_OK;
    const double begin = clock_s();
    const drv_status ended = ckpt_wait(r->saver);
    r->blocked_s += clock_s() - begin;
    const drv_status status = note_result(r, ended);
    r->saving_step = -1;
    r->together |= status != DRV_OK && status != DRV_E_PEER;
    return status;
}

static void open_saver(run *r) {
    ckpt_ranks ranks;
    r->saver = ckpt_saver_new(r->checkpoints, r->cfg->checkpoint_keep,
            state_ranks(&r->p.held, &ranks), state_read_f32, &r->p.held);
    ckpt_saver_guard(r->saver, is_ours, r);
    for (int i = 0; i < r->n_refused; i++)
        ckpt_saver_refuse(r->saver, r->refused[i]);
    int *n_model = &r->content.n_model;
    r->content.model = r->content.is_adapter ? state_adapter(r->a, &r->p.held, false, n_model)
                                             : state_model(r->a, &r->p.held, false, n_model);
    r->content.optimizer = state_optimizer(r->a, &r->p.held, &r->content.n_optimizer);
}

// --- beside a directory that was lost
// The first RUN_DIR.orphan-N that can be made; where the folder around it is gone too, one in the
// working directory.
static drv_status make_orphan_dir(const char *run_dir, char *out, size_t size) {
    size_t n = strlen(run_dir);
    while (n > 1 && run_dir[n - 1] == '/')
        n--;
    for (int beside = 1; beside >= 0; beside--)
        for (int i = 1; i < 10000; i++) {
            if (beside)
                snprintf(out, size, "%.*s.orphan-%d", (int)n, run_dir, i);
            else
                snprintf(out, size, "drover.orphan-%d", i);
            if (mkdir(out, 0777) == 0) return DRV_OK;
            if (errno != EEXIST) break;
        }
    return file_fail("make folder", out);
}

static drv_status open_orphan_dir(run *r, char *out, size_t size) {
    DRV_TRY(make_orphan_dir(r->cfg->run_dir, out, size));
    DRV_TRY(dir_make(path_join(r->a, out, "checkpoints")));
    run_config cfg = *r->cfg;
    cfg.run_dir = out;
    return resume_write_config(&cfg, 0);
}

drv_status run_move_out(run *r) {
    char dir[4096] = "";
    const drv_status made = r->leads ? open_orphan_dir(r, dir, sizeof dir) : DRV_OK;
    DRV_TRY(ranks_together(r, made));
    DRV_TRY(comm_broadcast(comm_all_ranks(r->comm), 0, dir, sizeof dir));
    ckpt_saver_free(r->saver);
    r->saver = NULL;
    r->run_dir = arena_strdup(r->a, dir);
    r->checkpoints = path_join(r->a, dir, "checkpoints");
    r->saved_step = r->saving_step = -1;
    r->failed_saves = 0;
    r->saves_given_up = false;
    record_move(r->record, dir);
    return DRV_OK;
}

// --- a save
drv_status run_start_save(run *r) {
    r->save_began_s = clock_s();
    if (r->audit || r->state.step == r->saved_step || r->state.step == r->saving_step)
        return DRV_OK;
    DRV_TRY(run_settle_save(r, true));
    DRV_TRY(run_check_dir(r));
    if (!r->saver) open_saver(r);
    record_saving(r->record);
    r->blocked_s = 0;
    json_object_set_new(r->about, "sets",
            set_counters_json(r->train_rows, r->set_counts, r->kept_counters));
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
    if (r->failed_saves < MIN_FAILED_SAVES - 1) r->failed_saves = MIN_FAILED_SAVES - 1;
    r->failing_since_s = -HUGE_VAL; // no interval will come to try again at
    DRV_TRY(run_start_save(r));
    return run_settle_save(r, true);
}
