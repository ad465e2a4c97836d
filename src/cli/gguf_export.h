// The option --gguf of ckpt export and ckpt merge.
#pragma once
#include "ckpt/gguf_writer.h"
#include "cli/cli.h"
#include "convert/model.h"

// `type`: "f32", "f16", "bf16", "q8_0" or "q4_k"; NULL: the model's own. `what`: the verb of ckpt.
DRV_CHECKED drv_status gguf_export_opts(const char *what, const char *type, bool force,
        gguf_write_opts *out);
// Writes a model to the GGUF file `out`, which will have the name `named`.
DRV_CHECKED drv_status gguf_export(const model *m, const char *out, const char *named,
        const gguf_write_opts *opts);
