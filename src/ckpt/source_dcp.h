// Opens checkpoints of torch.distributed.checkpoint as sources: a folder with .metadata,
// weights/.metadata (NeMo 2) or pytorch_model_fsdp_0/.metadata (Accelerate). The names of the
// tensors are those of foreign_names.h.
#pragma once
#include "ckpt/foreign_state.h"

bool source_is_dcp(arena *a, const char *path);
// `out` has the config_file that was given, if any. `progress`: opens the optimizer's tensors, and
// sets the progress of the run; NULL: opens the weights.
DRV_CHECKED drv_status source_open_dcp(arena *a, const char *path, foreign_progress *progress,
        model_source *out);
