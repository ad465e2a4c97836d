// Computes the reference's log-probabilities of the responses, for a run that trains on preference
// pairs. The reference is the initial model of the run, for a LoRA run its base. Its
// log-probabilities are computed once and stored next to the data, under a hash of that model.
#pragma once
#include "train/run.h"

// Computes the hash of the run's present model, as a text in r->a: for a LoRA run the hash of the
// base as rounded by model.base_dtype, else of all weights. It is the same in any layout. Every
// rank calls it.
DRV_CHECKED drv_status references_model(run *r, const char **out);
// Loads the values stored for `model` into the rows of the run. *found false: there are none, and
// rank 0 has logged why if a file exists. Every rank calls it.
DRV_CHECKED drv_status references_read(run *r, const char *model, bool *found);
// Computes missing values with the run's present model and stores them. If the folder cannot be
// written it logs a warning, and they are computed again at the next start. `say`: also warn of
// unusable files.
DRV_CHECKED drv_status references_compute(run *r, const char *model, bool say);
