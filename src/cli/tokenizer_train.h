// drover tokenizer train.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status tokenizer_train(arena *a, const cli_args *args);
// --threads; for all verbs of drover tokenizer.
DRV_CHECKED drv_status tokenizer_set_threads(const cli_args *args);
