// Keys, files, and what to do about damaged ones. Several processes may fill one folder: each
// writes aside under a name of its own and renames.
#include "backend/pjrt/compile_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/file.h"
#include "base/log.h"
#include "base/version.h"

// File: magic, format and lengths, the payload's hash, the payload. Little-endian, as the machines
// that plugins are for.
typedef struct cache_head {
    char magic[8];
    uint64_t n_payload;
    uint64_t hash[2];
} cache_head;
static const char magic[8] = "drvprog1";

static const char *cache_folder(arena *a, const char *dir) {
    const char *env = getenv("DROVER_COMPILE_CACHE"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (dir && *dir) return dir;
    if (env && *env) return env;
    if (cache && *cache) return path_join(a, cache, "drover/compiled");
    return home && *home ? path_join(a, home, ".cache/drover/compiled") : "none";
}

static void hash_of(const void *p, size_t n, uint64_t out[2]) {
    const XXH128_hash_t hash = XXH3_128bits(p, n);
    out[0] = hash.high64;
    out[1] = hash.low64;
}

void compile_cache_open(arena *a, const pjrt_plugin *p, const char *dir, compile_cache *out) {
    file_map map;
    *out = (compile_cache){.a = a, .dir = cache_folder(a, dir)};
    const bool saves = plugin_has(p, PJRT_SLOT_Executable_Serialize) &&
                       plugin_has(p, PJRT_SLOT_Executable_DeserializeAndLoad);
    if (!saves || strcmp(out->dir, "none") == 0 || file_map_open(p->path, &map) != DRV_OK) {
        out->dir = NULL;
        return;
    }
    hash_of(map.p, map.n, out->plugin);
    file_map_close(&map);
}

// Everything that the program's bytes depend on: a plugin's own fingerprint is the same for several
// devices and versions.
static const char *file_of(compile_cache *cache, const device_client *c, const char *text, size_t n,
        const str *options) {
    str key = {0};
    uint64_t hash[2];
    str_printf(&key, "%s %s %016llx%016llx %s %s %d.%d %zu\n", drover_number(), drover_commit(),
            (unsigned long long)cache->plugin[0], (unsigned long long)cache->plugin[1], c->platform,
            c->kind, c->plugin->api->version.major, c->plugin->api->version.minor, options->n);
    str_add(&key, options->p, options->n);
    str_add(&key, text, n);
    hash_of(key.p, key.n, hash);
    str_free(&key);
    return arena_printf(cache->a, "%s/%016llx%016llx.pjrt", cache->dir, (unsigned long long)hash[0],
            (unsigned long long)hash[1]);
}

drv_status compile_cache_check(const unsigned char *p, size_t n, const unsigned char **payload,
        size_t *n_payload) {
    cache_head head;
    uint64_t hash[2];
    if (n < sizeof head)
        return drv_fail(DRV_E_DATA, "%zu bytes, expected %zu or more", n, sizeof head);
    memcpy(&head, p, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        return drv_fail(DRV_E_DATA, "it does not begin with \"%.8s\"", magic);
    if (head.n_payload != n - sizeof head)
        return drv_fail(DRV_E_DATA, "%zu bytes of a program, expected %llu", n - sizeof head,
                (unsigned long long)head.n_payload);
    hash_of(p + sizeof head, n - sizeof head, hash);
    if (memcmp(hash, head.hash, sizeof hash) != 0)
        return drv_fail(DRV_E_DATA, "its hash is another than it was written with");
    *payload = p + sizeof head;
    *n_payload = n - sizeof head;
    return DRV_OK;
}

static drv_status load_bytes(const device_client *c, const file_map *map, device_program *program) {
    const unsigned char *payload;
    size_t n;
    DRV_TRY(compile_cache_check(map->p, map->n, &payload, &n));
    return client_load(c, payload, n, program);
}

// False: it is to be compiled.
static bool load(const device_client *c, const char *path, device_program *program) {
    file_map map;
    if (!file_exists(path)) return false;
    if (file_map_open(path, &map) != DRV_OK) {
        log_warn("compile cache: %s", drv_message());
        return false;
    }
    const drv_status status = load_bytes(c, &map, program);
    file_map_close(&map);
    if (status != DRV_OK)
        log_warn("compile cache: \"%s\": %s; the program is compiled again", path, drv_message());
    return status == DRV_OK;
}

static drv_status write_file(const char *path, const void *p, size_t n) {
    arena *a = arena_new("compile cache");
    str bytes = {0};
    cache_head head = {.n_payload = n};
    memcpy(head.magic, magic, sizeof magic);
    hash_of(p, n, head.hash);
    str_add(&bytes, &head, sizeof head);
    str_add(&bytes, p, n);
    const char *aside = arena_printf(a, "%s.%ld", path, (long)getpid());
    drv_status status = dir_make_parent(path);
    if (status == DRV_OK) status = file_write_atomic(aside, bytes.p, bytes.n);
    if (status == DRV_OK && rename(aside, path) != 0)
        status = drv_fail(DRV_E_IO, "could not rename \"%s\"", aside);
    str_free(&bytes);
    arena_free(a);
    return status;
}

static drv_status save(const device_client *c, const char *path, const device_program *program) {
    saved_program saved;
    DRV_TRY(client_save(c, program, &saved));
    const drv_status status = write_file(path, saved.bytes, saved.n);
    client_saved_free(&saved);
    return status;
}

drv_status compile_cached(compile_cache *cache, const device_client *c, const char *text, size_t n,
        const compile_options *options, device_program *program) {
    str encoded = {0};
    if (!cache->dir) return client_compile(c, text, n, options, program);
    DRV_TRY(compile_options_encode(options, &encoded));
    const char *path = file_of(cache, c, text, n, &encoded);
    str_free(&encoded);
    if (load(c, path, program)) {
        cache->n_found++;
        return DRV_OK;
    }
    DRV_TRY(client_compile(c, text, n, options, program));
    if (save(c, path, program) == DRV_OK)
        cache->n_saved++;
    else
        log_warn("compile cache: %s", drv_message());
    return DRV_OK;
}
