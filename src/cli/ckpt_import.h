// drover ckpt import.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status ckpt_import(arena *mem, const cli_args *args);
