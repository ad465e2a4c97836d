// The profile of this machine's own device, from a training step whose nodes were timed.
#pragma once
#include "base/str.h"
#include "search/device_profile.h"
#include "search/step_profile.h"

#define UNKNOWN_LINK 12.5e9 // bytes/s of links that were not measured

// Makes a profile of which a plan of the same step takes as long as the step did. roof: the peak of
// products and the rate of memory, measured (0: as the step's ops); memory_bytes: of a rank. Links
// are as measured between ranks; of one rank alone 12.5 GB/s.
device_profile device_profile_of_step(const step_profile *step, const machine_roof *roof,
        int64_t memory_bytes);
// Appends the profile as YAML that device_profile_read reads. source: of its figures.
void device_profile_print(const device_profile *d, const char *source, str *out);
