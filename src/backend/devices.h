// Lists the installed PJRT plugins, and the devices that each finds on this machine.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum { MAX_PLUGINS = 8 };

typedef struct plugin_report {
    const char *name;  // "cpu", or the requested path
    const char *path;  // NULL: the plugin is not installed
    const char *lacks; // the reason, in one line, if it cannot be used; NULL: it can
    int major, minor;  // of its interface; like all members below only set if `lacks` is NULL
    const char *stablehlo, *platform, *kind; // "1.20.0", "cuda", "NVIDIA H200"
    int n_devices;
    int64_t memory_bytes; // of one device; 0: the plugin does not report it
} plugin_report;

// Returns the name of the plugin that a run with this pjrt.plugin would open ("":
// DROVER_PJRT_PLUGIN, or the first one installed): "cuda", or a file's name. Opens nothing; a
// plugin that is not installed keeps its name.
const char *plugin_name_of(arena *a, const char *wanted);
// Examines the plugins of all names, or `wanted` (a name or a path). Each is opened in a process of
// its own, so that a crash or hang of one becomes a line of the report. Returns the number of
// reports.
int plugins_look(arena *a, const char *wanted, plugin_report out[MAX_PLUGINS]);
