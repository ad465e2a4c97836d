// The capabilities of back ends. They are known before a back end is opened, so that code outside
// src/backend checks and plans a configuration without testing the back end's name.
#pragma once
#include <stdbool.h>

typedef struct backend_caps {
    const char *name; // its name in a config
    // It adds in the order that the graph defines: partial sums, accumulation groups and reduction
    // blocks of one rank are added in their trees, so the bits do not depend on the layout
    // (docs/adr/0009, 0026).
    bool orders_sums;
    bool keeps_gradients;  // gradients can be read between programs
    bool sends_async;      // messages of `async` nodes travel while it computes (docs/adr/0027)
    bool widens_blocks;    // its products read weights in quantised blocks
                           // (kernels/blocks/block_matrix.h)
    bool uses_host_memory; // state and temporaries are in the memory of this process, placed by the
                           // plan
    bool is_processor; // it computes on the processor, with the level of kernels that the process
                       // chose
    bool has_devices;  // a plugin provides devices, several for each process (keys pjrt.*)
} backend_caps;

extern const backend_caps backend_caps_pjrt; // also used to compile for a target without the device

// Returns the capabilities of the named back end. For an unknown name it returns those of cpu;
// opening the back end then fails.
const backend_caps *backend_caps_of(const char *name);
