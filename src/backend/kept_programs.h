// Compiled programs that are kept on disk, a file each (backend/pjrt/runtime/compile_cache.h): what
// there is, and what is to go.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct kept_program {
    const char *path;
    int64_t bytes;
    double used_at;     // seconds since 1970: when it was written or last taken from the cache
    const char *damage; // why it cannot be used, and then nothing below is set; NULL: it can
    const char *program, *plugin, *kind; // "whole_step", "cuda", "NVIDIA H200"
    const char *interface, *drover;      // "PJRT 0.116", version of drover
    int64_t n_devices;
    double compile_s; // what it took
} kept_program;

// Returns the folder that `dir` stands for: itself, or for NULL and "" $DROVER_COMPILE_CACHE, else
// drover/compiled in the user's cache. "none": nothing is kept.
const char *kept_programs_folder(arena *a, const char *dir);

// Lists all files of a folder, the last used one first; each is read and compared with its hash. A
// folder that is not there has none.
DRV_CHECKED drv_status kept_programs_list(arena *a, const char *dir, kept_program **out, int *n);

enum { KEEP_ANY = -1 };
typedef struct keep_limits {
    int64_t max_bytes; // of all together; KEEP_ANY
    double max_age_s;  // since the last use; KEEP_ANY
    bool look_inside;  // damaged files go too
} keep_limits;
typedef struct evicted {
    int n, n_left;
    int64_t bytes, bytes_left;
} evicted;
// Removes what is too old, then the least recently used until the rest fits, and what writers that
// were killed have left. A program that is being read stays readable for its reader.
DRV_CHECKED drv_status kept_programs_evict(const char *dir, const keep_limits *limits,
        evicted *out);
