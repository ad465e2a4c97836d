// A model as others wrote it as a folder, for readers that expect one: config.json, tokenizer and
// chat template as the model has them, beside links to its files, which the weights are read from.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

// Returns whether a path is of such a model: a GGUF file, a file of torch.save, a folder without
// config.json, as Meta's own.
bool model_view_is_for(arena *a, const char *path);
// Makes the folder below $TMPDIR (/tmp), for this user alone. It is gone soon after this process
// has ended, however that ends. DRV_E_DATA: the model is not read.
DRV_CHECKED drv_status model_view_make(arena *a, const char *path, const char **folder);
