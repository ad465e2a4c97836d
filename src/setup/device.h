// The back end that a config names, with what the config says of it.
#pragma once
#include "backend/backend.h"
#include "config/config.h"

// Returns the key that says which device it is, of a back end and the plugin that is named ("":
// none).
const char *device_key(const char *backend_name, const char *plugin);
// Opens the back end. DRV_E_DEVICE, DRV_E_USAGE: it cannot be opened; the message names the key.
DRV_CHECKED drv_status device_open(arena *a, const run_config *cfg, backend **out);
// Opens the back end of one of several processes.
DRV_CHECKED drv_status device_open_among(arena *a, const run_config *cfg, comm *c, backend **out);
// Open the devices of this process that a run uses, and a back end on one of them.
DRV_CHECKED drv_status device_open_pool(arena *a, const run_config *cfg, int n_devices,
        device_pool **out);
DRV_CHECKED drv_status device_open_of(arena *a, const run_config *cfg, device_pool *pool,
        int device, backend **out);
// Opens devices that need not be there, "cuda:h200", whatever back end the config names:
// programs are compiled and not run.
DRV_CHECKED drv_status device_open_targets(arena *a, const run_config *cfg, const char *target,
        int n_devices, device_pool **out);
// Returns how many devices a run takes: pjrt.devices, or as many as parallel.* asks for; 1 where
// the back end has no devices.
int device_count(const run_config *cfg);
// Returns the options of the back end by training.arithmetic, training.deterministic and the keys
// pjrt.*; they live as long as the config.
backend_opts device_opts(const run_config *cfg);
