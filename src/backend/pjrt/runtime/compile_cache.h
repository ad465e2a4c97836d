// A cache of compiled programs on disk: one file for each program (program_file.h), named by a hash
// of everything that the program depends on.
#pragma once
#include <stdatomic.h>

#include "backend/pjrt/runtime/pjrt_client.h"

// Thread-safe once open.
typedef struct compile_cache {
    const char *dir;    // NULL: no cache
    int64_t max_bytes;  // of all files; 0: no limit
    uint64_t plugin[2]; // hash of the plugin's file
    atomic_bool failed; // a program could not be saved, which has been logged
} compile_cache;

// `dir`: a folder, created when needed; NULL or "": the user's (kept_programs.h); "none": no cache,
// which is also used for a plugin that cannot save programs.
void compile_cache_open(arena *a, const pjrt_plugin *p, const char *dir, int64_t max_bytes,
        compile_cache *out);

// Compiles a program as client_compile does, or loads it from the cache and sets *from_cache. Warns
// of a file that is damaged or refused and replaces it; warns once if a file cannot be written.
// Evicts the least recently used files when the folder becomes too large.
DRV_CHECKED drv_status compile_cached(compile_cache *cache, const device_client *c,
        const char *text, size_t n, const compile_options *options, device_program *program,
        bool *from_cache);
