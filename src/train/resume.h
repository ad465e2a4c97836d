// Finds which checkpoint a run resumes from, and what has changed since it was written.
#pragma once
#include "ckpt/ckpt.h"
#include "train/trainer_json.h"

// Chooses the newest valid checkpoint of the run, of a step below `below` (INT64_MAX: of any); NULL
// when none was ever completed, or none is below. DRV_E_DATA when there were some and none can be
// used: says why and what to do. All ranks choose the same.
DRV_CHECKED drv_status resume_choose(arena *a, const ckpt_ranks *ranks, const char *run_dir,
        int64_t below, const char **folder);
// Notes that the checkpoint of this step is in place: so much a later start must find. Asked right
// before the note is put in the place of an older one: is_ours(ctx), as by ckpt_saver_guard.
void resume_note_saved(const char *run_dir, int64_t step, drv_status (*is_ours)(void *ctx),
        void *ctx);

// Checks that the checkpoint's config.json (of a LoRA run: base_config.json) describes the model of
// the config, and it is one of a LoRA run if the config is. DRV_E_USAGE names the field and both
// values; what bears on no weight and no product is only said, and only when `say`.
DRV_CHECKED drv_status resume_check_model(const char *folder, const model_config *m, bool lora,
        bool say);

// Checks that the checkpoint is of a run with the config's optimizer, as `before`, its
// trainer.json, says. DRV_E_USAGE: it is not.
DRV_CHECKED drv_status resume_check_optimizer(const char *folder, const json_t *before,
        const run_config *cfg);

// Says what is not as in the part before, a line for each, and what that means for the order of
// rows. `before` and `now` as trainer_about makes them.
void resume_say_changes(const json_t *before, const json_t *now);

// Moves checkpoints, metrics, logs and configs of earlier runs to RUN_DIR/before-N.
DRV_CHECKED drv_status resume_move_aside(const char *run_dir);
// Writes config.yaml; one of an earlier part that differs becomes config.until-NNNNNN.yaml, after
// the step that it led to.
DRV_CHECKED drv_status resume_write_config(const run_config *cfg, int64_t step);
