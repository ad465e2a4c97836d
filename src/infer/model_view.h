// Presents a model in another format as a Hugging Face folder, for readers that expect one:
// config.json, tokenizer and chat template, made from the model, and links to its files, from which
// the weights are read.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

// Returns whether a path is such a model: a GGUF file, a file of torch.save, or a folder without
// config.json, such as Meta's own.
bool model_view_is_for(arena *a, const char *path);
// Makes the folder below $TMPDIR (/tmp), accessible to this user only. It is removed soon after
// this process ends, even if it is killed. DRV_E_DATA: drover does not read the model.
DRV_CHECKED drv_status model_view_make(arena *a, const char *path, const char **folder);
