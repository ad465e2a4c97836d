// drover doctor --node: measures this node, or, under mpirun or srun, all nodes.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status doctor_node(arena *a, const cli_args *args);
