// Says what a back end can do. A configuration is checked, planned and cut by this, before any back
// end is opened, so nothing above src/backend asks for a back end by its name.
#pragma once
#include <stdbool.h>

typedef struct backend_caps {
    const char *name; // as `backend:` of a config
    // It adds in the order that a graph gives: partial sums, accumulation groups and reduction
    // blocks of one rank are joined in their trees, so that the bits do not depend on who computes
    // them (docs/adr/0009, 0026).
    bool orders_sums;
    bool keeps_gradients;  // between programs, where they can be read
    bool sends_async;      // messages of `async` nodes travel while it computes (docs/adr/0027)
    bool widens_blocks;    // its products read weights that are held in blocks
                           // (kernels/blocks/block_matrix.h)
    bool uses_host_memory; // its state and temporaries lie in this process, as the plan places them
    bool is_processor;     // the processor computes, by the kernels that a process chooses
    bool has_devices;      // a process may have several, found by a plugin (keys pjrt.*)
} backend_caps;

extern const backend_caps backend_caps_pjrt; // the one that compiles for a device that is not there

// Returns what a back end can do, by its name. A name that no back end has gets those of cpu:
// opening it says what is wrong.
const backend_caps *backend_caps_of(const char *name);
