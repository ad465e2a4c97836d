// Lists the files of a data set or a model on the Hugging Face hub: drover data get
// hf:ORG/NAME[:CONFIG], drover model get hf:ORG/NAME.
#pragma once
#include "data/get/download.h"

typedef struct hub_opts {
    http_link link;
    const char *revision; // branch, tag or commit
    const char *out;      // folder to write files to
} hub_opts;

// Returns whether the text can be the name of a repository, ORG/NAME.
bool hub_is_name(const char *text);
// `spec`: ORG/NAME or ORG/NAME:CONFIG. Lists the files that drover reads (text, JSON lines,
// Parquet, MDS, WebDataset, token ids). With a config: the files that the data set's card lists for
// it, else those in a folder of its name.
DRV_CHECKED drv_status hub_list_data(arena *a, const char *spec, const hub_opts *o,
        download **files, int *n);
// `spec`: ORG/NAME or NAME. Lists config.json, the weights in safetensors or else in
// pytorch_model*.bin, and, if they exist, generation_config.json, the tokenizer's files and
// chat_template.jinja. DRV_E_DATA: there is no config.json, or neither kind of weights; the message
// lists the weights that exist.
DRV_CHECKED drv_status hub_list_model(arena *a, const char *spec, const hub_opts *o,
        download **files, int *n);
