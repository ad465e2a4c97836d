// Tensors of a Hugging Face folder into the state of a run.
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"

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
