// Reads files that contain only token ids: .bin of llm.c and modded-nanogpt, .npy of OLMo (no
// header) and of numpy.save (with one). docs/formats.md has the layouts.
#pragma once
#include "data/read/record_source.h"

// The options say the type of ids in an .npy file without a header; where they do not, it is
// checked that a file of uint16 does not look like uint32. DRV_E_DATA: the options take no ids, the
// file is of another format, or not as long as its header says; later: the file ends within an id,
// or before or after the count of its header.
DRV_CHECKED drv_status token_shard_open(const source_job *job, record_source *out);
