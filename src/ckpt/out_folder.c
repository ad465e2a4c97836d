// Folders that appear whole or not at all.
#include "ckpt/out_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "ckpt/block_hash.h"

void out_folder_follow(arena *a, const char *path, out_folder *out) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    *out = (out_folder){.a = a, .path = arena_strndup(a, path, n), .block_bytes = CKPT_BLOCK_BYTES};
    out->tmp = arena_printf(a, "%s" FILE_ASIDE, out->path);
}

// Returns whether another folder can be renamed to this one: not to a mount point, in a folder that
// cannot be written to, or to the current folder, which would be gone for the caller's shell.
static bool is_replaceable(arena *a, const char *path) {
    struct stat here, above;
    struct statx more;
    const char *parent = path_parent(a, path);
    const bool known = statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &more) == 0;
    return stat(path, &here) == 0 && stat(parent, &above) == 0 && here.st_dev == above.st_dev &&
           !(known && more.stx_attributes & STATX_ATTR_MOUNT_ROOT) && !file_is_same(path, ".") &&
           access(parent, W_OK | X_OK) == 0;
}

void out_folder_name(arena *a, const char *path, out_folder *out) {
    char *real = file_is_dir(path) ? realpath(path, NULL) : NULL;
    out_folder_follow(a, real ? real : path, out);
    out->inside = real && !is_replaceable(a, real);
    if (out->inside) out->tmp = path_join(a, out->path, OUT_FOLDER_TMP);
    out->lock = out->inside ? path_join(a, out->path, OUT_FOLDER_LOCK)
                            : arena_printf(a, "%s.lock", out->path);
    free(real);
}

drv_status out_folder_make(out_folder *o) {
    DRV_TRY(dir_remove(o->tmp));
    return dir_make(o->tmp);
}

drv_status out_folder_begin(arena *a, const char *path, out_folder *out) {
    out_folder_follow(a, path, out);
    return out_folder_make(out);
}

// --- files
drv_status out_stream_open(out_folder *o, const char *name, out_stream *out) {
    *out = (out_stream){.folder = o,
            .fd = -1,
            .name = arena_strdup(o->a, name),
            .path = path_join(o->a, o->tmp, name)};
    if (strchr(name, '/')) DRV_TRY(dir_make_parent(out->path));
    out->fd = open(out->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out->fd < 0) return file_fail("create", out->path);
    out->hash = block_hasher_new(o->block_bytes);
    return DRV_OK;
}

drv_status out_stream_write(out_stream *s, const void *p, size_t n) {
    block_hasher_add(s->hash, p, n);
    s->bytes += (int64_t)n;
    return file_write_all(s->fd, s->path, p, n);
}

void out_folder_note(out_folder *o, const char *name, int64_t bytes, const char hash[33]) {
    MEM_GROW(o->files, o->n, o->cap);
    written_file *f = &o->files[o->n++];
    *f = (written_file){.name = arena_strdup(o->a, name), .bytes = bytes};
    memcpy(f->hash, hash, sizeof f->hash);
}

drv_status out_stream_close(out_stream *s, drv_status status) {
    if (s->fd < 0) return status;
    out_folder *o = s->folder;
    char hash[33];
    block_hasher_free(s->hash, hash);
    out_folder_note(o, s->name, s->bytes, hash);
    // An error of close is one of the data (NFS, quotas).
    if (close(s->fd) != 0 && status == DRV_OK) status = file_fail("close", s->path);
    s->fd = -1;
    return status;
}

drv_status out_folder_put(out_folder *o, const char *name, const void *p, size_t n) {
    out_stream s;
    drv_status status = out_stream_open(o, name, &s);
    if (status == DRV_OK) status = out_stream_write(&s, p, n);
    return out_stream_close(&s, status);
}

drv_status out_folder_copy(out_folder *o, const char *name, const char *from) {
    enum { PIECE = 4 << 20 };
    out_stream to;
    int fd;
    int64_t size, n = 0;
    DRV_TRY(file_open_regular(from, &fd, &size));
    char *piece = mem_alloc(PIECE);
    drv_status status = out_stream_open(o, name, &to);
    for (int64_t done = 0; done < size && status == DRV_OK; done += n) {
        n = size - done < PIECE ? size - done : PIECE;
        progress("%s: %s of %s", name, str_bytes((double)done), str_bytes((double)size));
        if (file_read_at(fd, piece, n, done) == n)
            status = out_stream_write(&to, piece, (size_t)n);
        else if (errno)
            status = file_fail("read", from);
        else
            status = drv_fail(DRV_E_IO, "\"%s\" was shortened while it was read", from);
    }
    progress_end();
    free(piece);
    close(fd);
    return out_stream_close(&to, status);
}

drv_status out_folder_put_json(out_folder *o, const char *name, json_t *value, size_t flags) {
    str text = {0};
    json_print_to(&text, value, flags);
    const drv_status status = out_folder_put(o, name, text.p, text.n);
    str_free(&text);
    return status;
}

drv_status out_folder_sync(out_folder *o) {
    for (int i = 0; i < o->n; i++) {
        const char *path = path_join(o->a, o->tmp, o->files[i].name);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const drv_status status = fd < 0 || fsync(fd) != 0 ? file_fail("sync", path) : DRV_OK;
        if (fd >= 0) close(fd);
        DRV_TRY(status);
    }
    return file_sync_dir(o->tmp);
}

drv_status out_folder_manifest(out_folder *o, int64_t step) {
    json_t *files = json_object();
    for (int i = 0; i < o->n; i++)
        json_object_set_new(files, o->files[i].name,
                json_pack("{s:I, s:s}", "bytes", (json_int_t)o->files[i].bytes, "xxh3_128_blocks",
                        o->files[i].hash));
    json_t *m = json_pack("{s:s, s:i, s:I, s:I, s:o}", "format", "drover checkpoint", "version", 2,
            "step", (json_int_t)step, "block_bytes", (json_int_t)o->block_bytes, "files", files);
    return json_write_file(path_join(o->a, o->tmp, "manifest.json"), m);
}

// --- into place
static void forget(out_folder *o) {
    free(o->files);
    o->files = NULL;
    o->n = o->cap = 0;
}

static drv_status rename_to(const char *from, const char *to) {
    if (rename(from, to) == 0) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not rename \"%s\" to \"%s\": %s", from, to, strerror(errno));
}

drv_status out_folder_rename(out_folder *o, const char *path) {
    DRV_TRY(rename_to(o->tmp, path));
    forget(o);
    return DRV_OK;
}

drv_status out_folder_commit(out_folder *o, const char *path) {
    DRV_TRY(out_folder_rename(o, path));
    return file_sync_placed(path_parent(o->a, path), path);
}

// Weights, and what is said of these weights alone.
static bool is_model_file(const char *name) {
    if (strcmp(name, "verify.json") == 0 || strcmp(name, "trainer.json") == 0) return true;
    return str_starts(name, "model") &&
           (str_ends(name, ".safetensors") || str_ends(name, ".safetensors.index.json"));
}

static drv_status move_into(const out_folder *o, const char *name, const char *path) {
    const char *to = path_join(o->a, path, name);
    if (strchr(name, '/')) DRV_TRY(dir_make_parent(to));
    return rename_to(path_join(o->a, o->tmp, name), to);
}

drv_status out_folder_commit_into(out_folder *o, const char *path) {
    char **names;
    int n;
    DRV_TRY(dir_list(o->a, path, &names, &n));
    for (int i = 0; i < n; i++)
        if (is_model_file(names[i])) DRV_TRY(dir_remove(path_join(o->a, path, names[i])));
    for (int i = 0; i < o->n; i++)
        DRV_TRY(move_into(o, o->files[i].name, path));
    if (file_exists(path_join(o->a, o->tmp, "manifest.json")))
        DRV_TRY(move_into(o, "manifest.json", path));
    DRV_TRY(dir_remove(o->tmp));
    forget(o);
    return file_sync_placed(path, path);
}

drv_status out_folder_place(out_folder *o, bool force) {
    const bool into = o->inside || (force && file_exists(o->path));
    return out_placed(into ? out_folder_commit_into(o, o->path) : out_folder_commit(o, o->path));
}

void out_folder_discard(out_folder *o) {
    const drv_status ignored = o->tmp ? dir_remove(o->tmp) : DRV_OK;
    (void)ignored;
    forget(o);
}
