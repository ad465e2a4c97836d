// Saves the checkpoints of a run while steps compute. Failed saves are tolerated for a while.
#include "train/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/resume.h"
#include "train/set_counters.h"
#include "weights/state.h"

drv_status run_check_dir(run *r) {
    if (r->saving.lost_dir) return DRV_OK; // the run saves elsewhere already
    const drv_status status = ranks_together(&r->rank, record_check(r->shown.record));
    r->saving.lost_dir = status != DRV_OK && status != DRV_E_PEER;
    return status;
}

static drv_status is_ours(void *ctx) {
    const run *r = ctx;
    return r->saving.lost_dir ? DRV_OK : record_check(r->shown.record);
}

static void note_saved(run *r) {
    double seconds;
    int64_t n_bytes;
    ckpt_saved(r->saving.saver, &seconds, &n_bytes);
    r->saving.n_failed = 0;
    r->saving.saved_step = r->saving.step;
    if (!r->rank.leads) return;
    resume_note_saved(r->saving.run_dir, r->saving.saved_step, is_ours, r);
    record_saved(r->shown.record, r->saving.saved_step, seconds, r->saving.blocked_s, n_bytes);
}

// Counts a failed save. Sets *out if saves have failed often and long enough to give up, by rank
// 0's clock, so that all ranks decide the same.
static drv_status count_failure(run *r, bool *out) {
    const double now = clock_s();
    if (r->saving.n_failed++ == 0) r->saving.failing_since_s = now;
    double failing_s = now - r->saving.failing_since_s;
    DRV_TRY(comm_broadcast(comm_all_ranks(r->rank.comm), 0, &failing_s, sizeof failing_s));
    *out = r->saving.n_failed >= MIN_FAILED_SAVES &&
           failing_s >= 60 * r->rank.cfg->checkpoint_give_up_minutes;
    return DRV_OK;
}

static drv_status note_failed(run *r, drv_status status) {
    drv_saved failed;
    drv_save(status, &failed);
    if (status == DRV_E_PEER) return status;
    DRV_TRY(run_check_dir(r)); // a lost directory explains the failure better
    bool given_up;
    DRV_TRY(count_failure(r, &given_up));
    drv_restore(&failed);
    if (!given_up) {
        static const char text[] = "%s; training continues and tries again at the next checkpoint";
        if (r->rank.leads)
            log_warn(text, drv_message());
        else
            log_info(text, drv_message()); // rank 0 warns of it
        return DRV_OK;
    }
    r->saving.state = SAVE_GAVE_UP;
    return drv_context(status, "%d times in a row", r->saving.n_failed);
}

static drv_status note_result(run *r, drv_status status) {
    if (status != DRV_OK) return note_failed(r, status);
    note_saved(r);
    return DRV_OK;
}

bool run_is_saving(const run *r) {
    return r->saving.state == SAVE_RUNNING || r->saving.state == SAVE_ENDED;
}

drv_status run_settle_save(run *r, bool wait) {
    if (!run_is_saving(r) || !(wait || r->saving.state == SAVE_ENDED)) return DRV_OK;
    const double begin = clock_s();
    const drv_status ended = ckpt_wait(r->saving.saver);
    r->saving.blocked_s += clock_s() - begin;
    r->saving.state = SAVE_NONE;
    const drv_status status = note_result(r, ended);
    r->rank.together |= status != DRV_OK && status != DRV_E_PEER;
    return status;
}

static void open_saver(run *r) {
    ckpt_ranks ranks;
    r->saving.saver = ckpt_saver_new(r->saving.checkpoints, r->rank.cfg->checkpoint_keep,
            state_ranks(&r->opened.programs.held, &ranks), state_read_f32,
            &r->opened.programs.held);
    ckpt_saver_guard(r->saving.saver, is_ours, r);
    for (int i = 0; i < r->saving.n_refused; i++)
        ckpt_saver_refuse(r->saving.saver, r->saving.refused[i]);
    int *n_model = &r->saving.content.n_model;
    r->saving.content.model =
            r->saving.content.is_adapter
                    ? state_adapter(r->rank.a, &r->opened.programs.held, false, n_model)
                    : state_model(r->rank.a, &r->opened.programs.held, false, n_model);
    r->saving.content.optimizer =
            state_optimizer(r->rank.a, &r->opened.programs.held, &r->saving.content.n_optimizer);
}

void run_retain(run *r) {
    open_saver(r);
    ckpt_saver_retain(r->saving.saver, r->saving.saved_step);
}

// --- after run_dir was lost
// Makes the first RUN_DIR.orphan-N that does not exist; if the folder around it is gone too, a
// drover.orphan-N in the working directory.
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
    DRV_TRY(make_orphan_dir(r->rank.cfg->run_dir, out, size));
    DRV_TRY(dir_make(path_join(r->rank.a, out, "checkpoints")));
    run_config cfg = *r->rank.cfg;
    cfg.run_dir = out;
    return resume_write_config(&cfg, 0);
}

drv_status run_move_out(run *r) {
    char dir[4096] = "";
    const drv_status made = r->rank.leads ? open_orphan_dir(r, dir, sizeof dir) : DRV_OK;
    DRV_TRY(ranks_together(&r->rank, made));
    DRV_TRY(comm_broadcast(comm_all_ranks(r->rank.comm), 0, dir, sizeof dir));
    ckpt_saver_free(r->saving.saver);
    r->saving.saver = NULL;
    r->saving.run_dir = arena_strdup(r->rank.a, dir);
    r->saving.checkpoints = path_join(r->rank.a, dir, "checkpoints");
    r->saving.saved_step = -1;
    r->saving.n_failed = 0;
    r->saving.state = SAVE_NONE;
    record_move(r->shown.record, dir);
    return DRV_OK;
}

// --- a save
drv_status run_start_save(run *r) {
    r->saving.began_s = clock_s();
    if (r->audit || r->progress.state.step == r->saving.saved_step ||
            (run_is_saving(r) && r->progress.state.step == r->saving.step))
        return DRV_OK;
    DRV_TRY(run_settle_save(r, true));
    DRV_TRY(run_check_dir(r));
    if (!r->saving.saver) open_saver(r);
    record_saving(r->shown.record);
    r->saving.blocked_s = 0;
    json_object_set_new(r->opened.about, "sets",
            set_counters_json(r->opened.train_rows, r->progress.set_counts,
                    r->progress.kept_counters));
    char *json = trainer_json_text(&r->progress.state, r->opened.about);
    r->saving.content.trainer_json = json;
    r->saving.step = r->progress.state.step;
    const drv_status status =
            ckpt_start(r->saving.saver, r->progress.state.step, &r->saving.content);
    free(json);
    if (status != DRV_OK) return note_result(r, status);
    r->saving.state = SAVE_RUNNING;
    return DRV_OK;
}

drv_status run_save_last(run *r) {
    DRV_TRY(run_settle_save(r, true));
    if (r->progress.state.step <= r->saving.saved_step || r->progress.state.step == 0)
        return DRV_OK;
    if (r->saving.n_failed < MIN_FAILED_SAVES - 1) r->saving.n_failed = MIN_FAILED_SAVES - 1;
    r->saving.failing_since_s = -HUGE_VAL; // there is no later interval that could try again
    DRV_TRY(run_start_save(r));
    return run_settle_save(r, true);
}
