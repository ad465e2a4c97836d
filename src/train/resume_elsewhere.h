// Begins a run with the state of another run, from a checkpoint of drover or of another trainer
// (model.weights: resume).
#pragma once
#include "train/trainer_json.h"
#include "weights/held_model.h"

// Reads only the counters of cfg->from.
DRV_CHECKED drv_status resume_elsewhere_counters(const run_config *cfg, bool say, run_state *state);
// Loads weights, master weights and moments of cfg->from, seeks the rows to that run's position,
// and sets the counters. `say`: logs the position, and fields that the checkpoint lacks or that
// differ. DRV_E_DATA: the checkpoint lacks state. DRV_E_USAGE: it has another optimizer's state.
DRV_CHECKED drv_status resume_elsewhere(const run_config *cfg, held_model *model, rows *train,
        bool say, run_state *state);
