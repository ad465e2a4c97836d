// The options of a plugin's compiler: drover's own for each platform, and the user's.
#pragma once
#include "backend/backend.h"
#include "backend/pjrt/runtime/plugin.h"

typedef struct compiler_flags {
    const char **list; // NAME=VALUE
    int n;
} compiler_flags;

// Chooses the options for a plugin; the list lives in `a`. DRV_E_DEVICE: CUDA's tools are not
// installed. DRV_E_USAGE: the user has set a flag that is drover's.
DRV_CHECKED drv_status compiler_flags_choose(arena *a, const pjrt_plugin *plugin,
        const backend_opts *opts, compiler_flags *out);
