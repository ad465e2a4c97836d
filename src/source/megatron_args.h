// Converts the arguments of a Megatron run, which its checkpoints contain, to config.json.
#pragma once
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "source/foreign_state.h"
#include "pickle/pickle.h"

// `args`: an argparse.Namespace; NULL: there are none, and *out is NULL. The caller owns it.
// DRV_E_DATA: the model is not a Llama or one of its relatives; the message names the argument.
// *out is also NULL if the arguments do not describe the model, as of a run with a list of layers
// without rotary embedding.
DRV_CHECKED drv_status megatron_args_config(const char *where, const pickle_value *args,
        json_t **out);

// Reads the progress of the run from the top level of a checkpoint's pickle, as Megatron-LM writes
// it (iteration, args, param_groups of the optimizer) or Lightning (global_step, lr_schedulers,
// optimizer states). Other fields stay unchanged.
void megatron_progress(const pickle_value *top, foreign_progress *out);

// Writes the pickle of common.pt, which Megatron-Core stores with the tensors. `config`: with all
// fields, in the names of transformers 4.
void megatron_common_put(str *out, const json_t *config, int64_t vocab_rows);

// Returns whether Megatron-Core computes this rope_scaling of type llama3: it has no arguments for
// most of its fields.
bool megatron_can_scale(const json_t *rope);

// The names that pickles of Megatron and of trainers derived from it may contain.
extern const pickle_name megatron_names[];
