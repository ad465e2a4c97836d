// GPUs that can be compiled for without having one, and what the CUDA compiler needs on disk.
#pragma once
#include "base/arena.h"
#include "base/status.h"

// What the compiler is told of a GPU, as the text of a GpuTargetConfigProto. `wanted`: "h200".
// DRV_E_USAGE: it is not in the table.
DRV_CHECKED drv_status gpu_target_config(arena *a, const char *wanted, const char **out);

// A folder with bin/ptxas and nvvm/libdevice/libdevice.10.bc, without which XLA's compiler ends the
// process: beside the plugin, in CUDA_HOME, /usr/local/cuda or PATH. DRV_E_DEVICE: none; which of
// both is missing, and how to get it.
DRV_CHECKED drv_status cuda_tools_find(arena *a, const char *plugin_path, const char **dir);
// Whether a folder is one. DRV_E_USAGE: it is not.
DRV_CHECKED drv_status cuda_tools_check(arena *a, const char *dir);
