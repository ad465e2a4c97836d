// Options and output that import, export and merge of drover ckpt share.
#pragma once
#include "cli/cli.h"
#include "convert/convert.h"

// Reads --dtype, --max-shard-size and --force. `what`: the verb of ckpt.
DRV_CHECKED drv_status ckpt_read_options(const cli_args *args, const char *what,
        model_write_opts *opts);
// Prints the differences of logits with their bounds; nothing if none were compared.
void ckpt_print_comparison(const comparison *c);
