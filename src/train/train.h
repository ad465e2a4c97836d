// The training loop.
#pragma once
#include "config/config.h"

// Trains as the config says, resuming the newest valid checkpoint of run_dir; `fresh`: at step 0,
// what earlier runs left there is moved aside. Signals are answered as docs/adr/0006 says:
// DRV_STOPPED when one ended the run before its last step.
// Under mpirun one rank has printed the message when this returns, and it is empty.
DRV_CHECKED drv_status train(arena *a, const run_config *config, bool fresh);
// The same of a replay in a directory of its own, whose steps are compared (audit.h). DRV_OK: up to
// training.stop_at_step.
struct audit;
DRV_CHECKED drv_status train_audited(arena *a, const run_config *config, struct audit *audit);
// Ends all ranks as train would, since the config of this rank is wrong, as drv_message() says.
DRV_CHECKED drv_status train_refuse(arena *a, drv_status status);
