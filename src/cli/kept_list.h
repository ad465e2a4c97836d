// The compiled programs on disk, as `drover compile` lists and removes them.
#pragma once
#include "cli/cli.h"

// Both take --cache DIR, or the config that is named, or the user's folder.
DRV_CHECKED drv_status kept_list(arena *a, const cli_args *args);
DRV_CHECKED drv_status kept_evict(arena *a, const cli_args *args);
