// Lists what an accelerator needs in addition to its plugin: device files, drivers, libraries,
// compilers, variables. Does not open a plugin.
#pragma once
#include "base/arena.h"

typedef enum need_state {
    NEED_MET,
    NEED_UNMET, // programs cannot run without it
    NEED_TOLD   // a setting, or an optional part
} need_state;

typedef struct need {
    const char *platform; // "cuda"
    need_state state;
    const char *text; // one line: what was found, or what is missing and how to get it
} need;

// Lists the needs of the platforms found here (by a plugin or a device file), or of platform
// `wanted`; returns their number. Searches below `root`: "" for this machine, another folder in
// tests.
int environment_look(arena *a, const char *root, const char *wanted, need **out);
