// The state of a run as checkpoint tensors.
#pragma once
#include "ckpt/ckpt.h"
#include "weights/held_model.h"

// Returns the ranks that load and save together; NULL: this one is alone.
const ckpt_ranks *state_ranks(const held_model *model, ckpt_ranks *out);
// Lists every Hugging Face parameter of the model, read from the masters. to_load: what this rank
// needs of it, which is more than its share of what is saved where data ranks share masters.
ckpt_tensor *state_model(arena *a, const held_model *model, bool to_load, int *n);
// Lists the same of its low-rank branches, under PEFT's names.
ckpt_tensor *state_adapter(arena *a, const held_model *model, bool to_load, int *n);
// Lists both moments of every parameter that AdamW trains, the momentum of those that Muon does,
// and NorMuon's mean squares of their rows.
ckpt_tensor *state_optimizer(arena *a, const held_model *model, int *n);

// Lists what is trained, as programs compute with it: rounded copies of masters where there are
// some.
ckpt_tensor *state_used(arena *a, const held_model *model, int *n);
// Lists the gradients of the last update, of every parameter that is trained, where the run keeps
// them (training.hash_every).
ckpt_tensor *state_gradients(arena *a, const held_model *model, int *n);

// Reads fp32 values of what the tensors above name, whatever type it is kept in: a ckpt_read, of
// the programs.
drv_status state_read_f32(void *ctx, const char *source, int64_t first, int64_t n, float *values);

// Loads the weights of any Hugging Face folder. DRV_E_DATA: they are not exactly those of the
// model.
DRV_CHECKED drv_status state_load_weights(held_model *model, const char *folder);
// Loads the same for a back end that holds only the compute copies (evaluation, generation).
DRV_CHECKED drv_status state_load_eval_weights(held_model *model, const char *folder);
// Loads the same by a sink of the caller's, perhaps before one of these: into masters and compute
// copies, or into compute copies alone. They take tensors of the adapter as well.
DRV_CHECKED drv_status state_load_model(held_model *model, const char *folder,
        const ckpt_sink *sink);
ckpt_sink state_weight_sink(held_model *model);
ckpt_sink state_compute_sink(held_model *model);
// Loads the moments of a checkpoint of ours.
DRV_CHECKED drv_status state_load_moments(held_model *model, const char *folder);
// Loads weights and moments of a checkpoint of ours.
DRV_CHECKED drv_status state_load(held_model *model, const char *folder);
// Loads weights and moments of another run's checkpoint (ckpt/foreign_state.h).
DRV_CHECKED drv_status state_load_resumed(held_model *model, const char *folder);
