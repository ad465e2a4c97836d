// Selects the training data in a folder of a data set from the hub, which may have files of several
// splits and files about the data set, such as its card.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "data/read/inputs.h"

// Sets *out to the snapshot that is read of a folder of the hub's cache (refs/ and snapshots/), the
// one of refs/main or else the only one, and logs it; NULL: it is another folder. DRV_E_USAGE: it
// has several snapshots, and refs/main names none of them.
DRV_CHECKED drv_status hub_folder_snapshot(arena *a, const char *folder, const char **out);

// Removes files that are not training data from the list, and logs which: other splits, if file
// names show that there are several, and the data set's card and licence. A list whose file names
// contain no split stays unchanged.
void hub_folder_choose(const char *folder, input_file *files, int *n_files);
