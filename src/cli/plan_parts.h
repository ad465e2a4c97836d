// Prints parts of drover plan.
#pragma once
#include "base/json.h"
#include "search/device_plan.h"
#include "search/stage_plans.h"

void plan_stages_print(const stage_plans *s);
json_t *plan_stages_json(const stage_plans *s);
// Prints the terms of a step's time as a table, the advice, and the cost of `steps` steps.
void device_plan_print(const device_plan *d, int ranks, int64_t steps);
// Prints the terms that take more than a twentieth of a percent of the step.
void step_terms_print(const step_cost *cost);
