// The verbs of ckpt that have a file of their own: import, export, merge, consolidate, show, and
// verify of two models.
#pragma once
#include "cli/cli.h"
#include "convert/compare.h"
#include "convert/convert.h"

DRV_CHECKED drv_status ckpt_import(arena *a, const cli_args *args); // ckpt_import.c
DRV_CHECKED drv_status ckpt_show(arena *a, const cli_args *args);   // ckpt_show.c
DRV_CHECKED drv_status ckpt_export(arena *a, const cli_args *args);
DRV_CHECKED drv_status ckpt_merge(arena *a, const cli_args *args);
DRV_CHECKED drv_status ckpt_consolidate_verb(arena *a, const cli_args *args);
// Reads --dtype, --max-shard-size and --force. `what`: the verb of ckpt.
DRV_CHECKED drv_status ckpt_read_options(const cli_args *args, const char *what,
        model_write_opts *opts);
// Compares the two models of `args`; takes --json.
DRV_CHECKED drv_status ckpt_compare(arena *a, const cli_args *args);
// Prints the differences of logits with their bounds; nothing if none were compared.
void ckpt_print_comparison(const comparison *c);
