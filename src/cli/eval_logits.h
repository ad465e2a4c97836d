// `drover eval --logits FILE`.
#pragma once
#include "infer/score.h"

// Writes the logits of the first document of `docs`, as many tokens as the context holds, as a
// safetensors file: token_ids and logits. Something that lies there is not overwritten
// (DRV_E_USAGE).
DRV_CHECKED drv_status eval_logits(arena *a, const score_opts *opts, const documents *docs,
        const char *path);
