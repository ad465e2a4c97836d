// The card of a model on the hub: README.md, a YAML header in the hub's fields and a page. It says
// what the files beside it and their run directory know, and what the user has said; anything else
// is left out.
#pragma once
#include <stdbool.h>

#include "base/arena.h"

typedef struct card_facts {
    const char *folder, *repo;      // of the model, ORG/NAME
    const char *run_dir;            // in which it was trained; NULL: not known
    const char *base;               // as the config names it, or a name of the hub; "": not known
    const char *license, *language; // NULL: not known
    const char **datasets;          // names of the hub
    int n_datasets;
    bool is_adapter;
} card_facts;

// The text lives in `a`. A file that cannot be read is left out like one that is not there.
const char *model_card_text(arena *a, const card_facts *facts);
