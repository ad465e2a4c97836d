// A local rank's share of what its node has.
#pragma once
#include <sched.h>

#include "base/arena.h"
#include "base/status.h"

// Takes the part of a list of devices, as CUDA_VISIBLE_DEVICES ("0,1", "GPU-5f..") and
// NEURON_RT_VISIBLE_CORES ("0-31") have it, for place `local` of `n_ranks`: as many each, neighbours
// together. DRV_E_USAGE names the variable: it is no such list, or n_ranks does not divide it.
DRV_CHECKED drv_status devices_share(arena *a, const char *variable, const char *list, int local,
        int n_ranks, const char **out);
// The same of cores: whole ones, with their hardware threads, in the order of packages. Empty where
// there are fewer cores than ranks.
void cores_share(const cpu_set_t *allowed, int local, int n_ranks, cpu_set_t *out);
