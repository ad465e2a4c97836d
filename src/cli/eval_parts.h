// Parts of drover eval with files of their own.
#pragma once
#include "cli/cli.h"
#include "infer/score.h"

// Runs `drover eval --choices FILE`.
DRV_CHECKED drv_status eval_choices(arena *a, const cli_args *args, const scorer_opts *model);
// Writes token_ids and logits of the first document of `docs`, cut at the context, as a safetensors
// file. An existing file is not overwritten (DRV_E_USAGE).
DRV_CHECKED drv_status eval_logits(arena *a, const score_opts *opts, const documents *docs,
        const char *path);
