// Lists the files of a data set or a model on the Hugging Face hub: drover data get
// hf:ORG/NAME[:CONFIG], drover model get hf:ORG/NAME.
#pragma once
#include "data/get/download.h"

typedef struct hub_opts {
    const char *endpoint; // https://huggingface.co, or HF_ENDPOINT
    const char *token;    // NULL: none
    const char *revision; // branch, tag or commit
    const char *out;      // folder of the files
    int tries;            // to get the list of files
} hub_opts;

// `spec`: ORG/NAME or ORG/NAME:CONFIG. The files that drover reads (text, JSON lines, Parquet);
// with a config those that it names in the data set's card, else those in a folder of its name.
DRV_CHECKED drv_status hub_list_data(arena *a, const char *spec, const hub_opts *o,
        download **files, int *n);
// `spec`: ORG/NAME or NAME. config.json, the weights in safetensors, or else in pytorch_model*.bin,
// and what there is of generation_config.json, the tokenizer's files and chat_template.jinja.
// DRV_E_DATA: there is no config.json, or neither kind of weights; the message lists the weights
// that there are.
DRV_CHECKED drv_status hub_list_model(arena *a, const char *spec, const hub_opts *o,
        download **files, int *n);
