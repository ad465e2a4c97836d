// Derives the work of one layer on a rank from graphs of one and two layers, so that a search
// estimates layouts with any number of layers, stages and micro-batches without building their
// graphs.
#pragma once
#include "search/work.h"
#include "config/config.h"

// The parts of a layout that determine the shape of a layer on a rank.
typedef struct layer_key {
    int64_t tensor, context, micro_batch;
    recompute_mode recompute;
    bool sequence;
} layer_key;

typedef struct layer_work {
    work forward, backward;           // of a layer, for one micro-batch
    work ends_forward, ends_backward; // of embedding, output layer and loss
} layer_work;

typedef struct layer_works layer_works; // a cache by key

layer_works *layer_works_new(const run_config *cfg);
void layer_works_free(layer_works *all);
// Returns the work of a layer, which the first call computes; NULL: the layout is not possible. It
// lives as long as `all`.
const layer_work *layer_works_get(layer_works *all, const layer_key *key);
