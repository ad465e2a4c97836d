// The table of GPUs, and where CUDA's tools lie.
#include "backend/pjrt/gpu_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"

// Of a streaming multiprocessor (SM), bytes, GHz and bytes/s: NVIDIA's data sheets and tuning
// guides for Ampere, Hopper and Blackwell.
typedef struct gpu {
    const char *name, *description;
    int capability, n_sm, n_fpu; // fp32 units of an SM
    int shared_of_sm, shared_of_block;
    double clock_ghz;
    int64_t bandwidth, cache, memory;
    const char *feature;
} gpu;

static const gpu gpus[] = {{"a100", "NVIDIA A100-SXM4-80GB", 8, 108, 64, 167936, 166912, 1.41,
                                   2039040000000, 41943040, 85100068864, "NONE"},
        {"h100", "NVIDIA H100 80GB HBM3", 9, 132, 128, 233472, 232448, 1.98, 3352320000000,
                52428800, 85029158912, "ACCELERATED_FEATURES"},
        {"h200", "NVIDIA H200", 9, 132, 128, 233472, 232448, 1.98, 4800000000000, 52428800,
                151397597184, "ACCELERATED_FEATURES"},
        {"b200", "NVIDIA B200", 10, 148, 128, 233472, 232448, 1.965, 7672320000000, 132644864,
                191514411008, "ACCELERATED_FEATURES"}};
enum { N_GPUS = sizeof gpus / sizeof *gpus };

static const char *config_of(arena *a, const gpu *g) {
    return arena_printf(a,
            "gpu_device_info { threads_per_block_limit: 1024 threads_per_warp: 32 "
            "shared_memory_per_block: 49152 shared_memory_per_core: %d threads_per_core_limit: 2048 "
            "core_count: %d fpus_per_core: %d block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 "
            "block_dim_limit_z: 65535 memory_bandwidth: %lld l2_cache_size: %lld clock_rate_ghz: %g "
            "device_memory_size: %lld shared_memory_per_block_optin: %d cuda_compute_capability { "
            "major: %d feature_extension: %s } registers_per_core_limit: 65536 "
            "registers_per_block_limit: 65536 } platform_name: \"CUDA\" device_description_str: \"%s\"",
            g->shared_of_sm, g->n_sm, g->n_fpu, (long long)g->bandwidth, (long long)g->cache,
            g->clock_ghz, (long long)g->memory, g->shared_of_block, g->capability, g->feature,
            g->description);
}

drv_status gpu_target_config(arena *a, const char *wanted, const char **out) {
    const char *names[N_GPUS];
    for (int i = 0; i < N_GPUS; i++) {
        names[i] = gpus[i].name;
        if (strcmp(names[i], wanted) != 0) continue;
        *out = config_of(a, &gpus[i]);
        return DRV_OK;
    }
    const char *nearest = str_nearest(wanted, names, N_GPUS);
    return drv_fail(DRV_E_USAGE,
            "target \"cuda:%s\" is unknown, expected cuda:h200, h100, a100 or b200%s%s%s", wanted,
            nearest ? "; did you mean \"cuda:" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static bool has_tools(arena *a, const char *dir) {
    return file_exists(path_join(a, dir, "bin/ptxas")) &&
           file_exists(path_join(a, dir, "nvvm/libdevice/libdevice.10.bc"));
}

// Of a folder DIR/bin in PATH that holds ptxas: DIR. NULL: none.
static const char *tools_in_path(arena *a) {
    const char *rest = getenv("PATH");
    while (rest && *rest) {
        const size_t n = strcspn(rest, ":");
        const char *dir = path_join(a, arena_strndup(a, rest, n), "..");
        if (has_tools(a, dir)) return dir;
        rest += n + (rest[n] == ':');
    }
    return NULL;
}

drv_status cuda_tools_find(arena *a, const char *plugin_path, const char **dir) {
    const char *slash = strrchr(plugin_path, '/'), *home = getenv("CUDA_HOME");
    const char *beside = slash ? arena_strndup(a, plugin_path, (size_t)(slash - plugin_path)) : ".";
    // tools/fetch_pjrt.py; then as NVIDIA's packages lie beside jax's
    const char *places[] = {home && *home ? home : "/usr/local/cuda", path_join(a, beside, "tools"),
            path_join(a, beside, "../../nvidia/cu13"),
            path_join(a, beside, "../../nvidia/cuda_nvcc"), "/usr/local/cuda"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (has_tools(a, places[i])) {
            *dir = places[i];
            return DRV_OK;
        }
    *dir = tools_in_path(a);
    if (*dir) return DRV_OK;
    return drv_fail(DRV_E_DEVICE,
            "CUDA's ptxas and libdevice.10.bc are not there, expected DIR/bin/ptxas and "
            "DIR/nvvm/libdevice/libdevice.10.bc, DIR being CUDA_HOME, \"%s/tools\" or /usr/local/cuda; "
            "tools/fetch_pjrt.py cuda gets them",
            beside);
}
