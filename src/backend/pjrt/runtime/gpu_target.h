// The GPUs for which programs can be compiled without a device, and the tools that the CUDA
// compiler needs.
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct gpu_target {
    const char *config;      // the text of its GpuTargetConfigProto
    const char *description; // "NVIDIA H200"
    int capability;          // 90: Hopper
    int64_t memory;          // bytes
} gpu_target;

// `wanted`: "h200". DRV_E_USAGE: it is not in the table.
DRV_CHECKED drv_status gpu_target_find(arena *a, const char *wanted, gpu_target *out);

// Finds a folder with bin/ptxas and nvvm/libdevice/libdevice.10.bc, without which XLA's compiler
// ends the process: next to the plugin, in CUDA_HOME, /usr/local/cuda or PATH. DRV_E_DEVICE: there
// is none; the message says which of both is missing and how to get it.
DRV_CHECKED drv_status cuda_tools_find(arena *a, const char *plugin_path, const char **dir);
// Checks that `dir` is such a folder. DRV_E_USAGE: it is not.
DRV_CHECKED drv_status cuda_tools_check(arena *a, const char *dir);
