// Checks whether a run fits into the memory of this machine, before anything is allocated; if it
// does not, suggests settings that do.
#pragma once
#include "base/memory_limit.h"
#include "programs/programs.h"

// Plans the run without a device: bytes by class of what `drover train` would hold, beside those of
// the process. The number of threads must be set (par_set_threads), as each has its scratch.
DRV_CHECKED drv_status fit_plan(const run_config *cfg, memory_plan *out);

// Finds keys that make the run fit, as "--set training.micro_batch_size=2 --set
// training.recompute=full": the change that costs least time; where that is not enough, the lowest
// level of ZeRO that is; a LoRA where nothing else is. NULL: nothing fits. Each suggestion was
// planned. Lives in `a`.
DRV_CHECKED drv_status fit_suggest(arena *a, const run_config *cfg, const memory_limit *limit,
        const char **keys);

// Chooses the level of parallel.zero: auto: the lowest, from cfg->zero on, with which a rank of
// each pipeline stage fits; if none does, the highest that is possible. `process`: bytes that a
// rank needs beside the plan, 0 on a device. *why: the choice in one line, in `a`; NULL: the key
// gives the level, or no ranks share anything.
DRV_CHECKED drv_status fit_choose_zero(arena *a, run_config *cfg, const memory_limit *limit,
        int64_t process, const char **why);

// Plans the run. DRV_E_DEVICE, with what would fit, when it needs more than limit->free. A back end
// that has a memory of its own is not looked at (programs_check_fit).
DRV_CHECKED drv_status fit_check(const run_config *cfg, const memory_limit *limit);

// Suggests to a run of cfg that is out of memory how to use less, as "a smaller
// data.sequence_length or training.recompute full": only what it does not do already. Lives in `a`.
const char *fit_less(arena *a, const run_config *cfg);
