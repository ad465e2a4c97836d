// Opens the optimizer state of a checkpoint, ours or another trainer's, so that a run can continue
// from it: its tensors, under the names of optimizer.safetensors (ckpt.h), and the progress of that
// run.
#pragma once
#include "source/model_source.h"

// The progress of a run when its checkpoint was written. A field that the checkpoint does not have
// is -1 or NaN.
typedef struct foreign_progress {
    int64_t step;         // optimizer steps done, skipped ones included
    int64_t updates;      // steps that were applied, AdamW's step count
    int64_t samples;      // rows of training data taken, over all ranks
    int64_t tokens;       // labels counted, over all ranks
    double learning_rate; // of the next step
} foreign_progress;
foreign_progress foreign_progress_unknown(void);

// Prefixes of a weight's name in optimizer.safetensors, like CKPT_MASTER: AdamW's, then those of
// Muon and NorMuon.
#define CKPT_EXP_AVG     "exp_avg."
#define CKPT_EXP_AVG_SQ  "exp_avg_sq."
#define CKPT_MOMENTUM    "momentum_buffer."
#define CKPT_ROW_SQUARES "second_momentum_buffer."

// Opens the optimizer's tensors of a checkpoint of ours or of another trainer as a source:
// exp_avg.NAME, exp_avg_sq.NAME and, if the run kept the weight in more bits than the model file,
// master.NAME. Shapes and rows are those of the weight NAME. `config_file` as in
// model_source_open_with. DRV_E_DATA: the checkpoint has no such state; the message says what is
// missing and what to do.
DRV_CHECKED drv_status model_source_open_optimizer(arena *a, const char *path,
        const char *config_file, model_source *out, foreign_progress *progress);
// Opens the weights for this state: the master weights, and for weights without one the model's.
DRV_CHECKED drv_status model_source_open_resumed(arena *a, const char *path, model_source *out);

// --- the readers of other trainers' checkpoints. `progress`: they open the optimizer's tensors,
// and set the progress of the run; NULL: they open the weights. `out` has the config_file that was
// given.
//
// A folder with .metadata, weights/.metadata (NeMo 2) or pytorch_model_fsdp_0/.metadata
// (Accelerate) of torch.distributed.checkpoint (source_dcp.c):
bool source_is_dcp(arena *a, const char *path);
DRV_CHECKED drv_status source_open_dcp(arena *a, const char *path, foreign_progress *progress,
        model_source *out);
// A file for each tensor and pipeline rank (rank_files.h), as Megatron-LM, NeMo 1,
// neuronx-nemo-megatron, NxD, NxD Training and Optimum Neuron write them (source_ranks.c):
DRV_CHECKED drv_status source_open_ranks(arena *a, const char *path, foreign_progress *progress,
        model_source *out);
