// A folder that datasets.save_to_disk of Hugging Face has made: Arrow files, and state.json, which
// names them.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

// Lists the paths of its data, in the order of its rows; *is_saved false: another kind of folder.
// Other files there, such as the caches of map and filter (cache-*.arrow), are not data.
// DRV_E_DATA: the folder holds several splits, or its rows are reordered by an index.
DRV_CHECKED drv_status saved_dataset_files(arena *a, const char *folder, bool *is_saved,
        char ***paths, int *n);
