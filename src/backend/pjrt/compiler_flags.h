// The options of a plugin's compiler: what drover itself sets for a platform, and what the user
// adds.
#pragma once
#include "backend/backend.h"
#include "backend/pjrt/runtime/plugin.h"

typedef struct compiler_flags {
    const char **list; // NAME=VALUE
    int n;
} compiler_flags;

// Chooses them for a plugin; the list lives in `a`. DRV_E_DEVICE, DRV_E_USAGE: CUDA's tools are not
// there, or a flag of the user is not the user's to set.
DRV_CHECKED drv_status compiler_flags_choose(arena *a, const pjrt_plugin *plugin,
        const backend_opts *opts, compiler_flags *out);
