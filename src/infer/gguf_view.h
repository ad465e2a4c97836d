// A GGUF file as a folder of a model, for readers that expect one: config.json, tokenizer and chat
// template as the file has them, beside a link to the file, which the weights are read from.
#pragma once
#include "base/arena.h"
#include "base/status.h"

// Makes the folder below $TMPDIR (/tmp), for this user alone. It is gone soon after this process
// has ended, however that ends. DRV_E_DATA: the file is not read, or has no tokenizer.
DRV_CHECKED drv_status gguf_view_make(arena *a, const char *file, const char **folder);
