// Measures the profile of this machine for plans that name no other device.
#pragma once
#include "config/config.h"
#include "search/device_profile.h"

// Makes the profile of one rank that has all threads of this machine and what memory is free, from
// a short step of a small model in the config's precision, which takes about half a second; where
// DROVER_PEAK_FLOPS is set, from that peak.
DRV_CHECKED drv_status host_profile(const run_config *cfg, device_profile *out);
