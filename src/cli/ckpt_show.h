// drover ckpt show.
#pragma once
#include "cli/cli.h"

// Shows the tensors of a folder or a file; takes --key and --json.
DRV_CHECKED drv_status ckpt_show(arena *a, const cli_args *args);
