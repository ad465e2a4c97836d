// Finds the memory that this process may use: the free memory of the machine, limited by its
// control groups and ulimit.
#pragma once
#include <stdint.h>

typedef struct memory_limit {
    int64_t machine;  // bytes of memory of this machine, or of the control group; 0: unknown
    int64_t free;     // bytes that this process can still take; INT64_MAX: unknown
    const char *what; // what sets `free`: "free on this machine", "left under ulimit -v", ...
} memory_limit;

// Reads /proc and /sys below `root`: "" for this machine, another folder in tests. The number of
// threads must be set before (par_set_threads): under ulimit -v each takes address space.
memory_limit memory_limit_read(const char *root);

// Returns the number of processes that the kernel killed because memory ran out, in our control
// group or, if the group does not count them, on this machine. -1: unknown. root: as above.
int64_t memory_kills_read(const char *root);
