// Compiled programs on disk: a file per program, named by all that its bytes depend on. A file
// holds a head with a hash of the rest, since a plugin may accept a damaged program and fail, or
// compute wrong numbers, when it runs.
#pragma once
#include "backend/pjrt/pjrt_client.h"

typedef struct compile_cache {
    arena *a;
    const char *dir;      // NULL: no cache
    uint64_t plugin[2];   // hash of the plugin's file
    int n_found, n_saved; // programs taken from the cache, and put into it
} compile_cache;

// `dir`: a folder, made when it is needed; NULL or "": $DROVER_COMPILE_CACHE, or drover/compiled in
// the user's cache; "none": no cache, as with a plugin that cannot save programs.
void compile_cache_open(arena *a, const pjrt_plugin *p, const char *dir, compile_cache *out);

// As client_compile, or from the cache. A file of the cache that is damaged or refused is named in
// a warning and written anew; one that cannot be written is a warning.
DRV_CHECKED drv_status compile_cached(compile_cache *cache, const device_client *c,
        const char *text, size_t n, const compile_options *options, device_program *program);

// The program in the bytes of a file: *payload, *n_payload. DRV_E_DATA: it is damaged.
DRV_CHECKED drv_status compile_cache_check(const unsigned char *p, size_t n,
        const unsigned char **payload, size_t *n_payload);
