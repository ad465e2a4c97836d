// Divides the tensors of a checkpoint or a model among other files, bit for bit.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

// Writes the model, and the optimizer if there is one, in as few files as shard_bytes allows,
// copies all other files, and writes a new manifest if there was one. A run resumes from the result
// as from the original. DRV_E_USAGE as in model_write_check.
DRV_CHECKED drv_status ckpt_consolidate(arena *a, const char *path, const char *out,
        int64_t shard_bytes, bool force);
