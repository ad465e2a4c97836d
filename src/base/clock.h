// Time and memory of this process.
#pragma once
#include <stdint.h>
#include <time.h>

double clock_s(void);                        // monotonic seconds
double clock_utc_s(void);                    // seconds since 1970, with their fraction
struct timespec clock_after(double seconds); // CLOCK_REALTIME, for functions that wait until then
// The same by CLOCK_MONOTONIC, for conditions of cond_init_monotonic (base/task.h).
struct timespec monotonic_after(double seconds);
double clock_process_s(void);        // seconds since this process started
int64_t memory_peak_bytes(void);     // highest resident so far
int64_t memory_resident_bytes(void); // now; 0: /proc does not say
