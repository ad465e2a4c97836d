// Parts of drover bench.
#pragma once
#include "backend/backend.h"
#include "cli/cli.h"
#include "config/config.h"

// Peaks of the two types, FLOP/s.
typedef struct bench_peaks {
    double f32, bf16;
} bench_peaks;

// The runs of each product, of which the fastest is the peak. Up to 4 are a quick look at one size.
enum { PEAK_TRIES = 8, LOOK_TRIES = 2 };

// Measures the peaks again and keeps the higher values.
DRV_CHECKED drv_status bench_raise_peaks(backend *b, int tries, bench_peaks *p);
// Loads the config that the arguments name, and sets the threads. Without a file: llama-135m, unless
// --set says otherwise.
DRV_CHECKED drv_status bench_load(arena *a, const cli_args *args, run_config *out);
