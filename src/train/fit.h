// Whether a run fits into the memory of this machine, told before anything is allocated; and if
// not, what would.
#pragma once
#include "base/memory_limit.h"
#include "train/programs.h"

// What the process holds beside the planned bytes: code and libraries, the measurement of the GEMM
// peak, thread stacks (measured on Zen 4: 78 to 92 MiB).
#define PROCESS_BYTES (110LL << 20)

// Plans the run without a device: bytes by class of what `drover train` would hold, beside
// PROCESS_BYTES. The number of threads must be set (par_set_threads), as each has its scratch.
DRV_CHECKED drv_status fit_plan(const run_config *cfg, memory_plan *out);

// Keys that make the run fit, as "--set training.micro_batch_size=2 --set training.recompute=full":
// the change that costs least time; a LoRA where nothing else is enough. NULL: that is not either.
// Each is really planned. Lives in `mem`.
DRV_CHECKED drv_status fit_suggest(arena *mem, const run_config *cfg, const memory_limit *limit,
        const char **keys);

// DRV_E_DEVICE, with what would fit, when the run needs more than limit->free.
DRV_CHECKED drv_status fit_check(const run_config *cfg, const memory_limit *limit);
