// The table of GPUs, and the search for CUDA's tools.
#include "backend/pjrt/runtime/gpu_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"

// Figures of a streaming multiprocessor (SM), bytes, GHz and bytes/s: NVIDIA's data sheets and
// tuning guides for Ampere, Hopper and Blackwell.
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
            "registers_per_block_limit: 65536 } platform_name: \"CUDA\" runtime_version { major: 13 } device_description_str: \"%s\"",
            g->shared_of_sm, g->n_sm, g->n_fpu, (long long)g->bandwidth, (long long)g->cache,
            g->clock_ghz, (long long)g->memory, g->shared_of_block, g->capability, g->feature,
            g->description);
}

drv_status gpu_target_find(arena *a, const char *wanted, gpu_target *out) {
    const char *names[N_GPUS];
    for (int i = 0; i < N_GPUS; i++) {
        names[i] = gpus[i].name;
        if (strcmp(names[i], wanted) != 0) continue;
        *out = (gpu_target){.config = config_of(a, &gpus[i]),
                .description = gpus[i].description,
                .capability = 10 * gpus[i].capability,
                .memory = gpus[i].memory};
        return DRV_OK;
    }
    const char *nearest = str_nearest(wanted, names, N_GPUS);
    return drv_fail(DRV_E_USAGE,
            "target \"cuda:%s\" is unknown, expected cuda:h200, h100, a100 or b200%s%s%s", wanted,
            nearest ? "; did you mean \"cuda:" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static const char ptxas[] = "bin/ptxas", libdevice[] = "nvvm/libdevice/libdevice.10.bc";

// A search through folders in order.
typedef struct tool_search {
    arena *a;
    const char *dir;             // the first folder that has both; NULL: none
    const char *ptxas, *library; // the first folder that has it; NULL: none
} tool_search;

static void try_folder(tool_search *s, const char *dir) {
    const bool has_ptxas = file_exists(path_join(s->a, dir, ptxas)),
               has_library = file_exists(path_join(s->a, dir, libdevice));
    if (!s->dir && has_ptxas && has_library) s->dir = dir;
    if (!s->ptxas && has_ptxas) s->ptxas = dir;
    if (!s->library && has_library) s->library = dir;
}

// Tries DIR for each folder DIR/bin in PATH.
static void try_path(tool_search *s) {
    const char *rest = getenv("PATH");
    while (rest && *rest) {
        const size_t n = strcspn(rest, ":");
        try_folder(s, path_join(s->a, arena_strndup(s->a, rest, n), ".."));
        rest += n + (rest[n] == ':');
    }
}

static drv_status refuse_tools(const tool_search *s, const char *beside) {
    const char *missing = !s->ptxas && !s->library ? "ptxas and libdevice.10.bc are not there"
                          : !s->ptxas              ? "ptxas is not there"
                          : !s->library            ? "libdevice.10.bc is not there"
                                        : "ptxas and libdevice.10.bc are in different folders";
    return drv_fail(DRV_E_DEVICE,
            "CUDA's %s, expected DIR/%s and DIR/%s, DIR being CUDA_HOME, \"%s/tools\" or "
            "/usr/local/cuda; tools/fetch_pjrt.py cuda gets them",
            missing, ptxas, libdevice, beside);
}

drv_status cuda_tools_find(arena *a, const char *plugin_path, const char **dir) {
    tool_search s = {.a = a};
    const char *slash = strrchr(plugin_path, '/'), *home = getenv("CUDA_HOME");
    const char *beside = slash ? arena_strndup(a, plugin_path, (size_t)(slash - plugin_path)) : ".";
    // the folder of tools/fetch_pjrt.py, then those of NVIDIA's packages next to jax's
    const char *folders[] = {home && *home ? home : "/usr/local/cuda",
            path_join(a, beside, "tools"), path_join(a, beside, "../../nvidia/cu13"),
            path_join(a, beside, "../../nvidia/cuda_nvcc"), "/usr/local/cuda"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        try_folder(&s, folders[i]);
    try_path(&s);
    *dir = s.dir;
    return s.dir ? DRV_OK : refuse_tools(&s, beside);
}

drv_status cuda_tools_check(arena *a, const char *dir) {
    tool_search s = {.a = a};
    try_folder(&s, dir);
    return s.dir ? DRV_OK
                 : drv_fail(DRV_E_USAGE,
                           "xla_gpu_cuda_data_dir is \"%s\", expected a folder with %s and %s", dir,
                           ptxas, libdevice);
}
