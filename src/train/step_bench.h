// Times training steps on random tokens, and compares them with the peaks of this machine that are
// measured before and after: for drover bench step and bench device.
#pragma once
#include "search/step_time.h"
#include "train/ranks.h"

// The peaks of matrix products in the two types, FLOP/s.
typedef struct product_peaks {
    double f32, bf16;
} product_peaks;
// The runs of each product, of which the fastest is the peak. Up to 4 are a quick look at one size.
enum { PEAK_TRIES = 8, LOOK_TRIES = 2 };
// Measures the peaks again and keeps the higher values.
DRV_CHECKED drv_status product_peaks_raise(backend *b, int tries, product_peaks *p);

typedef struct step_bench {
    const programs *built;
    const char *model;
    int ranks;
    product_peaks peak;    // of a rank
    machine_roof roof;     // what products of the run's own type can reach, and memory
    step_times times;      // of this rank
    int64_t peak_rss;      // bytes: resident memory of this process until its last step
    step_profile *profile; // of its best step; NULL: not wanted
    // Sums over all ranks: what the model needs, and with what is computed again.
    double tokens, flops_per_s, all_flops_per_s, ratio, all_ratio;
} step_bench;

// Sets up this rank, in the layout of the config under mpirun or srun, else as the only rank, and
// times `repeats` steps. `profiled`: also profiles the best one, which needs a back end that runs
// op by op. `for_device`: DRV_E_USAGE for layouts whose times say nothing about the device.
DRV_CHECKED drv_status step_bench_run(this_rank *rank, run_config *cfg, int64_t repeats,
        bool profiled, bool for_device, step_bench *out);
