// Measures the profile of this machine for plans that name no other device.
#pragma once
#include "config/config.h"
#include "search/device_profile.h"

// Makes the profile of one rank that has all threads and the free memory of this machine, from a
// short step of a small model in the config's precision, which takes about half a second; if
// DROVER_PEAK_FLOPS is set, from that peak instead.
DRV_CHECKED drv_status host_profile(const run_config *cfg, device_profile *out);
