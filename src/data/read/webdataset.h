// The samples of a WebDataset archive: members that follow each other and have one name up to the
// first dot. KEY.txt is a text, KEY.json an object with a text, or, where the options take ids, an
// array of token ids; both also with .gz. KEY.json comes before KEY.txt where the user named a key,
// and counts alone where lines of JSON are wanted.
#pragma once
#include "data/read/record_source.h"

// Later DRV_E_DATA: the archive is broken.
DRV_CHECKED drv_status webdataset_open(const source_job *job, record_source *out);
