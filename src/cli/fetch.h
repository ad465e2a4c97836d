// Serves `data get` and `model get`: their options, and downloads with a report.
#pragma once
#include "cli/cli.h"
#include "data/get/hub.h"

#define CLI_FETCH                                                                                  \
    {"--revision", "NAME", "branch, tag or commit (default main)"},                                \
            {"--parallel", "N", "files at a time (default 8)"}, {                                  \
        "--tries", "N", "attempts for a file that makes no progress (default 8)"                   \
    }

// Fills `o` from the options above, HF_ENDPOINT and hub_token. `out`: the folder of the files.
DRV_CHECKED drv_status fetch_options(arena *a, const cli_args *args, const char *out, hub_opts *o);
// Downloads what is not there and logs how much that was.
DRV_CHECKED drv_status fetch_files(const hub_opts *o, const download *list, int n);
