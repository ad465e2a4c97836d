// drover tokenizer train.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status tokenizer_train(arena *a, const cli_args *args);
