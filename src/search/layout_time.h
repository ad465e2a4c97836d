// Predicts the time of a layout without planning it: the work of a stage with any number of layers
// is derived from graphs of a few layers.
#pragma once
#include "search/step_cost.h"

typedef struct layout_times layout_times; // a cache of work for the variants of one mesh

layout_times *layout_times_new(void);
void layout_times_free(layout_times *known);
// Computes the time of a step in the layout of a config. If all layers of the model are alike, it
// differs from that of a plan in the last digits only. DRV_E_USAGE: the layout is not possible, or
// as step_cost_make.
DRV_CHECKED drv_status layout_time_make(layout_times *known, const run_config *cfg,
        const device_profile *device, step_cost *out);
