// Reads the samples of one shard of a MosaicML StreamingDataset (MDS version 2): the text or the
// token ids of one column, or several columns as a JSON object. Holds one sample and the offsets in
// memory.
#pragma once
#include "data/read/record_source.h"

// DRV_E_DATA: the header is not what it should be, or there is no such column; later: the shard is
// cut short, or its sizes do not fit each other.
DRV_CHECKED drv_status mds_shard_open(const source_job *job, record_source *out);
