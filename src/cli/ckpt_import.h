// drover ckpt import.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status ckpt_import(arena *a, const cli_args *args);
