// Sets the part of a job that follows from the config of its run.
#pragma once
#include "config/config.h"
#include "launch/jobs/job_spec.h"

// Loads spec->config with spec->sets, and sets the config's text, the run directory, the port for
// probes of its health and, for programs of the compile cache, a folder on the volume.
// `grace_by_saves`: sets the grace by the saves that the run has made here, if it has made any.
DRV_CHECKED drv_status job_read_config(arena *a, bool grace_by_saves, job_spec *spec,
        run_config *cfg);
