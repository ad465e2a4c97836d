// The state of a run as checkpoint tensors.
#pragma once
#include "ckpt/ckpt.h"
#include "weights/held_model.h"

// Returns the ranks that load and save together; NULL: only this one.
const ckpt_ranks *state_ranks(const held_model *model, ckpt_ranks *out);
// Lists every Hugging Face parameter of the model, with its masters as source. A rank saves its
// share of the masters; `to_load`: lists the part of each weight that it needs instead, which is
// more where data ranks share the masters.
ckpt_tensor *state_model(arena *a, const held_model *model, bool to_load, int *n);
// Lists the low-rank branches in the same way, under PEFT's names.
ckpt_tensor *state_adapter(arena *a, const held_model *model, bool to_load, int *n);
// Lists both moments of every parameter that AdamW updates, the momentum of those that Muon
// updates, and for NorMuon the mean squares of their rows.
ckpt_tensor *state_optimizer(arena *a, const held_model *model, int *n);

// Lists the trained parameters as programs compute with them: copies rounded from the masters, if
// there are masters.
ckpt_tensor *state_used(arena *a, const held_model *model, int *n);
// Lists the gradients of the last update, which a run with training.hash_every keeps.
ckpt_tensor *state_gradients(arena *a, const held_model *model, int *n);

// Reads values of a source in these lists as fp32, converted from its type: a ckpt_read whose
// context is the held_model.
drv_status state_read_f32(void *ctx, const char *source, int64_t first, int64_t n, float *values);

// Loads the weights of any Hugging Face folder. DRV_E_DATA: they are not exactly those of the
// model.
DRV_CHECKED drv_status state_load_weights(held_model *model, const char *folder);
// Loads the same for a back end that holds only the compute copies (evaluation, generation).
DRV_CHECKED drv_status state_load_eval_weights(held_model *model, const char *folder);
// Loads the same into a sink of the caller, which may pass the values on to one of the sinks below.
// These write masters and compute copies, or compute copies alone, also those of an adapter.
DRV_CHECKED drv_status state_load_model(held_model *model, const char *folder,
        const ckpt_sink *sink);
ckpt_sink state_weight_sink(held_model *model);
ckpt_sink state_compute_sink(held_model *model);
// Loads the moments of a checkpoint of drover.
DRV_CHECKED drv_status state_load_moments(held_model *model, const char *folder);
// Loads weights and moments of a checkpoint of drover.
DRV_CHECKED drv_status state_load(held_model *model, const char *folder);
// Loads weights and moments of another run's checkpoint (source/foreign_state.h).
DRV_CHECKED drv_status state_load_resumed(held_model *model, const char *folder);
