// The capabilities of back ends. They are known before a back end is opened, so that code outside
// src/backend checks and plans a configuration without testing the back end's name.
#pragma once
#include <stdbool.h>

typedef struct backend_caps {
    const char *name; // as `backend:` of a config
    // It adds in the order of the graph: partial sums, accumulation groups and reduction blocks on
    // one rank are added in their trees, so that the bits do not depend on the layout
    // (docs/adr/0009, 0026).
    bool orders_sums;
    bool keeps_gradients;  // gradients can be read between programs
    bool sends_async;      // messages of `async` nodes travel while it computes (docs/adr/0027)
    bool widens_blocks;    // its products read weights in quantised blocks
                           // (kernels/blocks/block_matrix.h)
    bool uses_host_memory; // its state and temporaries are in this process, placed by the plan
    bool is_processor;     // the processor computes, with the kernels that the process chose
    bool has_devices;      // a plugin finds devices, several per process (keys pjrt.*)
} backend_caps;

extern const backend_caps backend_caps_pjrt; // the one that compiles for a device that is not there

// Returns the capabilities of the named back end. An unknown name gets those of cpu; opening that
// back end then reports the error.
const backend_caps *backend_caps_of(const char *name);
