// Writes the logits at each position of a text to a file that numpy, PyTorch and others read.
#pragma once
#include "infer/score.h"

// Writes token_ids and logits of the first document of `docs`, truncated to the context, to a
// safetensors file. An existing file is not overwritten (DRV_E_USAGE).
DRV_CHECKED drv_status logits_write(arena *a, const score_opts *opts, const documents *docs,
        const char *path);
