// Compiled programs on disk: a file per program (program_file.h), named by all that its bytes
// depend on.
#pragma once
#include <stdatomic.h>

#include "backend/pjrt/runtime/pjrt_client.h"

// Thread-safe once open.
typedef struct compile_cache {
    const char *dir;    // NULL: no cache
    int64_t max_bytes;  // of all files; 0: any
    uint64_t plugin[2]; // hash of the plugin's file
    atomic_bool failed; // a program could not be saved, which has been said
} compile_cache;

// `dir`: a folder, made when it is needed; NULL or "": the user's (kept_programs.h); "none": no
// cache, as with a plugin that cannot save programs.
void compile_cache_open(arena *a, const pjrt_plugin *p, const char *dir, int64_t max_bytes,
        compile_cache *out);

// Compiles a program as client_compile does, or loads it from the cache and sets *from_cache. A
// file of the cache that is damaged or refused is named in a warning and written anew; the first
// one that cannot be written is a warning. What was used least recently goes when the folder
// becomes too large.
DRV_CHECKED drv_status compile_cached(compile_cache *cache, const device_client *c,
        const char *text, size_t n, const compile_options *options, device_program *program,
        bool *from_cache);
