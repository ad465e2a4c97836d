// What a data set on the Hugging Face hub is made of: drover data get hf:ORG/NAME[:CONFIG].
#pragma once
#include "data/get/download.h"

typedef struct hub_opts {
    const char *endpoint; // https://huggingface.co, or HF_ENDPOINT
    const char *token;    // HF_TOKEN; NULL: none
    const char *revision; // branch, tag or commit
    const char *out;      // folder of the files
} hub_opts;

// `spec`: ORG/NAME or ORG/NAME:CONFIG. The files that drover reads (text, JSON lines, Parquet);
// with a config those that it names in the data set's card, else those in a folder of its name.
DRV_CHECKED drv_status hub_list(arena *a, const char *spec, const hub_opts *o, download **files,
        int *n);
