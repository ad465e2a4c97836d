// Checkpoints that each tensor and pipeline rank wrote a file of, as sources (rank_files.h): of
// Megatron-LM, NeMo 1 and neuronx-nemo-megatron, NxD and NxD Training, Optimum Neuron.
#pragma once
#include "ckpt/foreign_state.h"

// `out` has the config_file that was given, if any.
DRV_CHECKED drv_status source_open_ranks(arena *a, const char *path, model_source *out);
// The optimizer's tensors instead, and where the run stood.
DRV_CHECKED drv_status source_open_ranks_optimizer(arena *a, const char *path, model_source *out,
        foreign_progress *progress);
