// Finds the memory that a rank of a run may use, before anything is opened.
#pragma once
#include "base/memory_limit.h"
#include "config/config.h"
#include "search/device_profile.h"

// device: a profile to plan for. NULL: the run's own device, which is the share of this host that
// each of ranks_here ranks has, or the device whose profile the key `device` names. *process: bytes
// of the process in addition to its plan, 0 on a device. out->what is NULL if the memory is not
// known.
DRV_CHECKED drv_status rank_memory(arena *a, const run_config *cfg, const char *device,
        int ranks_here, memory_limit *out, int64_t *process);
