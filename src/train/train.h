// The training loop.
#pragma once
#include "config/config.h"

// Trains as the config says, resuming the newest valid checkpoint of run_dir. Returns DRV_OK too
// when SIGINT or SIGTERM stopped it after a step and a checkpoint.
DRV_CHECKED drv_status train(arena *a, const run_config *config);
