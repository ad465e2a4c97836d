// A PJRT plugin: a shared library that is opened at run time, checked, and called through its
// table. Plugins stay open until the process ends, as their registries demand.
#pragma once
#include <stdatomic.h>

#include "backend/pjrt/runtime/pjrt_abi.h"
#include "base/arena.h"
#include "base/status.h"
#include "comm/comm.h"

// Failures of the devices of this process; neither flag is ever taken back.
typedef struct device_health {
    atomic_bool failed; // a program or a copy has failed: later ones are waited for a short time
    atomic_bool silent; // one never came: nothing is waited for any more
} device_health;

// Immutable once open, but for *health; thread-safe.
typedef struct pjrt_plugin {
    const char *name; // "cpu", "cuda", ...; of one given by path: the file's name
    const char *path;
    const pjrt_api *api;
    bool has_f64;          // whether its devices compute in f64
    const char *stablehlo; // newest version that it reads, "1.13.3"; "" where it does not say
    double give_up_s;      // an event that has not come for so long never will; 0: it is waited for
    device_health *health;
} pjrt_plugin;

// The names that a plugin may have, in the order in which they are tried when none is asked for.
enum { N_PLUGIN_NAMES = 5 };
extern const char *const plugin_names[N_PLUGIN_NAMES];

// Returns where a plugin of that name would be looked for: "FOLDER/NAME/*.so", the folder being
// $DROVER_PJRT_DIR, or drover/pjrt in the user's cache.
const char *plugin_folder(arena *a);

// Finds the file of a plugin. `wanted` is a name, a path (with a slash, or ending in .so), or NULL
// or "" for $DROVER_PJRT_PLUGIN or else the first one that is there. DRV_E_USAGE: an unknown name.
// DRV_E_DEVICE: no file; the message says where it was looked for and how to get one.
DRV_CHECKED drv_status plugin_find(arena *a, const char *wanted, const char **name,
        const char **path);

// Opens and initialises a plugin. DRV_E_DEVICE: no plugin, or one of another major version.
DRV_CHECKED drv_status plugin_open(arena *a, const char *wanted, pjrt_plugin **out);

// Returns whether the plugin has the function.
bool plugin_has(const pjrt_plugin *p, pjrt_slot slot);

// Calls a function. `args` is its struct, zeroed but for the inputs. A refusal becomes one line,
// with the plugin, the function and the plugin's own words: DRV_E_FAULT where a device failed while
// it computed or copied, else DRV_E_DEVICE.
DRV_CHECKED drv_status plugin_call(const pjrt_plugin *p, pjrt_slot slot, void *args);

// Waits for an event and destroys it. NULL is allowed. A device may wait for those of other ranks:
// if one of `ranks` (NULL: there is none) fails, the event is given up, and the failure returned.
// DRV_E_FAULT: the device failed, or has not answered for give_up_s. After either of the last two,
// each call that gives it work fails so.
DRV_CHECKED drv_status plugin_wait(const pjrt_plugin *p, const comm *ranks, pjrt_event *event);

// A struct of the interface with its size set, for those that are not arguments.
#define PJRT_STRUCT(type, last) ((type){.head.size = PJRT_SIZE(type, last)})
