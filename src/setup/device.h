// Opens the back end that a config names, with the config's options for it.
#pragma once
#include "backend/backend.h"
#include "config/config.h"

// Returns the key that chooses the device, for a back end and the name of its plugin ("": none).
const char *device_key(const char *backend_name, const char *plugin);
// Opens the back end. DRV_E_DEVICE, DRV_E_USAGE: it cannot be opened; the message names the key.
DRV_CHECKED drv_status device_open(arena *a, const run_config *cfg, backend **out);
// Opens the back end of one of several processes.
DRV_CHECKED drv_status device_open_among(arena *a, const run_config *cfg, comm *c, backend **out);
// Open the devices that a run uses in this process, and a back end on one of them.
DRV_CHECKED drv_status device_open_pool(arena *a, const run_config *cfg, int n_devices,
        device_pool **out);
DRV_CHECKED drv_status device_open_of(arena *a, const run_config *cfg, device_pool *pool,
        int device, backend **out);
// Opens a target such as "cuda:h200", for which programs are compiled without the device and not
// run; ignores the config's back end.
DRV_CHECKED drv_status device_open_targets(arena *a, const run_config *cfg, const char *target,
        int n_devices, device_pool **out);
// Returns the number of devices of a run: pjrt.devices, or the number of ranks in parallel.*; 1 if
// the back end has no devices.
int device_count(const run_config *cfg);
// Returns the back end's options from training.arithmetic, training.deterministic and the keys
// pjrt.*; they live as long as the config.
backend_opts device_opts(const run_config *cfg);
