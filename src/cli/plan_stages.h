// Prints the part of drover plan about a pipeline.
#pragma once
#include "base/json.h"
#include "search/stage_plans.h"

void plan_stages_print(const stage_plans *s);
json_t *plan_stages_json(const stage_plans *s);
