// Hugging Face folders as sources: one safetensors file, or many and an index that fits them.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_python.h"
#include "ckpt/model_source.h"

typedef struct folder {
    arena *a;
    const char *path;
    st_file *files;
    int n;
    name_map by_path; // of the files
} folder;

// The type of a source tensor's `origin`.
typedef struct stored {
    const st_file *file;
    const st_tensor *tensor;
} stored;

// --- the files
static drv_status add_file(folder *f, const char *path) {
    DRV_TRY(st_open(f->a, path, &f->files[f->n]));
    name_map_set(&f->by_path, f->files[f->n].path, &f->files[f->n]);
    f->n++;
    return DRV_OK;
}

// One entry of weight_map: the tensor has to be in the file that it names.
static drv_status add_indexed(folder *f, const char *index, const char *tensor,
        const json_t *entry) {
    const char *name = json_string_value(entry);
    if (!name || !*name || strchr(name, '/'))
        return drv_fail(DRV_E_DATA, "%s: weight_map of \"%.80s\" is not a file name", index,
                tensor);
    const char *path = path_join(f->a, f->path, name);
    if (!name_map_get(&f->by_path, path)) {
        if (!file_exists(path))
            return drv_fail(DRV_E_DATA, "%s: weight_map names \"%.80s\", which is not there", index,
                    name);
        DRV_TRY(add_file(f, path));
    }
    if (st_find(name_map_get(&f->by_path, path), tensor)) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: weight_map has \"%.80s\" in %s, but that file does not contain it", index, tensor,
            name);
}

// Every tensor of the files is where the index says, and nowhere else.
static drv_status check_index(const folder *f, const char *index, const json_t *map) {
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->files[i].n; k++) {
            const char *name = f->files[i].tensors[k].name;
            const char *file = json_string_value(json_object_get(map, name));
            if (!file)
                return drv_fail(DRV_E_DATA, "%s: weight_map leaves out \"%.80s\" of %s", index,
                        name, f->files[i].path);
            if (strcmp(path_join(f->a, f->path, file), f->files[i].path) != 0)
                return drv_fail(DRV_E_DATA, "%s: tensor \"%.80s\" is in %s too, not only in %s",
                        index, name, f->files[i].path, file);
        }
    return DRV_OK;
}

static int by_path(const void *x, const void *y) {
    return strcmp(((const st_file *)x)->path, ((const st_file *)y)->path);
}

static drv_status add_by_index(folder *f, const char *index, const json_t *root) {
    const json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        return drv_fail(DRV_E_DATA,
                "%s: weight_map is %s, expected an object from tensor to file name", index,
                !map                  ? "missing"
                : json_is_object(map) ? "empty"
                                      : "not an object");
    f->files = ARENA_ARRAY(f->a, st_file, json_object_size(map));
    const char *tensor;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, entry) {
        DRV_TRY(add_indexed(f, index, tensor, entry));
    }
    DRV_TRY(check_index(f, index, map));
    qsort(f->files, (size_t)f->n, sizeof *f->files, by_path); // by_path map is not used any more
    return DRV_OK;
}

static drv_status open_files(folder *f, const char *which) {
    char *one = arena_printf(f->a, "%s/%s.safetensors", f->path, which);
    char *index = arena_printf(f->a, "%s/%s.safetensors.index.json", f->path, which);
    if (file_exists(one)) {
        f->files = ARENA_NEW(f->a, st_file);
        return add_file(f, one);
    }
    if (!file_exists(index))
        return drv_fail(DRV_E_DATA, "\"%s\" has neither %s.safetensors nor its index", f->path,
                which);
    json_t *root;
    DRV_TRY(json_read_file(index, &root));
    drv_status status = add_by_index(f, index, root);
    json_decref(root);
    return status;
}

// --- the source
static source_tensor as_source(arena *a, const st_file *file, const st_tensor *t) {
    stored *origin = ARENA_NEW(a, stored);
    *origin = (stored){file, t};
    source_tensor out = {.name = t->name,
            .file = file->path,
            .type_name = t->type_name,
            .type = t->type,
            .n_dims = t->n_dims,
            .rows = t->n_dims ? t->dim[0] : 1,
            .origin = origin};
    memcpy(out.dim, t->dim, sizeof out.dim);
    if (out.rows) out.cols = t->elements / out.rows, out.row_bytes = t->bytes / out.rows;
    return out;
}

static drv_status read_raw(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        void *out) {
    const stored *from = t->origin;
    (void)s;
    return st_read_raw(from->file, from->tensor, row * t->row_bytes, n * t->row_bytes, out);
}

static drv_status read_f32(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        float *out) {
    const stored *from = t->origin;
    (void)s;
    return st_read_f32(from->file, from->tensor, row * t->cols, n * t->cols, out);
}

static drv_status read_config(const model_source *s, json_t **out) {
    const folder *f = s->state;
    return json_read_python(path_join(f->a, s->path, "config.json"), out);
}

drv_status model_folder_files(arena *a, const char *path, ckpt_carried **list, int *n) {
    *list = ARENA_ARRAY(a, ckpt_carried, n_ckpt_carried_names);
    *n = 0;
    for (int i = 0; i < n_ckpt_carried_names; i++) {
        char *bytes, *file = path_join(a, path, ckpt_carried_names[i]);
        size_t n_bytes;
        if (!file_exists(file)) continue;
        DRV_TRY(file_read(a, file, &bytes, &n_bytes));
        (*list)[(*n)++] = (ckpt_carried){ckpt_carried_names[i], bytes, n_bytes, path};
    }
    return DRV_OK;
}

static drv_status read_files(arena *a, const model_source *s, ckpt_carried **list, int *n) {
    return model_folder_files(a, s->path, list, n);
}

static void close_folder(model_source *s) {
    folder *f = s->state;
    for (int i = 0; i < f->n; i++)
        st_close(&f->files[i]);
}

static const source_reader folder_reader = {.format = "a Hugging Face folder",
        .read_raw = read_raw,
        .read_f32 = read_f32,
        .config = read_config,
        .files = read_files,
        .close = close_folder};

drv_status model_source_open_folder(arena *a, const char *path, const char *which,
        model_source *out) {
    folder *files = ARENA_NEW(a, folder);
    *files = (folder){.a = a, .path = arena_strdup(a, path), .by_path = {.a = a}};
    *out = (model_source){.path = files->path,
            .reader = &folder_reader,
            .by_name = {.a = a},
            .state = files};
    drv_status status = open_files(files, which);
    if (status != DRV_OK) {
        model_source_close(out);
        return status;
    }
    int n = 0;
    for (int i = 0; i < files->n; i++)
        n += files->files[i].n;
    out->tensors = ARENA_ARRAY(a, source_tensor, n + 1);
    for (int i = 0; i < files->n; i++)
        for (int k = 0; k < files->files[i].n; k++) {
            source_tensor *t = &out->tensors[out->n++];
            *t = as_source(a, &files->files[i], &files->files[i].tensors[k]);
            name_map_set(&out->by_name, t->name, t);
        }
    return DRV_OK;
}
