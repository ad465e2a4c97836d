// Time and memory of this process.
#pragma once
#include <stdint.h>
#include <time.h>

double clock_s(void);     // seconds by CLOCK_MONOTONIC
double clock_utc_s(void); // seconds since 1970, with their fraction
// The time in so many seconds by CLOCK_REALTIME, for functions that wait until such a time.
struct timespec clock_after(double seconds);
// The same by CLOCK_MONOTONIC, for conditions of cond_init_monotonic (base/task.h).
struct timespec monotonic_after(double seconds);
double clock_process_s(void);        // seconds since this process started; 0: /proc does not say
int64_t memory_peak_bytes(void);     // the largest resident size so far
int64_t memory_resident_bytes(void); // the resident size now; 0: /proc does not say
