// Lists and removes the compiled programs on disk, for `drover compile`.
#pragma once
#include "cli/cli.h"

// Both take the folder from --cache DIR, else from the config, else the user's default.
DRV_CHECKED drv_status kept_list(arena *a, const cli_args *args);
DRV_CHECKED drv_status kept_evict(arena *a, const cli_args *args);
