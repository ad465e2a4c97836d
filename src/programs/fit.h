// Checks whether a run fits into the memory of this machine, before anything is allocated; if it
// does not, suggests settings that do.
#pragma once
#include "base/memory_limit.h"
#include "programs/programs.h"

// Plans the run without a device: the bytes by class that `drover train` would hold, without those
// of the process (process_bytes). The number of threads must be set (par_set_threads), since each
// needs scratch.
DRV_CHECKED drv_status fit_plan(const run_config *cfg, memory_plan *out);

// Finds keys that make the run fit, as "--set training.micro_batch_size=2 --set
// training.recompute=full": the change that costs least time; if none suffices, the lowest level of
// ZeRO that does; if none does, LoRA. NULL: nothing fits. Every suggestion has been planned. Lives
// in `a`.
DRV_CHECKED drv_status fit_suggest(arena *a, const run_config *cfg, const memory_limit *limit,
        const char **keys);

// Chooses the level for parallel.zero: auto: the lowest one, from cfg->zero on, with which a rank
// of each pipeline stage fits; if none fits, the highest possible one. `process`: bytes that a rank
// needs in addition to its plan, 0 on a device. *why describes the choice in one line, in `a`;
// NULL: the key gives the level, or there are no ranks to share with.
DRV_CHECKED drv_status fit_choose_zero(arena *a, run_config *cfg, const memory_limit *limit,
        int64_t process, const char **why);

// Plans the run. DRV_E_DEVICE: it needs more than limit->free; the message has settings that would
// fit. Does nothing for a back end with separate device memory (see programs_check_fit).
DRV_CHECKED drv_status fit_check(const run_config *cfg, const memory_limit *limit);

// Returns settings with which a run of cfg needs less memory, except those that it has already: "a
// smaller data.sequence_length or training.recompute full". Lives in `a`.
const char *fit_less(arena *a, const run_config *cfg);
