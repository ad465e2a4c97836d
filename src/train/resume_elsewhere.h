// Begins a run with the state of another one: its checkpoint, or another trainer's
// (model.weights: resume).
#pragma once
#include "train/trainer_json.h"
#include "weights/held_model.h"

// Reads the counters of cfg->from alone.
DRV_CHECKED drv_status resume_elsewhere_counters(const run_config *cfg, bool say, run_state *state);
// Loads weights, masters and moments of cfg->from, moves the rows to where that run stood, and sets
// the counters. `say`: tells where it goes on, and what the checkpoint does not say or has
// otherwise. DRV_E_DATA: the checkpoint lacks something. DRV_E_USAGE: it is of another optimizer.
DRV_CHECKED drv_status resume_elsewhere(const run_config *cfg, held_model *model, rows *train,
        bool say, run_state *state);
