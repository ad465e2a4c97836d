#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "ckpt/ckpt.h"

static bool is_step(const char *name) {
    if (!str_starts(name, "step-") || !name[5]) return false;
    for (const char *p = name + 5; *p; p++)
        if (*p < '0' || *p > '9') return false;
    return true;
}

static int by_step(const void *x, const void *y) {
    const char *a = *(char *const *)x, *b = *(char *const *)y;
    size_t n = strlen(a), m = strlen(b);
    return n != m ? (n < m ? -1 : 1) : strcmp(a, b);
}

drv_status ckpt_list(arena *a, const char *dir, char ***names, int *n) {
    int all, kept = 0;
    DRV_TRY(dir_list(a, dir, names, &all));
    for (int i = 0; i < all; i++)
        if (is_step((*names)[i])) (*names)[kept++] = (*names)[i];
    if (kept) qsort(*names, (size_t)kept, sizeof **names, by_step);
    *n = kept;
    return DRV_OK;
}

drv_status ckpt_clean(const char *dir) {
    arena *a = arena_new("checkpoint clean");
    char **names;
    int n = 0;
    drv_status s = file_is_dir(dir) ? dir_list(a, dir, &names, &n) : DRV_OK;
    for (int i = 0; i < n && s == DRV_OK; i++)
        if (str_starts(names[i], "step-") && str_ends(names[i], ".tmp")) {
            log_info("removing \"%s/%s\", left by a writer that was stopped", dir, names[i]);
            s = dir_remove(path_join(a, dir, names[i]));
        }
    arena_free(a);
    return s;
}

// Read in pieces, not mapped: pages of a map would count as this process's memory.
static drv_status hash_file(const char *path, char hex[33]) {
    enum { N = 1 << 20 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return drv_fail(DRV_E_IO, "could not open \"%s\": %s", path, strerror(errno));
    XXH3_state_t *state = XXH3_createState();
    XXH3_128bits_reset(state);
    char *p = mem_alloc(N);
    ssize_t k;
    while ((k = read(fd, p, N)) > 0 || (k < 0 && errno == EINTR))
        if (k > 0) XXH3_128bits_update(state, p, (size_t)k);
    drv_status s =
            k < 0 ? drv_fail(DRV_E_IO, "could not read \"%s\": %s", path, strerror(errno)) : DRV_OK;
    XXH128_hash_t h = XXH3_128bits_digest(state);
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    XXH3_freeState(state);
    free(p);
    close(fd);
    return s;
}

static drv_status verify_file(arena *a, const char *folder, const char *name, const json_t *v) {
    const char *path = path_join(a, folder, name),
               *want = json_string_value(json_object_get(v, "xxh3_128"));
    const int64_t bytes = json_integer_value(json_object_get(v, "bytes"));
    if (!want || strchr(name, '/'))
        return drv_fail(DRV_E_DATA, "%s: manifest.json: bad entry \"%s\"", folder, name);
    if (!file_exists(path)) return drv_fail(DRV_E_IO, "%s: missing", path);
    if (file_size(path) != bytes)
        return drv_fail(DRV_E_DATA, "%s: %lld bytes, expected %lld", path,
                (long long)file_size(path), (long long)bytes);
    char hex[33];
    DRV_TRY(hash_file(path, hex));
    if (strcmp(hex, want) != 0)
        return drv_fail(DRV_E_DATA,
                "%s: content has hash %s, expected %s: it has changed since it was written", path,
                hex, want);
    return DRV_OK;
}

drv_status ckpt_verify(const char *path) {
    arena *a = arena_new("verify");
    json_t *manifest = NULL;
    drv_status s = json_read_file(path_join(a, path, "manifest.json"), &manifest);
    const json_t *files = json_object_get(manifest, "files");
    if (s == DRV_OK && json_object_size(files) == 0)
        s = drv_fail(DRV_E_DATA, "%s/manifest.json: no files are listed", path);
    const char *name;
    json_t *v;
    if (s == DRV_OK) json_object_foreach((json_t *)(uintptr_t)files, name, v) {
            if (s == DRV_OK) s = verify_file(a, path, name, v);
        }
    json_decref(manifest);
    arena_free(a);
    return s;
}

drv_status ckpt_newest(arena *a, const char *dir, const char **path) {
    *path = NULL;
    char **names;
    int n;
    if (!file_is_dir(dir)) return DRV_OK;
    DRV_TRY(ckpt_list(a, dir, &names, &n));
    for (int i = n - 1; i >= 0; i--) {
        const char *p = path_join(a, dir, names[i]);
        if (ckpt_verify(p) == DRV_OK) {
            *path = p;
            return DRV_OK;
        }
        log_warn("checkpoint \"%s\" is not used: %s", p, drv_message());
    }
    return DRV_OK;
}

// --- tensors of a folder
typedef struct folder {
    st_file files[512];
    int n;
} folder;

static drv_status add_file(arena *a, folder *f, const char *path) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->files[i].path, path) == 0) return DRV_OK;
    if (f->n == 512) return drv_fail(DRV_E_DATA, "%s: more than 512 shards", path);
    DRV_TRY(st_open(a, path, &f->files[f->n]));
    f->n++;
    return DRV_OK;
}

static drv_status open_folder(arena *a, const char *path, const char *which, folder *f) {
    char *one = arena_printf(a, "%s/%s.safetensors", path, which);
    char *index = arena_printf(a, "%s/%s.safetensors.index.json", path, which);
    if (file_exists(one)) return add_file(a, f, one);
    if (!file_exists(index))
        return drv_fail(DRV_E_DATA, "\"%s\" has neither %s.safetensors nor its index", path, which);
    json_t *o;
    DRV_TRY(json_read_file(index, &o));
    const char *name;
    json_t *v, *map = json_object_get(o, "weight_map");
    drv_status s = DRV_OK;
    json_object_foreach(map, name, v) {
        const char *file = json_string_value(v);
        if (s != DRV_OK) break;
        if (!file || strchr(file, '/'))
            s = drv_fail(DRV_E_DATA, "%s: weight_map of \"%s\" is no file name", index, name);
        else
            s = add_file(a, f, path_join(a, path, file));
    }
    json_decref(o);
    return s;
}

static drv_status fill_tensor(const st_file *file, const st_tensor *from, const ckpt_tensor *t,
        ckpt_write write, void *ctx) {
    const st_entry *e = &t->entry;
    bool same = from->n_dims == e->n_dims;
    for (int i = 0; same && i < e->n_dims; i++)
        same = from->dim[i] == e->dim[i];
    if (!same)
        return drv_fail(DRV_E_DATA,
                "%s: tensor \"%s\" has %d dims [%lld, %lld], expected %d [%lld, %lld]", file->path,
                e->name, from->n_dims, (long long)from->dim[0], (long long)from->dim[1], e->n_dims,
                (long long)e->dim[0], (long long)e->dim[1]);
    enum { N = 1 << 16 };
    float *piece = mem_alloc(sizeof *piece * N);
    drv_status s = DRV_OK;
    for (int64_t at = 0; at < from->elements && s == DRV_OK; at += N) {
        const int64_t n = from->elements - at < N ? from->elements - at : N;
        s = st_read_f32(file, from, at, n, piece);
        if (s == DRV_OK) s = write(ctx, t, at, n, piece);
    }
    free(piece);
    st_forget(file);
    return s;
}

drv_status ckpt_fill(const char *path, const char *which, const ckpt_tensor *t, int n,
        ckpt_write write, void *ctx) {
    arena *a = arena_new("load");
    folder *f = ARENA_NEW(a, folder);
    drv_status s = open_folder(a, path, which, f);
    for (int i = 0; i < n && s == DRV_OK; i++) {
        const st_tensor *from = NULL;
        int k = 0;
        for (; k < f->n && !from; k++)
            from = st_find(&f->files[k], t[i].entry.name);
        if (from)
            s = fill_tensor(&f->files[k - 1], from, &t[i], write, ctx);
        else
            s = drv_fail(DRV_E_DATA, "\"%s\" has no tensor \"%s\"", path, t[i].entry.name);
    }
    for (int i = 0; i < f->n; i++)
        st_close(&f->files[i]);
    arena_free(a);
    return s;
}
