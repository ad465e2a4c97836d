// Hugging Face folders as sources: one safetensors file, or many and an index that fits them.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "source/model_source.h"

typedef struct folder {
    arena *a;
    const char *path, *index;
    json_t *map; // weight_map of the index; NULL: there is one file
    st_file *files;
    int n;
} folder;

// The type of a source tensor's `origin`.
typedef struct stored {
    const st_file *file;
    const st_tensor *tensor;
} stored;

// --- the index
static int by_text(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static drv_status list_files(arena *a, const char *index, const json_t *map, const char ***paths,
        int *n_paths) {
    const char *tensor;
    json_t *entry;
    int n_all = 0;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return drv_fail(DRV_E_DATA,
                "%s: weight_map is %s, expected an object from tensor to file name", index,
                !map                  ? "missing"
                : json_is_object(map) ? "empty"
                                      : "not an object");
    const char **all = *paths = ARENA_ARRAY(a, const char *, json_object_size(map));
    json_object_foreach((json_t *)(uintptr_t)map, tensor, entry) {
        const char *name = json_string_value(entry);
        if (!name || !*name || strchr(name, '/'))
            return drv_fail(DRV_E_DATA, "%s: weight_map of \"%.80s\" is not a file name", index,
                    tensor);
        all[n_all++] = name;
    }
    qsort(all, (size_t)n_all, sizeof *all, by_text);
    *n_paths = 0;
    for (int i = 0; i < n_all; i++) {
        const char *path = path_join(a, path_parent(a, index), all[i]);
        if (*n_paths && strcmp(path, all[*n_paths - 1]) == 0) continue;
        if (!file_exists(path))
            return drv_fail(DRV_E_DATA, "%s: weight_map names \"%.80s\", which is not there", index,
                    all[i]);
        all[(*n_paths)++] = path;
    }
    return DRV_OK;
}

drv_status model_index_read(arena *a, const char *index, json_t **map, const char ***paths,
        int *n) {
    json_t *root;
    DRV_TRY(json_read_file(index, &root));
    *map = json_incref(json_object_get(root, "weight_map"));
    json_decref(root);
    return list_files(a, index, *map, paths, n);
}

drv_status model_index_check(const char *index, json_t *map, const model_source *source) {
    const char *tensor;
    json_t *entry;
    for (int i = 0; i < source->n; i++) {
        const char *name = source->tensors[i].name, *path = source->tensors[i].file;
        const char *file = json_string_value(json_object_get(map, name));
        if (!file)
            return drv_fail(DRV_E_DATA, "%s: weight_map leaves out \"%.80s\" of %s", index, name,
                    path);
        if (strcmp(file, path_name(path)) != 0)
            return drv_fail(DRV_E_DATA, "%s: tensor \"%.80s\" is in %s too, not only in %s", index,
                    name, path, file);
    }
    if ((size_t)source->n == json_object_size(map)) return DRV_OK;
    json_object_foreach(map, tensor, entry) {
        if (!model_source_find(source, tensor))
            return drv_fail(DRV_E_DATA,
                    "%s: weight_map has \"%.80s\" in %s, but that file does not contain it", index,
                    tensor, json_string_value(entry));
    }
    return DRV_OK;
}

// --- the files
static drv_status add_file(folder *f, const char *path) {
    DRV_TRY(st_open(f->a, path, &f->files[f->n]));
    f->n++;
    return DRV_OK;
}

static drv_status open_files(folder *f, const char *which) {
    char *one = arena_printf(f->a, "%s/%s.safetensors", f->path, which);
    const char **paths;
    int n;
    f->index = arena_printf(f->a, "%s/%s.safetensors.index.json", f->path, which);
    if (file_exists(one)) {
        f->files = ARENA_NEW(f->a, st_file);
        return add_file(f, one);
    }
    if (!file_exists(f->index))
        return drv_fail(DRV_E_DATA, "\"%s\" has neither %s.safetensors nor its index", f->path,
                which);
    DRV_TRY(model_index_read(f->a, f->index, &f->map, &paths, &n));
    f->files = ARENA_ARRAY(f->a, st_file, n);
    for (int i = 0; i < n; i++)
        DRV_TRY(add_file(f, paths[i]));
    return DRV_OK;
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

static drv_status read_raw(const model_source *s DRV_UNUSED, const source_tensor *t, int64_t row,
        int64_t n, void *out) {
    const stored *from = t->origin;
    return st_read_raw(from->file, from->tensor, row * t->row_bytes, n * t->row_bytes, out);
}

static drv_status read_f32(const model_source *s DRV_UNUSED, const source_tensor *t, int64_t row,
        int64_t n, float *out) {
    const stored *from = t->origin;
    return st_read_f32(from->file, from->tensor, row * t->cols, n * t->cols, out);
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

static void close_folder(model_source *s) {
    folder *f = s->state;
    for (int i = 0; i < f->n; i++)
        st_close(&f->files[i]);
    json_decref(f->map);
}

static const source_reader folder_reader = {.format = "a Hugging Face folder",
        .read_raw = read_raw,
        .read_f32 = read_f32,
        .close = close_folder};

drv_status model_source_open_folder(arena *a, const char *path, const char *which,
        model_source *out) {
    folder *files = ARENA_NEW(a, folder);
    *files = (folder){.a = a, .path = arena_strdup(a, path)};
    *out = (model_source){.path = files->path,
            .folder = files->path,
            .reader = &folder_reader,
            .by_name = {.a = a},
            .state = files};
    drv_status status = open_files(files, which);
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
    if (status == DRV_OK && files->map) status = model_index_check(files->index, files->map, out);
    if (status != DRV_OK) model_source_close(out);
    return status;
}
