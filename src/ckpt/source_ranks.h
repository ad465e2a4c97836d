// Opens checkpoints that consist of a file for each tensor and pipeline rank (rank_files.h) as
// sources: those of Megatron-LM, NeMo 1 and neuronx-nemo-megatron, NxD and NxD Training, Optimum
// Neuron.
#pragma once
#include "ckpt/foreign_state.h"

// `out` has the config_file that was given, if any. `progress`: opens the optimizer's tensors, and
// sets the progress of the run; NULL: opens the weights.
DRV_CHECKED drv_status source_open_ranks(arena *a, const char *path, foreign_progress *progress,
        model_source *out);
