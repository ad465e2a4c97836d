// What lies in a folder of checkpoints: names in order, what killed writers left, whether a
// checkpoint is whole, and the newest that is.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "ckpt/ckpt.h"

int64_t ckpt_step_of(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int64_t step;
    if (!str_starts(name, "step-") || strspn(name + 5, "0123456789") != strlen(name + 5)) return -1;
    return str_to_i64(name + 5, &step) ? step : -1;
}

static int by_step(const void *x, const void *y) {
    const int64_t a = ckpt_step_of(*(char *const *)x), b = ckpt_step_of(*(char *const *)y);
    return a < b ? -1 : a > b;
}

drv_status ckpt_list(arena *a, const char *dir, char ***names, int *n) {
    int all, kept = 0;
    *n = 0;
    if (access(dir, F_OK) != 0 && errno == ENOENT) return DRV_OK;
    DRV_TRY(dir_list(a, dir, names, &all));
    for (int i = 0; i < all; i++)
        if (ckpt_step_of((*names)[i]) >= 0) (*names)[kept++] = (*names)[i];
    if (kept) qsort(*names, (size_t)kept, sizeof **names, by_step);
    *n = kept;
    return DRV_OK;
}

drv_status ckpt_clean(const char *dir) {
    arena *a = arena_new("checkpoint clean");
    char **names;
    int n = 0;
    drv_status status = file_is_dir(dir) ? dir_list(a, dir, &names, &n) : DRV_OK;
    for (int i = 0; i < n && status == DRV_OK; i++)
        if (str_starts(names[i], "step-") && str_ends(names[i], ".tmp")) {
            log_info("removing \"%s/%s\", left by a writer that was stopped", dir, names[i]);
            status = dir_remove(path_join(a, dir, names[i]));
        }
    arena_free(a);
    return status;
}

// --- whole or not
// Read in pieces, not mapped: pages of a map would count as this process's memory.
static drv_status hash_file(const char *path, char hex[33]) {
    enum { PIECE = 1 << 20 };
    int fd;
    int64_t size;
    DRV_TRY(file_open_regular(path, &fd, &size));
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    char *piece = mem_alloc(PIECE);
    ssize_t got;
    while ((got = read(fd, piece, PIECE)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0) XXH3_128bits_update(state, piece, (size_t)got);
    drv_status status =
            got < 0 ? drv_fail(DRV_E_IO, "could not read \"%s\": %s", path, strerror(errno))
                    : DRV_OK;
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64,
            (unsigned long long)hash.low64);
    XXH3_freeState(state);
    free(piece);
    close(fd);
    return status;
}

static drv_status verify_file(arena *a, const char *folder, const char *name, const json_t *entry) {
    const char *path = path_join(a, folder, name),
               *expected = json_string_value(json_object_get(entry, "xxh3_128"));
    const json_t *bytes = json_object_get(entry, "bytes");
    if (!expected || !json_is_integer(bytes) || strchr(name, '/'))
        return drv_fail(DRV_E_DATA, "%s: manifest.json: bad entry \"%s\"", folder, name);
    if (access(path, F_OK) != 0)
        return drv_fail(DRV_E_IO, "%s: %s", path,
                errno == ENOENT ? "missing, but its manifest.json lists it" : strerror(errno));
    if (file_size(path) != json_integer_value(bytes))
        return drv_fail(DRV_E_DATA, "%s: %lld bytes, expected %lld", path,
                (long long)file_size(path), (long long)json_integer_value(bytes));
    char hex[33];
    DRV_TRY(hash_file(path, hex));
    if (strcmp(hex, expected) != 0)
        return drv_fail(DRV_E_DATA,
                "%s: content has hash %s, expected %s: it has changed since it was written", path,
                hex, expected);
    return DRV_OK;
}

// The manifest is of this folder and lists all that a run needs to resume.
static drv_status check_manifest(const char *folder, const json_t *manifest) {
    const json_t *files = json_object_get(manifest, "files");
    const json_t *step = json_object_get(manifest, "step");
    // Of each line one has to be there.
    static const char *const required[][3] = {{"config.json", "adapter_config.json"},
            {"trainer.json"}, {"optimizer.safetensors"},
            {"model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"}};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        bool found = false;
        for (int k = 0; k < 3 && required[i][k]; k++)
            found |= json_object_get(files, required[i][k]) != NULL;
        if (!found)
            return drv_fail(DRV_E_DATA, "%s/manifest.json does not list %s", folder,
                    required[i][0]);
    }
    const int64_t named = ckpt_step_of(folder);
    if (named >= 0 && (!json_is_integer(step) || json_integer_value(step) != named))
        return drv_fail(DRV_E_DATA, "%s/manifest.json: step is %lld, expected %lld as in the name",
                folder, (long long)json_integer_value(step), (long long)named);
    return DRV_OK;
}

drv_status ckpt_verify(const char *path) {
    arena *a = arena_new("verify");
    json_t *manifest = NULL;
    drv_status status = json_read_file(path_join(a, path, "manifest.json"), &manifest);
    if (status == DRV_OK) status = check_manifest(path, manifest);
    const char *name;
    json_t *entry;
    if (status == DRV_OK) json_object_foreach(json_object_get(manifest, "files"), name, entry) {
            status = verify_file(a, path, name, entry);
            if (status != DRV_OK) break;
        }
    json_decref(manifest);
    arena_free(a);
    return status;
}

drv_status ckpt_newest(arena *a, const char *dir, const char **path) {
    char **names;
    int n;
    str reasons = {0};
    *path = NULL;
    DRV_TRY(ckpt_list(a, dir, &names, &n));
    for (int i = n - 1; i >= 0; i--) {
        const char *candidate = path_join(a, dir, names[i]);
        if (ckpt_verify(candidate) == DRV_OK) {
            *path = candidate;
            str_free(&reasons);
            return DRV_OK;
        }
        log_warn("checkpoint \"%s\" is not used: %s", candidate, drv_message());
        if (n - i <= 3) str_printf(&reasons, "%s%s", reasons.n ? "; " : "", drv_message());
        if (n - i == 4) str_puts(&reasons, "; ...");
    }
    if (n == 0) return DRV_OK;
    drv_status status = drv_fail(DRV_E_DATA, "%s: %s refused: %s", dir,
            n == 1 ? "the only checkpoint is" : "all checkpoints are", reasons.p);
    str_free(&reasons);
    return status;
}
