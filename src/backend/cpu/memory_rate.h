// Measures the memory bandwidth beyond caches: besides the peak of products, the other limit of an
// op's speed.
#pragma once
#include "base/status.h"
#include "kernels/kernels.h"

// Sets *bytes_per_s to the highest of `tries` rates of two walks over more memory than caches hold,
// on all threads: reading alone, and sums += x, which reads twice and writes once, as the optimizer
// does. Fails with DRV_E_DEVICE where there is not so much memory (128 MiB, or 32 MiB a thread).
DRV_CHECKED drv_status memory_rate_measure(const kernels *by, int tries, double *bytes_per_s);
