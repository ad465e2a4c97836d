// Tells what memory a rank of a run may take, before anything is opened.
#pragma once
#include "base/memory_limit.h"
#include "config/config.h"
#include "search/device_profile.h"

// device: a profile to plan for. NULL: where the run computes: a share of this host, which
// ranks_here ranks have, or the device whose profile the key `device` names. *process: bytes of the
// process that count beside its plan, 0 on a device. out->what is NULL if the memory is not known.
DRV_CHECKED drv_status rank_memory(arena *a, const run_config *cfg, const char *device,
        int ranks_here, memory_limit *out, int64_t *process);
