// Serves `data get`, `model get` and `model push`: the hub's address and token, and downloads with
// their report.
#pragma once
#include "cli/cli.h"
#include "data/get/hub.h"

#define CLI_FETCH                                                                                  \
    {"--revision", "NAME", "branch, tag or commit (default main)"},                                \
            {"--parallel", "N", "files at a time (default 8)"}, {                                  \
        "--tries", "N", "tries of a file that makes no progress (default 8)"                       \
    }

// Returns https://huggingface.co or HF_ENDPOINT, without a slash at its end.
const char *hub_endpoint(arena *a);
// Returns HF_TOKEN, or the token with which huggingface_hub has logged in (HF_TOKEN_PATH,
// HF_HOME/token); NULL: there is none.
const char *hub_token(arena *a);
// Fills `o` from the options above, HF_ENDPOINT and hub_token. `out`: the folder of the files.
DRV_CHECKED drv_status fetch_options(arena *a, const cli_args *args, const char *out, hub_opts *o);
// Downloads what is not there and logs how much that was.
DRV_CHECKED drv_status fetch_files(const hub_opts *o, const download *list, int n);
