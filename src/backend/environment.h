// Lists the needs of an accelerator beside its plugin: device files, drivers, libraries,
// compilers, variables. Looked at without opening a plugin.
#pragma once
#include "base/arena.h"

typedef enum need_state {
    NEED_MET,
    NEED_UNMET, // without it nothing runs
    NEED_TOLD   // a setting, or what helps
} need_state;

typedef struct need {
    const char *platform; // "cuda"
    need_state state;
    const char *text; // one line: what is there, or what is missing and how to get it
} need;

// Lists the needs of the platforms that are here (a plugin, or a device file), or of the one that
// is asked for; returns how many. Paths are looked for below `root`: "" for this machine, another
// folder in tests.
int environment_look(arena *a, const char *root, const char *wanted, need **out);
