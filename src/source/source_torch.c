// Files of torch.save as sources: one file, or a folder with pytorch_model.bin or the files of its
// index.
// Legend: s the source, t a tensor of it, n rows or files, f a torch file.
#include <string.h>

#include "base/file.h"
#include "source/model_source.h"
#include "pickle/torch_file.h"

typedef struct torch_source {
    arena *a;
    const char *folder; // of config.json and the tokenizer
    const char *index;
    json_t *map; // weight_map of the index; NULL: there is one file
    torch_file *files;
    int n;
} torch_source;

// The type of a source tensor's `origin`.
typedef struct torch_origin {
    const torch_file *file;
    const torch_tensor *tensor;
} torch_origin;

// --- reading
static drv_status read_raw(const model_source *s DRV_UNUSED, const source_tensor *t, int64_t row,
        int64_t n, void *out) {
    const torch_origin *from = t->origin;
    return torch_read(from->file, from->tensor, row * t->cols, n * t->cols, out);
}

static void close_torch(model_source *s) {
    torch_source *torch = s->state;
    for (int i = 0; i < torch->n; i++)
        torch_close(&torch->files[i]);
    json_decref(torch->map);
}

static const source_reader torch_reader = {.format = "a file of torch.save",
        .read_raw = read_raw,
        .close = close_torch};

// --- tensors
st_type source_torch_type(const torch_type *type) {
    static const st_type types[] = {ST_F32, ST_F64, ST_F16, ST_BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(st_type_name(types[i]), type->st_name) == 0) return types[i];
    return ST_OTHER;
}

static source_tensor as_source(arena *a, const torch_file *file, const torch_tensor *t) {
    torch_origin *origin = ARENA_NEW(a, torch_origin);
    *origin = (torch_origin){file, t};
    source_tensor out = {.name = t->name,
            .file = file->part.path,
            .type_name = t->type->st_name,
            .type = source_torch_type(t->type),
            .n_dims = t->n_dims,
            .rows = t->n_dims ? t->dim[0] : 1,
            .origin = origin};
    memcpy(out.dim, t->dim, sizeof out.dim);
    if (out.rows) out.cols = t->elements / out.rows;
    out.row_bytes = out.cols * t->type->bytes;
    return out;
}

static drv_status list_tensors(torch_source *torch, model_source *out) {
    int n = 0;
    for (int i = 0; i < torch->n; i++)
        n += torch->files[i].n;
    out->tensors = ARENA_ARRAY(torch->a, source_tensor, n + 1);
    for (int i = 0; i < torch->n; i++)
        for (int k = 0; k < torch->files[i].n; k++)
            out->tensors[out->n++] =
                    as_source(torch->a, &torch->files[i], &torch->files[i].tensors[k]);
    for (int i = 0; i < out->n; i++)
        name_map_set(&out->by_name, out->tensors[i].name, &out->tensors[i]);
    return torch->map ? model_index_check(torch->index, torch->map, out) : DRV_OK;
}

static torch_source *begin(arena *a, const char *path, const char *folder, model_source *out) {
    torch_source *torch = ARENA_NEW(a, torch_source);
    *torch = (torch_source){.a = a, .folder = folder};
    *out = (model_source){.path = arena_strdup(a, path),
            .folder = folder,
            .reader = &torch_reader,
            .by_name = {.a = a},
            .state = torch};
    return torch;
}

static drv_status end(drv_status status, torch_source *torch, model_source *out) {
    if (status == DRV_OK) status = list_tensors(torch, out);
    if (status != DRV_OK) model_source_close(out);
    return status;
}

// --- one file
static bool has_tensor(const torch_file *f, const pickle_value *v) {
    const pickle_dict *dict = pickle_entries(v);
    torch_tensor t;
    bool found = false;
    for (int i = 0; dict && i < dict->n && !found; i++)
        if (torch_tensor_of(f, dict->entries[i].value, &t, &found) != DRV_OK) return false;
    return found;
}

// Finds the dict of a model in a checkpoint of a trainer: the one in it that has tensors itself.
// An optimizer's moments are nested deeper. *key: NULL if the file itself is that dict.
static drv_status choose_key(arena *a, const torch_file *f, const char **key) {
    const pickle_dict *dict = pickle_entries(f->root);
    str keys = {0};
    int n = 0;
    *key = NULL;
    if (has_tensor(f, f->root)) return DRV_OK;
    for (int i = 0; dict && i < dict->n; i++) {
        const pickle_value *name = dict->entries[i].key;
        if (name->kind != PICKLE_TEXT || !has_tensor(f, dict->entries[i].value)) continue;
        *key = arena_strndup(a, name->text.p, name->text.n);
        str_printf(&keys, "%s\"%.80s\"", n++ ? ", " : "", *key);
    }
    drv_status status = DRV_OK;
    if (n == 0)
        status = drv_fail(DRV_E_DATA,
                "%s: is not a dict of tensors and contains none; drover ckpt show lists its content, and --key chooses a dict",
                f->part.path);
    else if (n > 1)
        status = drv_fail(DRV_E_DATA,
                "%s: has tensors under the keys %s; choose one: drover ckpt import %s --key KEY --out DIR",
                f->part.path, keys.p, path_for_shell(a, f->part.path));
    str_free(&keys);
    return status;
}

static drv_status open_file(torch_source *torch, const char *path, const char *key) {
    torch->files = ARENA_NEW(torch->a, torch_file);
    DRV_TRY(torch_open(torch->a, path, &(torch_opts){.key = key}, torch->files));
    torch->n = 1;
    if (key) return DRV_OK;
    DRV_TRY(choose_key(torch->a, torch->files, &key));
    if (!key) return DRV_OK;
    torch_close(torch->files);
    torch->n = 0;
    DRV_TRY(torch_open(torch->a, path, &(torch_opts){.key = key}, torch->files));
    torch->n = 1;
    return DRV_OK;
}

drv_status model_source_open_torch(arena *a, const char *path, const char *key, model_source *out) {
    torch_source *torch = begin(a, path, path_folder(a, path), out);
    return model_source_rename(end(open_file(torch, path, key), torch, out), a, out);
}

// --- folders
static drv_status open_files(torch_source *torch, const char *which) {
    arena *a = torch->a;
    const char *one = arena_printf(a, "%s/%s.bin", torch->folder, which);
    const char **paths;
    int n;
    if (file_exists(one)) return open_file(torch, one, NULL);
    torch->index = arena_printf(a, "%s/%s.bin.index.json", torch->folder, which);
    DRV_TRY(model_index_read(a, torch->index, &torch->map, &paths, &n));
    torch->files = ARENA_ARRAY(a, torch_file, n);
    for (; torch->n < n; torch->n++)
        DRV_TRY(torch_open(a, paths[torch->n], NULL, &torch->files[torch->n]));
    return DRV_OK;
}

drv_status model_source_open_torch_folder(arena *a, const char *path, const char *which,
        model_source *out) {
    torch_source *torch = begin(a, path, arena_strdup(a, path), out);
    return end(open_files(torch, which), torch, out);
}

bool model_source_is_torch_folder(arena *a, const char *path, const char *which) {
    return file_exists(arena_printf(a, "%s/%s.bin", path, which)) ||
           file_exists(arena_printf(a, "%s/%s.bin.index.json", path, which));
}
