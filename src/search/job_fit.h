// Checks before a job's files are written that its nodes suit the layout of its config, and that
// each rank has the memory that its plan needs.
#pragma once
#include "config/config.h"
#include "launch/jobs/job_spec.h"

// Checks that one machine can compile the programs of the config. DRV_E_USAGE: its back end has
// nothing to compile, or its layout needs more devices.
DRV_CHECKED drv_status job_check_compile(const run_config *cfg, const job_spec *spec);
// Checks that the layout divides the ranks of the job and that the plan fits their memory, and sets
// *summary to these figures and the time of a step on their devices. DRV_E_USAGE: the layout does
// not divide the nodes (the message names the nearest numbers that it divides), or a rank needs
// more than its device or its share of a pod has (the message says what would fit). Changes *cfg to
// that of the rank that needs most.
DRV_CHECKED drv_status job_check_fit(arena *a, run_config *cfg, const job_spec *spec,
        const char **summary);
