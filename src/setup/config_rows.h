// Opens the rows of the data sets that a config names.
#pragma once
#include "config/config.h"
#include "data/set/rows.h"

// Opens the rows to train on, or those of an evaluation (data.valid or the split). stride 0: the
// rows are made like those of training; else they are windows with as much context as fits in a row
// (piece_windows).
DRV_CHECKED drv_status config_open_rows(arena *a, const run_config *cfg, bool train, int64_t stride,
        rows **out);
