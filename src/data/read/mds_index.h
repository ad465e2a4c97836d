// The folder of a MosaicML StreamingDataset: index.json lists its shards.
#pragma once
#include "data/read/inputs.h"

// Lists the shards of a folder that is such a data set, in the order of the index; a shard may be
// compressed or not. DRV_E_DATA: a shard is missing, or has another size than the index says.
DRV_CHECKED drv_status mds_index_files(arena *a, const char *folder, bool *is_mds,
        input_file **files, int *n);
