// Translates another trainer's config, script or command line to a config of drover, by the list of
// foreign keys (config/foreign_key.h). Scripts are read and never run.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef struct data_counts {
    int64_t rows;   // of an epoch; the last one may be padded
    int64_t tokens; // of all data sets, including the part that data.split gives to evaluations
} data_counts;

typedef struct translate_opts {
    const char *kind; // "nxdt", "nemo-megatron", "args" or "axolotl"
    const char *const *files;
    int n_files;
    const char *const *words; // words of a command line, or Hydra overrides
    int n_words;
    const char *const *sets; // "key=value" of drover's keys, which override the translation
    int n_sets;
    const char *const *variables; // "NAME=VALUE": variables of scripts
    int n_variables;
    const char *const *accepts; // foreign keys that may change the result; "all": any
    int n_accepts;
    int64_t ranks;    // 0: those of the foreign config
    const char *data; // prefix of the data set to train on; NULL: that of the foreign config
    // Counts the data of the config that the "key=value" settings make.
    drv_status (*count_data)(const char *const *sets, int n_sets, data_counts *out);
} translate_opts;

// Writes the config, with the origin of each key as a comment, and the report for people, three
// lists with the outcome of each foreign key. DRV_E_USAGE: a key is wrong or was not accepted; then
// `config` is empty, and `report` has the outcomes so far.
DRV_CHECKED drv_status translate(arena *a, const translate_opts *opts, str *config, str *report);
