// Computes the log-probabilities that the reference of a run that learns from pairs gives to their
// responses. The reference is the model with which the run began, of a LoRA run its base. Its
// log-probabilities are computed once and kept beside the data, under a hash of that model.
#pragma once
#include "train/run.h"

// Makes the hash of the model that the run holds now, as a text in r->a: of the base of a LoRA run
// and of what model.base_dtype rounds it to, else of all weights; the same on any layout. Every
// rank calls it.
DRV_CHECKED drv_status references_model(run *r, const char **out);
// Lets the rows of the run have the values that lie beside the data for `model`. *found false: they
// do not, and rank 0 has said why where a file is there. Every rank calls it.
DRV_CHECKED drv_status references_read(run *r, const char *model, bool *found);
// Computes those that are missing with the model that the run holds, and keeps them. A folder that
// cannot be written is warned of: they are computed again at the next start. `say`: also of files
// that are of no use.
DRV_CHECKED drv_status references_compute(run *r, const char *model, bool say);
