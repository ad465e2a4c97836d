// Parts of drover bench.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status bench_tokenizer(arena *a, const cli_args *c);
DRV_CHECKED drv_status bench_data(arena *a, const cli_args *c);
