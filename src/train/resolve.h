// Which folder holds the weights that a person means.
#pragma once
#include "base/arena.h"
#include "base/status.h"

// `name` is a Hugging Face folder (a checkpoint is one), a run directory, its checkpoints/ or a
// config: of a run the newest valid checkpoint is taken, and log_info says which.
DRV_CHECKED drv_status ckpt_resolve(arena *a, const char *name, const char **folder);
// The newest valid checkpoint of a run directory. DRV_E_DATA: there is none.
DRV_CHECKED drv_status ckpt_of_run(arena *a, const char *run_dir, const char **folder);
