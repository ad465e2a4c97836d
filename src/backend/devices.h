// Lists which PJRT plugins are there, and what each finds on this machine.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum { MAX_PLUGINS = 8 };

typedef struct plugin_report {
    const char *name;  // "cpu", or the path that was asked for
    const char *path;  // NULL: no such plugin is there
    const char *lacks; // why it cannot be used, in one line; NULL: it can
    int major, minor;  // of its interface; of what lacks nothing, as all below
    const char *stablehlo, *platform, *kind; // "1.20.0", "cuda", "NVIDIA H200"
    int n_devices;
    int64_t memory_bytes; // of one device; 0: the plugin does not say
} plugin_report;

// Returns the name of the plugin that a run with this pjrt.plugin would open ("":
// DROVER_PJRT_PLUGIN, or the first that is there): "cuda", or a file's. Nothing is opened; one that
// is not there keeps its name.
const char *plugin_name_of(arena *a, const char *wanted);
// Looks at the plugins of all names, or at `wanted` (a name or a path). Each is opened in a process
// of its own, so that one that dies or hangs is a line of the report. Returns how many reports.
int plugins_look(arena *a, const char *wanted, plugin_report out[MAX_PLUGINS]);
