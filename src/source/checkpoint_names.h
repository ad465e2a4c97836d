// The names of a run's checkpoints: RUN_DIR/checkpoints/step-NNNNNN (ckpt/ckpt.h).
#pragma once
#include "base/arena.h"
#include "base/status.h"

// Lists the names "step-NNNNNN" in `dir`, oldest first; none if `dir` does not exist.
DRV_CHECKED drv_status ckpt_list(arena *a, const char *dir, char ***names, int *n);
// Returns NNNNNN of ".../step-NNNNNN"; -1 for another name.
int64_t ckpt_step_of(const char *path);
// For a run directory that is taken for a model returns what to name instead: "a run directory,
// expected ..."; NULL if the folder is not a run directory. Lives in `a`.
const char *ckpt_run_hint(arena *a, const char *folder);
