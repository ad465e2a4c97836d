// Lists and evicts the files of the compile cache, one for each compiled program
// (backend/pjrt/runtime/compile_cache.h).
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct kept_program {
    const char *path;
    int64_t bytes;
    double used_at;     // seconds since 1970: when it was written or last loaded
    const char *damage; // the reason if it cannot be used, and then the members below are not set;
                        // else NULL
    const char *program, *plugin, *kind; // "whole_step", "cuda", "NVIDIA H200"
    const char *interface, *drover;      // "PJRT 0.116", version of drover
    int64_t n_devices;
    double compile_s; // seconds in which it was compiled
} kept_program;

// Returns the folder of the cache: `dir`, or, if that is NULL or "", $DROVER_COMPILE_CACHE or else
// drover/compiled in the user's cache. "none": there is no cache.
const char *kept_programs_folder(arena *a, const char *dir);

// Lists all files of a folder, the most recently used first; reads each and compares it with its
// hash. A folder that does not exist has no files.
DRV_CHECKED drv_status kept_programs_list(arena *a, const char *dir, kept_program **out, int *n);

enum { KEEP_ANY = -1 };
typedef struct keep_limits {
    int64_t max_bytes; // of all files together, or KEEP_ANY
    double max_age_s;  // since the last use, or KEEP_ANY
    bool look_inside;  // remove damaged files too
} keep_limits;
typedef struct evicted {
    int n, n_left;
    int64_t bytes, bytes_left;
} evicted;
// Removes files that are too old, then the least recently used ones until the rest fits, and
// temporary files of killed writers. A program that a reader of this machine has open stays
// readable for it.
DRV_CHECKED drv_status kept_programs_evict(const char *dir, const keep_limits *limits,
        evicted *out);
