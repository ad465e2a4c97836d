// Parts of drover bench.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status bench_tokenizer(arena *a, const cli_args *args);
DRV_CHECKED drv_status bench_data(arena *mem, const cli_args *args);
