// Continues a run from another run's checkpoint: sets its counters, and reports what differs.
#include "train/resume_elsewhere.h"

#include <math.h>

#include "base/log.h"
#include "source/foreign_state.h"
#include "train/schedule.h"
#include "weights/state.h"

#define MAX_ROWS       0x1p24 // rows of a step and tokens of a row, the limits of the config
#define RATE_TOLERANCE 1e-3   // relative: trainers compute in fp32 and print six digits

// Refuses the state of another optimizer: Muon keeps one momentum for a matrix, AdamW two moments.
static drv_status check_optimizer(const run_config *cfg, const model_source *s) {
    const bool theirs =
            model_source_find(s, "momentum_buffer.model.layers.0.mlp.down_proj.weight") != NULL;
    if (theirs == (cfg->optimizer != OPTIMIZER_ADAMW)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "\"%s\" has the state of %s, but optimizer.type is %s; give that run's, or model.weights: "
            "load, which begins at step 0",
            cfg->from, theirs ? "Muon" : "AdamW", optimizer_name(cfg->optimizer));
}

static drv_status read_progress(const run_config *cfg, foreign_progress *out) {
    arena *a = arena_new("progress");
    model_source s;
    drv_status status = model_source_open_optimizer(a, cfg->from, NULL, &s, out);
    if (status == DRV_OK) {
        status = check_optimizer(cfg, &s);
        model_source_close(&s);
    }
    arena_free(a);
    return status;
}

// Computes rows and tokens from the config if the checkpoint does not record them.
static drv_status set_counters(const run_config *cfg, const foreign_progress *p, bool say,
        run_state *out) {
    const double batch = (double)cfg->global_batch_size, steps = (double)p->step;
    const double taken = p->samples < 0 ? steps * batch : (double)p->samples;
    if (taken < steps || taken > steps * MAX_ROWS || taken > 0x1p53)
        return drv_fail(DRV_E_DATA,
                "\"%s\" is of step %lld and has taken %.0f samples, expected 1 to 2^24 a step",
                cfg->from, (long long)p->step, taken);
    *out = run_state_new();
    out->step = out->part_step = p->step;
    out->updates = p->updates;
    out->rows_taken = out->part_rows = (int64_t)taken;
    const double length = (double)cfg->sequence_length, most = taken * MAX_ROWS;
    const double tokens = p->tokens < 0 ? taken * length : (double)p->tokens;
    out->tokens = out->part_tokens = tokens <= most && tokens <= 0x1p53 ? (int64_t)tokens : 0;
    if (say && p->samples < 0)
        log_info("%s does not record the number of samples: %lld steps of training.global_batch_size %lld are assumed",
                cfg->from, (long long)p->step, (long long)cfg->global_batch_size);
    return DRV_OK;
}

// Warns if the learning rate jumps: the run continues with the schedule of its own config.
static void compare_rates(const run_config *cfg, const foreign_progress *p) {
    const double mine = schedule_lr(cfg, p->step + 1), theirs = p->learning_rate;
    if (isnan(theirs) || fabs(mine - theirs) <= RATE_TOLERANCE * fabs(theirs)) return;
    log_warn("%s continues with learning rate %g, but the schedule of the config has %g in step %lld: schedule, optimizer.lr or training.steps differ from that run's",
            cfg->from, theirs, mine, (long long)p->step + 1);
}

drv_status resume_elsewhere_counters(const run_config *cfg, bool say, run_state *state) {
    foreign_progress progress;
    DRV_TRY(read_progress(cfg, &progress));
    return set_counters(cfg, &progress, say, state);
}

// Each rank has read the checkpoint, which may be a copy on its own host. If a rank failed or read
// other counters, all ranks end before they load the state.
static drv_status agree_on_progress(const run_config *cfg, comm *c, drv_status status,
        const foreign_progress *mine) {
    DRV_TRY(comm_agree_on_first(c, status));
    foreign_progress first = *mine;
    DRV_TRY(comm_broadcast(comm_all_ranks(c), 0, &first, sizeof first));
    const bool same = mine->step == first.step && mine->updates == first.updates &&
                      mine->samples == first.samples;
    return comm_agree_on_first(c,
            same ? DRV_OK
                 : drv_fail(DRV_E_DATA,
                           "\"%s\" is of step %lld, %lld updates, %lld samples here, but of step %lld, "
                           "%lld updates, %lld samples on rank 0: all ranks need the same checkpoint",
                           cfg->from, (long long)mine->step, (long long)mine->updates,
                           (long long)mine->samples, (long long)first.step,
                           (long long)first.updates, (long long)first.samples));
}

drv_status resume_elsewhere(const run_config *cfg, held_model *model, rows *train, bool say,
        run_state *state) {
    foreign_progress progress = foreign_progress_unknown();
    drv_status status = read_progress(cfg, &progress);
    if (status == DRV_OK) status = set_counters(cfg, &progress, say, state);
    DRV_TRY(agree_on_progress(cfg, model->comm, status, &progress));
    DRV_TRY(state_load_resumed(model, cfg->from));
    rows_seek(train, state->rows_taken);
    if (!say) return DRV_OK;
    log_info("goes on from %s: step %lld, %lld updates, row %lld of the config's own order",
            cfg->from, (long long)state->step, (long long)state->updates,
            (long long)state->rows_taken);
    compare_rates(cfg, &progress);
    return DRV_OK;
}
