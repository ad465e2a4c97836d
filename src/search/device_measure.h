// Derives the profile of this machine's device from a training step whose nodes were timed.
#pragma once
#include "base/str.h"
#include "search/device_profile.h"
#include "search/step_profile.h"

#define UNKNOWN_LINK 12.5e9 // bytes/s of links that were not measured

// Makes a profile with which the plan of the same step predicts its measured time. roof: the
// measured peak of products and memory bandwidth (0: taken from the step's ops); memory_bytes: the
// memory of a rank. Link speeds are those measured between ranks; with one rank 12.5 GB/s.
device_profile device_profile_of_step(const step_profile *step, const machine_roof *roof,
        int64_t memory_bytes);
// Appends the profile as YAML that device_profile_read reads. source: the origin of its figures.
void device_profile_print(const device_profile *d, const char *source, str *out);
