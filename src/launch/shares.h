// A local rank's share of the devices and cores of its node.
#pragma once
#include <sched.h>

#include "base/arena.h"
#include "base/status.h"

// Takes the part of place `local` of `n_ranks` from a list of devices, as in CUDA_VISIBLE_DEVICES
// ("0,1", "GPU-5f..") and NEURON_RT_VISIBLE_CORES ("0-31"): equal parts of consecutive devices.
// DRV_E_USAGE names the variable: it is not such a list, or n_ranks does not divide it.
DRV_CHECKED drv_status devices_share(arena *a, const char *variable, const char *list, int local,
        int n_ranks, const char **out);
// The same for cores: whole ones, with their hardware threads, in the order of packages. Empty if
// there are fewer cores than ranks.
void cores_share(const cpu_set_t *allowed, int local, int n_ranks, cpu_set_t *out);
