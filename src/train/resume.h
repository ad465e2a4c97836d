// Chooses the checkpoint that a run resumes from, and reports what changed since it was written.
#pragma once
#include "ckpt/ckpt.h"
#include "train/trainer_json.h"

// Chooses the newest valid checkpoint of the run, of a step below `below` (INT64_MAX: of any); NULL
// if none was ever completed, or none is below. DRV_E_DATA: there are checkpoints but none can be
// used; the message says why and what to do. All ranks choose the same.
DRV_CHECKED drv_status resume_choose(arena *a, const ckpt_ranks *ranks, const char *run_dir,
        int64_t below, const char **folder);
// Records in saved.json that the checkpoint of this step is in place, so that a later start detects
// if it is missing. Calls is_ours(ctx) right before it replaces the file (ckpt_saver_guard).
void resume_note_saved(const char *run_dir, int64_t step, drv_status (*is_ours)(void *ctx),
        void *ctx);

// Checks that the checkpoint's config.json (for a LoRA run base_config.json) describes the model of
// the config, and that both or neither are LoRA runs. DRV_E_USAGE names the field and both values.
// A field that changes neither a weight nor a result is only logged, if `say` is set.
DRV_CHECKED drv_status resume_check_model(const char *folder, const model_config *m, bool lora,
        bool say);

// Checks in `before`, the checkpoint's trainer.json, that its run had the config's optimizer.
// DRV_E_USAGE: it had another.
DRV_CHECKED drv_status resume_check_optimizer(const char *folder, const json_t *before,
        const run_config *cfg);

// Logs a line for each key that changed since the checkpoint was written, with its effect on the
// order of rows. `before` and `now` are objects made by trainer_about.
void resume_log_changes(const json_t *before, const json_t *now);

// Moves checkpoints, metrics, logs and configs of earlier runs to RUN_DIR/before-N.
DRV_CHECKED drv_status resume_move_aside(const char *run_dir);
// Writes config.yaml. An earlier one that differs is renamed to config.until-NNNNNN.yaml, where
// NNNNNN is the last step that was trained with it.
DRV_CHECKED drv_status resume_write_config(const run_config *cfg, int64_t step);
