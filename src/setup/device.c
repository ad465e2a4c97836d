// Makes the options of a back end from keys of the config.
#include "setup/device.h"

#define GIB ((double)(1 << 30))

backend_opts device_opts(const run_config *cfg) {
    return (backend_opts){.portable = cfg->arithmetic == ARITHMETIC_PORTABLE,
            .plugin = cfg->pjrt.plugin,
            .flags = cfg->pjrt.flags,
            .n_flags = cfg->pjrt.n_flags,
            .nondeterministic = !cfg->deterministic,
            .memory_fraction = cfg->pjrt.memory_fraction,
            .give_up_s = cfg->pjrt.give_up_s,
            .cache_dir = cfg->pjrt.cache,
            .cache_max_bytes = (int64_t)(cfg->pjrt.cache_gib * GIB),
            .compile_jobs = (int)cfg->pjrt.compile_jobs,
            .compile_max_bytes = (int64_t)(cfg->pjrt.compile_gib * GIB)};
}

const char *device_key(const char *backend_name, const char *plugin) {
    return backend_caps_of(backend_name)->has_devices && plugin && *plugin ? "pjrt.plugin"
                                                                           : "backend";
}

drv_status device_open(arena *a, const run_config *cfg, backend **out) {
    return device_open_among(a, cfg, NULL, out);
}

drv_status device_open_among(arena *a, const run_config *cfg, comm *c, backend **out) {
    backend_opts opts = device_opts(cfg);
    if (c && comm_size(c) > 1) opts.cluster = c;
    const char *key = device_key(cfg->backend, opts.plugin);
    DRV_TRY_CTX(backend_open(a, cfg->backend, &opts, out), "%s: key \"%s\"", config_where(cfg, key),
            key);
    return DRV_OK;
}

int device_count(const run_config *cfg) {
    if (!config_backend(cfg)->has_devices) return 1;
    if (cfg->pjrt.devices > 0) return (int)cfg->pjrt.devices;
    return (int)(cfg->data_ranks * cfg->tensor_parallel * cfg->pipeline_parallel *
                 cfg->context_parallel);
}

drv_status device_open_pool(arena *a, const run_config *cfg, int n_devices, device_pool **out) {
    const backend_opts opts = device_opts(cfg);
    const char *key = device_key(cfg->backend, opts.plugin);
    DRV_TRY_CTX(device_pool_open(a, &opts, n_devices, out), "%s: key \"%s\"",
            config_where(cfg, key), key);
    return DRV_OK;
}

drv_status device_open_of(arena *a, const run_config *cfg, device_pool *pool, int device,
        backend **out) {
    backend_opts opts = device_opts(cfg);
    opts.pool = pool;
    opts.device = device;
    return backend_open(a, cfg->backend, &opts, out);
}

drv_status device_open_targets(arena *a, const run_config *cfg, const char *target, int n_devices,
        device_pool **out) {
    backend_opts opts = device_opts(cfg);
    opts.target = target;
    return device_pool_open(a, &opts, n_devices, out);
}
