// From keys of the config to options of a back end.
#include "train/device.h"

backend_opts device_opts(const run_config *cfg) {
    return (backend_opts){.plugin = cfg->pjrt.plugin,
            .flags = cfg->pjrt.flags,
            .n_flags = cfg->pjrt.n_flags,
            .memory_fraction = cfg->pjrt.memory_fraction,
            .cache_dir = cfg->pjrt.cache};
}

drv_status device_open(arena *a, const run_config *cfg, backend **out) {
    const backend_opts opts = device_opts(cfg);
    DRV_TRY_CTX(backend_open_with(a, cfg->backend, &opts, out), "%s: backend \"%s\"",
            config_where(cfg, "backend"), cfg->backend);
    return DRV_OK;
}

drv_status device_open_target(arena *a, const run_config *cfg, const char *target, backend **out) {
    backend_opts opts = device_opts(cfg);
    opts.target = target;
    return backend_open_with(a, "pjrt", &opts, out);
}
