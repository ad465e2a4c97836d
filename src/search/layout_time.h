// The time of a layout as its plan has it, without the plan: the work of stages of any number of
// layers, from graphs of a few.
#pragma once
#include "search/step_cost.h"

typedef struct layout_times layout_times; // work that is known; of the variants of one mesh

layout_times *layout_times_new(void);
void layout_times_free(layout_times *known);
// Makes the time of the layout of a config. It is that of a plan to the last digits where all
// layers of the model are alike. DRV_E_USAGE: the layout is not possible, or as step_cost_make.
DRV_CHECKED drv_status layout_time_make(layout_times *known, const run_config *cfg,
        const device_profile *device, step_cost *out);
