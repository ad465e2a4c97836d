// A checkpoint or a model in other files: the same tensors, bit for bit.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

// Model, and optimizer where there is one, in as few files as shard_bytes allows; all other files
// as they are; a new manifest where there was one. The result resumes as the original does.
// DRV_E_USAGE: as model_write_check.
DRV_CHECKED drv_status ckpt_consolidate(arena *a, const char *path, const char *out,
        int64_t shard_bytes, bool force);
