// Functions on a data set that the files of this folder share; other folders do not use them.
#pragma once
#include "data/set/dataset.h"

// Opens and checks PREFIX.roles. `about` must have been read.
DRV_CHECKED drv_status dataset_open_roles(arena *a, dataset *set);
// Reads n tokens in the type of the file, n * type.bytes bytes.
DRV_CHECKED drv_status dataset_read_bytes(const dataset *set, int64_t first, int64_t n, void *out);
// Returns the error for a token that is not in [0, n_vocab), or for an index that has become
// shorter.
drv_status dataset_bad_token(const dataset *set, int64_t token, int64_t id, int64_t n_vocab);
