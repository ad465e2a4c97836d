// The arguments of a Megatron run, which its checkpoints keep, as config.json.
#pragma once
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "ckpt/foreign_state.h"
#include "pickle/pickle.h"

// `args`: an argparse.Namespace; NULL: there are none, and *out is NULL. The caller owns it.
// DRV_E_DATA: arguments of a model that is no Llama or relative; the message names the argument.
DRV_CHECKED drv_status megatron_args_config(const char *where, const pickle_value *args,
        json_t **out);

// Fills in what the top of a checkpoint's pickle says of where the run stood: of Megatron-LM
// (iteration, args, param_groups of the optimizer) or of Lightning (global_step, lr_schedulers, and
// its optimizer's). Other fields stay.
void megatron_progress(const pickle_value *top, foreign_progress *out);

// The way back: the pickle of what Megatron-Core keeps beside the tensors, in common.pt.
void megatron_common_put(str *out, const json_t *config, int64_t vocab_rows);

// Names that files of Megatron and of trainers that grew from it have in their pickles.
extern const pickle_name megatron_names[];
