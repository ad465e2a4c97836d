// Runs `drover eval --logits FILE`.
#pragma once
#include "infer/score.h"

// Writes token_ids and logits of the first document of `docs`, cut at the context, as a safetensors
// file. An existing file is not overwritten (DRV_E_USAGE).
DRV_CHECKED drv_status eval_logits(arena *a, const score_opts *opts, const documents *docs,
        const char *path);
