// Estimates the memory of layouts from small models, which are planned like runs, and from the
// lifetimes in a pipeline's schedule.
#pragma once
#include "search/layout_candidates.h"

typedef struct layout_bytes layout_bytes; // a cache of the small models by the shape of their layers

layout_bytes *layout_bytes_new(const run_config *cfg);
void layout_bytes_free(layout_bytes *all);
// Returns the bytes of the rank that holds most, as programs_memory counts them; 0: the layout is
// not possible. `with` is the config with the candidate's ranks and micro-batch.
double layout_bytes_of(layout_bytes *all, const run_config *with, const layout_candidate *layout);
