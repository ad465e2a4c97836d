// Joins the optimizer states of all ranks (optimizer_states.h) to tensors of a model.
#pragma once
#include "ckpt/foreign_state.h"
#include "ckpt/optimizer_states.h"

// Replaces the weights in j->m->tensors by the optimizers' state for them, and reads the progress
// of the run. DRV_E_DATA: there is no state, or its form does not identify the weights; the message
// says what to do.
DRV_CHECKED drv_status ranks_optimizer_read(rank_joining *j, foreign_progress *progress);
