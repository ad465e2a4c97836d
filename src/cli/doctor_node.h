// drover doctor --node: this node, and under mpirun or srun all nodes beside each other.
#pragma once
#include "cli/cli.h"

DRV_CHECKED drv_status doctor_node(arena *a, const cli_args *args);
