// Runs `drover eval --choices FILE`.
#pragma once
#include "cli/cli.h"
#include "infer/scorer.h"

DRV_CHECKED drv_status eval_choices(arena *a, const cli_args *args, const scorer_opts *model);
