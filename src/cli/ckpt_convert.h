// Options and output that import, export and merge of drover ckpt share.
#pragma once
#include "cli/cli.h"
#include "convert/convert.h"

// Finds the newest checkpoint of a run directory or config. Any other name is passed on as it is,
// so that the reader of models can say what is wrong with it.
DRV_CHECKED drv_status ckpt_find(arena *a, const char *name, const char **path);
// Reads --dtype, --max-shard-size and --force. `what`: the verb of ckpt.
DRV_CHECKED drv_status ckpt_read_options(const cli_args *args, const char *what,
        model_write_opts *opts);
// Prints the result of an import, an export or a merge that ended with `status`, and returns it.
// `type`: the name of the weights' type; NULL: that of the result.
drv_status ckpt_print_result(drv_status status, const char *out, const char *type,
        const convert_result *r);
