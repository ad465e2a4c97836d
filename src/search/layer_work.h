// The work of one layer on a rank, from graphs of one and two layers: from it a search
// estimates layouts of any number of layers, stages and micro-batches without building them.
#pragma once
#include "search/work.h"
#include "config/config.h"

// The shape of a layer on a rank, beside the model.
typedef struct layer_key {
    int64_t tensor, context, micro_batch;
    recompute_mode recompute;
    bool sequence;
} layer_key;

typedef struct layer_work {
    work forward, backward;           // of a layer, for one micro-batch
    work ends_forward, ends_backward; // of embedding, output layer and loss
} layer_work;

typedef struct layer_works layer_works; // those that were asked for, by key

layer_works *layer_works_new(const run_config *cfg);
void layer_works_free(layer_works *all);
// Returns the work of a layer, built when it is asked for first; NULL: there is no such layout. It
// lives as long as `all`.
const layer_work *layer_works_get(layer_works *all, const layer_key *key);
