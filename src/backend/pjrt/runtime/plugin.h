// A PJRT plugin: a shared library that is opened at run time, checked, and called through its
// table. Plugins stay open until the process ends, as their registries demand.
#pragma once
#include <stdatomic.h>

#include "backend/pjrt/runtime/pjrt_abi.h"
#include "base/arena.h"
#include "base/status.h"
#include "comm/comm.h"

// Failures of the devices of this process; the flags are never reset.
typedef struct device_health {
    atomic_bool failed; // a program or a copy has failed: later waits are short
    atomic_bool silent; // a device did not answer: later calls do not wait
} device_health;

// Immutable once open, but for *health; thread-safe.
typedef struct pjrt_plugin {
    const char *name; // "cpu", "cuda", ...; for a plugin given by its path the file's name
    const char *path;
    const pjrt_api *api;
    bool has_f64;          // whether its devices compute in f64
    const char *stablehlo; // newest version that it reads, "1.13.3"; "": unknown
    double give_up_s;      // the limit of a wait for an event; 0: none
    device_health *health;
} pjrt_plugin;

// The names of plugins, in the order in which they are tried if none is requested.
enum { N_PLUGIN_NAMES = 5 };
extern const char *const plugin_names[N_PLUGIN_NAMES];

// Returns the folder in which plugins are searched as NAME/*.so: $DROVER_PJRT_DIR, or drover/pjrt
// in the user's cache.
const char *plugin_folder(arena *a);

// Finds the file of a plugin. `wanted` is a name, a path (with a slash, or ending in .so), or NULL
// or "" for $DROVER_PJRT_PLUGIN or else the first one installed. DRV_E_USAGE: an unknown name.
// DRV_E_DEVICE: there is no file; the message says where it was searched and how to get one.
DRV_CHECKED drv_status plugin_find(arena *a, const char *wanted, const char **name,
        const char **path);

// Opens and initialises a plugin. DRV_E_DEVICE: no plugin, or one of another major version.
DRV_CHECKED drv_status plugin_open(arena *a, const char *wanted, pjrt_plugin **out);

// Returns whether the plugin has the function.
bool plugin_has(const pjrt_plugin *p, pjrt_slot slot);

// Calls a function. `args` is its struct, with all members but the inputs zero. An error becomes
// one line with the plugin, the function and the plugin's message: DRV_E_FAULT if a device failed
// while it computed or copied, else DRV_E_DEVICE.
DRV_CHECKED drv_status plugin_call(const pjrt_plugin *p, pjrt_slot slot, void *args);

// Waits for an event and destroys it. NULL is allowed. A device may wait for those of other ranks:
// if one of `ranks` (NULL: none) fails, the wait ends and the failure is returned. DRV_E_FAULT: the
// device failed, or has not answered for give_up_s; then all later calls that use it fail too.
DRV_CHECKED drv_status plugin_wait(const pjrt_plugin *p, const comm *ranks, pjrt_event *event);

// A struct of the interface with its size set, for structs that are not arguments.
#define PJRT_STRUCT(type, last) ((type){.head.size = PJRT_SIZE(type, last)})
