// Writes the card of a model for the hub: README.md, a YAML header with the hub's fields and a page
// of text. It contains only facts from the model's folder, its run directory and the user's
// options.
#pragma once
#include <stdbool.h>

#include "base/arena.h"

typedef struct card_facts {
    const char *folder, *repo;      // of the model; ORG/NAME
    const char *run_dir;            // of the training; NULL: not known
    const char *base;               // as the config names it, or its name on the hub; "": not known
    const char *license, *language; // NULL: not known
    const char **datasets;          // names on the hub
    int n_datasets;
    bool is_adapter;
} card_facts;

// Returns the text, which lives in `a`. Ignores files that are missing or cannot be read.
const char *model_card_text(arena *a, const card_facts *facts);
