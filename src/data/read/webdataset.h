// Reads the samples of a WebDataset archive. A sample is a sequence of consecutive members whose
// names are equal up to the first dot. KEY.txt is a text, KEY.json an object with a text or, if the
// options take ids, an array of token ids; both may end in .gz. KEY.json is preferred to KEY.txt if
// the user named a key, and is read alone if lines of JSON are wanted.
#pragma once
#include "data/read/record_source.h"

// DRV_E_DATA, from the first sample on: the archive is broken.
DRV_CHECKED drv_status webdataset_open(const source_job *job, record_source *out);
