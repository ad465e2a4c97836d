// The training loop.
#pragma once
#include "config/config.h"

// Trains as the config says, from the newest valid checkpoint of run_dir; `fresh`: moves the files
// of earlier runs aside and begins at step 0. Signals are handled as docs/adr/0006 says:
// DRV_STOPPED if one ended the run before its last step.
// Under mpirun one rank has printed the message when this returns; the message is then empty.
DRV_CHECKED drv_status train(arena *a, const run_config *config, bool fresh);
// Replays a run in another directory and compares its steps (audit.h). DRV_OK: all steps up to
// training.stop_at_step are equal.
struct audit;
DRV_CHECKED drv_status train_audited(arena *a, const run_config *config, struct audit *audit);
// Ends all ranks as train would, because the config of this rank is wrong; drv_message() says why.
DRV_CHECKED drv_status train_refuse(arena *a, drv_status status);
