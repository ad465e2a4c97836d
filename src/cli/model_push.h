// drover model push.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status model_push(arena *a, const cli_args *args);
