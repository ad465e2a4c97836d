// Opens checkpoints that consist of a file for each tensor and pipeline rank (rank_files.h) as
// sources: those of Megatron-LM, NeMo 1 and neuronx-nemo-megatron, NxD and NxD Training, Optimum
// Neuron.
#pragma once
#include "ckpt/foreign_state.h"

// `out` has the config_file that was given, if any.
DRV_CHECKED drv_status source_open_ranks(arena *a, const char *path, model_source *out);
// Opens the optimizer's tensors instead, and returns the progress of the run.
DRV_CHECKED drv_status source_open_ranks_optimizer(arena *a, const char *path, model_source *out,
        foreign_progress *progress);
