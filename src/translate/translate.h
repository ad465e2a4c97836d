// Another trainer's config, script or command line as a config of drover's, by the list of their
// keys (config/foreign_key.h). It is read and never run.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef struct data_counts {
    int64_t rows;   // of an epoch; the last one may be filled up
    int64_t tokens; // of all sets, also those that data.split leaves to evaluations
} data_counts;

typedef struct translate_opts {
    const char *kind; // "nxdt", "nemo-megatron", "args" or "axolotl"
    const char *const *files;
    int n_files;
    const char *const *words; // of a command line, or Hydra overrides
    int n_words;
    const char *const *sets; // "key=value" of drover's keys, which win
    int n_sets;
    const char *const *variables; // "NAME=VALUE": variables of scripts
    int n_variables;
    const char *const *accepts; // foreign names whose change of the result is accepted; "all"
    int n_accepts;
    int64_t ranks;    // 0: as the foreign config says
    const char *data; // prefix of the data set to train on; NULL: as the foreign config says
    // Counts what the data of the config that "key=value" settings make have.
    drv_status (*count_data)(const char *const *sets, int n_sets, data_counts *out);
} translate_opts;

// Writes the config, with the origin of each key as a comment, and what became of each foreign key:
// three lists for people. DRV_E_USAGE: the message says what is wrong or was not accepted; then
// `config` stays empty, and `report` has what is known.
DRV_CHECKED drv_status translate(arena *a, const translate_opts *opts, str *config, str *report);
