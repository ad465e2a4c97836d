// The predicted and the measured time of a run's steps, both by the terms of step_cost.h.
#pragma once
#include "base/json.h"
#include "search/step_cost.h"

// Plans a run on the device that its config names, else on one with the given peak and the typical
// shares of it. `p`: the programs of this rank. *device: the profile. DRV_E_USAGE: there is no such
// device, or it has no products of the config's precision.
DRV_CHECKED drv_status step_terms_plan(arena *a, const run_config *cfg, const programs *p,
        double peak_flops, device_profile *device, step_cost *out);
// Divides a step of this rank into terms by the times of its nodes since
// backend_time_nodes(b, true). step_s: the seconds of the step without waiting for rows and
// checkpoints. Time in which no node ran is the bubble of a pipeline, else launches.
void step_terms_measure(const programs *p, double step_s, double out[N_STEP_TERMS]);
// Returns the terms as an object, {"products": seconds, ...}.
json_t *step_terms_json(const step_cost *cost);
