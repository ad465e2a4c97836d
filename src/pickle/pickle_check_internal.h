// Checks a pickle's values after all have been read.
#pragma once
#include "pickle/pickle.h"

// DRV_E_DATA: a value contains itself, or values are nested more than `max_depth` deep.
DRV_CHECKED drv_status pickle_check(const char *path, pickle_value *root, int max_depth);
