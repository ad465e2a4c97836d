// The back end that a config names, with what the config says of it.
#pragma once
#include "backend/backend.h"
#include "config/config.h"

// DRV_E_DEVICE, DRV_E_USAGE: it cannot be opened; the message names the key.
DRV_CHECKED drv_status device_open(arena *a, const run_config *cfg, backend **out);
