// The state of the optimizers of all ranks, in the files of optimizer_states.h, as tensors of a
// model.
#pragma once
#include "ckpt/foreign_state.h"
#include "ckpt/optimizer_states.h"

// Replaces the weights in j->m->tensors by what the optimizers keep for them, and fills in what the
// checkpoint says of where the run stood. DRV_E_DATA: there is no such state, or a form that does
// not tell which weight is which; the message says what to do.
DRV_CHECKED drv_status ranks_optimizer_read(rank_joining *j, foreign_progress *progress);
