// Options and output that import, export and merge of drover ckpt share.
#pragma once
#include "ckpt/gguf_writer.h"
#include "cli/cli.h"
#include "convert/convert.h"
#include "convert/model.h"

// Reads --dtype, --max-shard-size and --force. `what`: the verb of ckpt.
DRV_CHECKED drv_status ckpt_read_options(const cli_args *args, const char *what,
        model_write_opts *opts);
// Prints the differences of logits with their bounds; nothing if none were compared.
void ckpt_print_comparison(const comparison *c);

// `type`: "f32", "f16", "bf16", "q8_0" or "q4_k"; NULL: the model's own. `what`: the verb of ckpt.
DRV_CHECKED drv_status gguf_export_opts(const char *what, const char *type, bool force,
        gguf_write_opts *out);
// Writes a model to the GGUF file `out`, which will have the name `named`.
DRV_CHECKED drv_status gguf_export(const model *m, const char *out, const char *named,
        const gguf_write_opts *opts);
