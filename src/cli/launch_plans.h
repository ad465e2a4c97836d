// Answers what node 0 of `drover launch node` asks of the config: layouts for fewer nodes, the rows
// of a step, the planned memory.
#pragma once
#include "config/config.h"
#include "launch/launch.h"

// cfg is that of the whole job; it must outlive the planner, which lives in `a`.
const launch_planner *launch_planner_new(arena *a, const run_config *cfg, int n_nodes, int ranks);
