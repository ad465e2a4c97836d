// Reads a folder that Hugging Face's datasets.save_to_disk wrote: Arrow files, and state.json,
// which lists them.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

// Lists its data files in the order of the rows. *is_saved is set to false for another kind of
// folder. Other files, such as the caches of map and filter (cache-*.arrow), are not data.
// DRV_E_DATA: the folder holds several splits, or its rows are reordered by an index.
DRV_CHECKED drv_status saved_dataset_files(arena *a, const char *folder, bool *is_saved,
        char ***paths, int *n);
