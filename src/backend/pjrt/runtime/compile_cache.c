// Computes keys of compiled programs, and handles damaged files.
#include "backend/pjrt/runtime/compile_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/kept_programs.h"
#include "backend/pjrt/runtime/program_file.h"
#include "base/bus_error.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/log.h"
#include "base/version.h"

// The hash of a plugin, in which a key of a program begins.
typedef struct plugin_hash {
    file_map file;
    uint64_t *out;
} plugin_hash;

static drv_status hash_plugin(void *ctx) {
    const plugin_hash *x = ctx;
    program_hash(x->file.p, x->file.n, x->out);
    return DRV_OK;
}

void compile_cache_open(arena *a, const pjrt_plugin *p, const char *dir, int64_t max_bytes,
        compile_cache *out) {
    plugin_hash hash = {.out = out->plugin};
    *out = (compile_cache){.dir = kept_programs_folder(a, dir), .max_bytes = max_bytes};
    const bool saves = plugin_has(p, PJRT_SLOT_Executable_Serialize) &&
                       plugin_has(p, PJRT_SLOT_Executable_DeserializeAndLoad);
    if (!saves || strcmp(out->dir, "none") == 0 || file_map_open(p->path, &hash.file) != DRV_OK) {
        out->dir = NULL;
        return;
    }
    if (bus_error_guard(hash_plugin, &hash, "a plugin") != DRV_OK) out->dir = NULL;
    file_map_close(&hash.file);
}

// Variables from which compilers take further options.
static const char *const compiler_variables[] = {"XLA_FLAGS", "LIBTPU_INIT_ARGS",
        "NEURON_CC_FLAGS"};

static void add_variables(str *key) {
    for (size_t i = 0; i < sizeof compiler_variables / sizeof *compiler_variables; i++) {
        const char *value = getenv(compiler_variables[i]);
        str_printf(key, "%s\n", value ? value : "");
    }
}

// Hashes everything that the program's bytes depend on, since a plugin's own fingerprint is the
// same for several devices and versions.
static void key_of(const compile_cache *cache, const device_client *c, const char *text, size_t n,
        const str *options, uint64_t out[2]) {
    str key = {0};
    str_printf(&key, "%s %s %016llx%016llx %s %s %s %d.%d %zu\n", drover_number(), drover_commit(),
            (unsigned long long)cache->plugin[0], (unsigned long long)cache->plugin[1], c->platform,
            c->version, c->kind, c->plugin->api->version.major, c->plugin->api->version.minor,
            options->n);
    add_variables(&key);
    if (strcmp(c->platform, "cpu") == 0) str_puts(&key, cpu_model_name()); // machines may share it
    str_add(&key, options->p, options->n);
    str_add(&key, text, n);
    program_hash(key.p, key.n, out);
    str_free(&key);
}

// A program with the right name but another key, for instance a renamed one, would compute
// something else or read beyond its arguments.
static drv_status load_bytes(const device_client *c, const char *bytes, size_t n_bytes,
        const uint64_t key[2], device_program *program) {
    program_about about;
    const unsigned char *payload;
    size_t n;
    DRV_TRY(program_file_check((const unsigned char *)bytes, n_bytes, &about, &payload, &n));
    if (memcmp(about.key, key, sizeof about.key) != 0)
        return drv_fail(DRV_E_DATA, "it holds a different program, \"%s\"", about.program);
    program->facts = about.facts;
    program->has_facts = about.has_facts == 1;
    return client_load(c, payload, n, program);
}

// Loads a program from the cache. False: it must be compiled. The file is read, not mapped, since
// another machine that shares the folder may remove it.
static bool load(const device_client *c, const char *path, const uint64_t key[2],
        device_program *program) {
    if (!file_exists(path)) return false;
    arena *a = arena_new("a compiled program");
    char *bytes;
    size_t n;
    drv_status status = file_read(a, path, &bytes, &n);
    if (status == DRV_OK && (status = load_bytes(c, bytes, n, key, program)) != DRV_OK)
        drv_context(status, "\"%s\"", path);
    arena_free(a);
    if (status != DRV_OK)
        log_warn("compile cache: %s; the program is compiled again", drv_message());
    // Records the last use. If the time cannot be set, the folder belongs to another user, who
    // keeps it.
    else if (utimensat(AT_FDCWD, path, NULL, 0) != 0)
        return true;
    return status == DRV_OK;
}

// Compiles a program and reads the facts of the optimised program.
static drv_status compile(const device_client *c, const char *text, size_t n,
        const compile_options *options, device_program *program) {
    DRV_TRY(client_compile(c, text, n, options, program));
    client_read_facts(c, text, n, program);
    return DRV_OK;
}

static drv_status save(const compile_cache *cache, const device_client *c, const char *path,
        const device_program *program, program_about about) {
    saved_program saved;
    char interface[ABOUT_TEXT];
    evicted gone;
    snprintf(interface, sizeof interface, "PJRT %d.%d", c->plugin->api->version.major,
            c->plugin->api->version.minor);
    program_about_set(about.program, program->name);
    program_about_set(about.plugin, c->plugin->name);
    program_about_set(about.kind, c->kind);
    program_about_set(about.interface, interface);
    program_about_set(about.drover, drover_number());
    about.facts = program->facts;
    about.has_facts = program->has_facts;
    DRV_TRY(client_save(c, program, &saved));
    const bool fits = cache->max_bytes == 0 || (int64_t)saved.n <= cache->max_bytes;
    drv_status status =
            fits ? program_file_write(path, &about, saved.bytes, saved.n)
                 : drv_fail(DRV_E_IO, "program \"%s\" of %zu bytes is larger than the cache may be",
                           program->name, saved.n);
    client_saved_free(&saved);
    if (status == DRV_OK && cache->max_bytes > 0)
        status = kept_programs_evict(cache->dir,
                &(keep_limits){.max_bytes = cache->max_bytes, .max_age_s = KEEP_ANY}, &gone);
    return status;
}

// XLA's compiler for CUDA tries kernels on the device and keeps the results in a folder, one file
// for each (xla_gpu_per_fusion_autotune_cache_dir; openxla/xla, autotuner). The caller must use one
// folder for each version, device and set of flags. So a program that changed a little gets the
// same kernels as before. The flag is not part of a program's key, since the cache may be moved.
static drv_status compile_tuned(const compile_cache *cache, const device_client *c,
        const char *text, size_t n, const compile_options *options, const str *encoded,
        device_program *program) {
    if (!strstr(c->plugin->name, "cuda")) return compile(c, text, n, options, program);
    uint64_t key[2];
    key_of(cache, c, "", 0, encoded, key);
    arena *a = arena_new("tuning");
    const char **flags = ARENA_ARRAY(a, const char *, options->n_flags + 1),
               *dir = arena_printf(a, "%s/%016llx%016llx.tuning", cache->dir,
                       (unsigned long long)key[0], (unsigned long long)key[1]);
    compile_options tuned = *options;
    if (dir_make(dir) == DRV_OK) { // otherwise saving the program reports why
        flags[0] = arena_printf(a, "xla_gpu_per_fusion_autotune_cache_dir=%s", dir);
        memcpy(flags + 1, options->flags, sizeof *flags * (size_t)options->n_flags);
        tuned.flags = flags;
        tuned.n_flags++;
    }
    const drv_status status = compile(c, text, n, &tuned, program);
    arena_free(a);
    return status;
}

drv_status compile_cached(compile_cache *cache, const device_client *c, const char *text, size_t n,
        const compile_options *options, device_program *program, bool *from_cache) {
    str encoded = {0};
    *from_cache = false;
    if (!cache->dir) return compile(c, text, n, options, program);
    DRV_TRY(compile_options_encode(options, &encoded));
    arena *a = arena_new("compile cache");
    program_about about = {.n_devices = options->n_replicas};
    key_of(cache, c, text, n, &encoded, about.key);
    const char *path = arena_printf(a, "%s/%016llx%016llx.pjrt", cache->dir,
            (unsigned long long)about.key[0], (unsigned long long)about.key[1]);
    *from_cache = load(c, path, about.key, program);
    const double start = clock_s();
    drv_status status =
            *from_cache ? DRV_OK : compile_tuned(cache, c, text, n, options, &encoded, program);
    str_free(&encoded);
    about.compile_s = clock_s() - start;
    if (status == DRV_OK && !*from_cache && save(cache, c, path, program, about) != DRV_OK &&
            !atomic_exchange(&cache->failed, true))
        log_warn("compile cache: %s", drv_message());
    arena_free(a);
    return status;
}
