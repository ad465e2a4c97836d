// The memory of a rank: of its device, or of its share of a host.
#include "search/rank_memory.h"

#include "setup/process_bytes.h"

drv_status rank_memory(arena *a, const run_config *cfg, const char *device, int ranks_here,
        memory_limit *out, int64_t *process) {
    const bool on_host = config_backend(cfg)->uses_host_memory;
    device_profile profile;
    *out = (memory_limit){.free = INT64_MAX};
    *process = 0;
    if (!device && on_host) {
        *out = memory_limit_read("");
        out->free /= ranks_here;
        *process = process_bytes(cfg);
        return DRV_OK;
    }
    if (!device) device = cfg->device;
    if (!*device) return DRV_OK;
    DRV_TRY_CTX(device_profile_read(a, device, &profile), "device \"%s\"", device);
    out->machine = out->free = profile.memory;
    out->what = arena_printf(a, "on %s", profile.name);
    return DRV_OK;
}
