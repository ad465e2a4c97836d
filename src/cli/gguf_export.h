// drover ckpt export --gguf.
#pragma once
#include "cli/cli.h"
#include "convert/model.h"

// Writes a model as the GGUF file `out`. `type`: "f32", "f16", "bf16" or "q8_0"; NULL: the
// model's own.
DRV_CHECKED drv_status gguf_export(const model *m, const char *out, const char *type, bool force);
