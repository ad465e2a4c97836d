// Tensors of a Hugging Face folder into the state of a run: exactly those that are expected, and
// every value finite.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bus_error.h"
#include "ckpt/ckpt.h"

typedef struct folder {
    const char *path;
    st_file *files;
    int n;
} folder;

// --- the files of a folder
static int file_index(const folder *f, const char *path) {
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->files[i].path, path) == 0) return i;
    return -1;
}

// One entry of weight_map: the tensor has to be in the file that it names.
static drv_status add_indexed(arena *a, folder *f, const char *index, const char *tensor,
        const json_t *entry) {
    const char *name = json_string_value(entry);
    if (!name || !*name || strchr(name, '/'))
        return drv_fail(DRV_E_DATA, "%s: weight_map of \"%.80s\" is no file name", index, tensor);
    const char *path = path_join(a, f->path, name);
    int i = file_index(f, path);
    if (i < 0) {
        if (!file_exists(path))
            return drv_fail(DRV_E_DATA, "%s: weight_map names \"%.80s\", which is not there", index,
                    name);
        i = f->n;
        DRV_TRY(st_open(a, path, &f->files[i]));
        f->n++;
    }
    if (st_find(&f->files[i], tensor)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: weight_map says that \"%.80s\" is in %s, but it is not", index,
            tensor, name);
}

static drv_status add_by_index(arena *a, folder *f, const char *index, const json_t *root) {
    const json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        return drv_fail(DRV_E_DATA,
                "%s: weight_map is %s, expected an object from tensor to file name", index,
                !map                  ? "missing"
                : json_is_object(map) ? "empty"
                                      : "no object");
    f->files = ARENA_ARRAY(a, st_file, json_object_size(map));
    const char *tensor;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, entry)
            DRV_TRY(add_indexed(a, f, index, tensor, entry));
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->files[i].n; k++) {
            const char *name = f->files[i].tensors[k].name;
            const char *file = json_string_value(json_object_get(map, name));
            if (!file)
                return drv_fail(DRV_E_DATA, "%s: weight_map leaves out \"%.80s\" of %s", index,
                        name, f->files[i].path);
            if (strcmp(path_join(a, f->path, file), f->files[i].path) != 0)
                return drv_fail(DRV_E_DATA, "%s: tensor \"%.80s\" is in %s too, not only in %s",
                        index, name, f->files[i].path, file);
        }
    return DRV_OK;
}

static drv_status open_folder(arena *a, const char *path, const char *which, folder *f) {
    *f = (folder){.path = path};
    char *one = arena_printf(a, "%s/%s.safetensors", path, which);
    char *index = arena_printf(a, "%s/%s.safetensors.index.json", path, which);
    if (file_exists(one)) {
        f->files = ARENA_NEW(a, st_file);
        DRV_TRY(st_open(a, one, f->files));
        f->n = 1;
        return DRV_OK;
    }
    if (!file_exists(index))
        return drv_fail(DRV_E_DATA, "\"%s\" has neither %s.safetensors nor its index", path, which);
    json_t *root;
    DRV_TRY(json_read_file(index, &root));
    drv_status status = add_by_index(a, f, index, root);
    json_decref(root);
    return status;
}

static const st_tensor *find(const folder *f, const char *name, const st_file **file) {
    for (int i = 0; i < f->n; i++) {
        const st_tensor *t = st_find(&f->files[i], name);
        if (t) {
            *file = &f->files[i];
            return t;
        }
    }
    return NULL;
}

// --- what should not be there
static bool is_expected(const ckpt_tensor *list, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].entry.name, name) == 0) return true;
    return false;
}

// The output weight of a model that ties it to the embedding. transformers ignores it, so one that
// differs would give another model here and there.
static drv_status check_tied(const folder *f, const st_file *file, const st_tensor *head) {
    enum { PIECE = 512 }; // elements
    const st_file *other;
    const st_tensor *embedding = find(f, "model.embed_tokens.weight", &other);
    bool same = embedding && embedding->elements == head->elements;
    float x[PIECE], y[PIECE];
    for (int64_t i = 0; same && i < head->elements; i += PIECE) {
        const int64_t n = head->elements - i < PIECE ? head->elements - i : PIECE;
        DRV_TRY(st_read_f32(file, head, i, n, x));
        DRV_TRY(st_read_f32(other, embedding, i, n, y));
        same = memcmp(x, y, sizeof *x * (size_t)n) == 0;
    }
    if (same) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: \"lm_head.weight\" differs from \"model.embed_tokens.weight\", but tie_word_embeddings is true",
            file->path);
}

// Harmless are the frequencies that old releases stored (they follow from rope_theta), and a copy
// of the tied output weight: transformers drops both.
static drv_status refuse_unexpected(const folder *f, const ckpt_tensor *list, int n) {
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->files[i].n; k++) {
            const st_tensor *t = &f->files[i].tensors[k];
            if (is_expected(list, n, t->name)) continue;
            if (str_ends(t->name, "rotary_emb.inv_freq")) continue;
            if (strcmp(t->name, "lm_head.weight") != 0)
                return drv_fail(DRV_E_DATA,
                        "%s: tensor \"%.80s\" has no place in the model of the config",
                        f->files[i].path, t->name);
            DRV_TRY(check_tied(f, &f->files[i], t));
        }
    return DRV_OK;
}

// --- filling
static void print_dims(const int64_t *dim, int n, str *out) {
    str_puts(out, "[");
    for (int i = 0; i < n; i++)
        str_printf(out, i ? ", %lld" : "%lld", (long long)dim[i]);
    str_puts(out, "]");
}

static drv_status check_tensor(const st_file *file, const st_tensor *from, const st_entry *to,
        bool fp32) {
    bool same = from->n_dims == to->n_dims;
    for (int i = 0; same && i < to->n_dims; i++)
        same = from->dim[i] == to->dim[i];
    if (!same) {
        str shape = {0};
        print_dims(from->dim, from->n_dims, &shape);
        str_puts(&shape, ", expected ");
        print_dims(to->dim, to->n_dims, &shape);
        drv_status status = drv_fail(DRV_E_DATA, "%s: tensor \"%s\" has shape %s", file->path,
                to->name, shape.p);
        str_free(&shape);
        return status;
    }
    if (!fp32 || from->type == ST_F32) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is %s, expected F32 to resume from", file->path,
            to->name, from->type_name);
}

static drv_status check_finite(const st_file *file, const st_tensor *t, int64_t first, int64_t n,
        const float *values) {
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(values[i])) continue;
        const int64_t at = first + i, cols = t->n_dims == 2 ? t->dim[1] : 1;
        char place[64];
        if (t->n_dims == 2)
            snprintf(place, sizeof place, "[%lld, %lld]", (long long)(at / cols),
                    (long long)(at % cols));
        else
            snprintf(place, sizeof place, "[%lld]", (long long)at);
        return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is %s at %s, expected finite numbers",
                file->path, t->name, isnan(values[i]) ? "NaN" : "infinite", place);
    }
    return DRV_OK;
}

static drv_status fill_tensor(const st_file *file, const st_tensor *from, const ckpt_tensor *to,
        const ckpt_sink *sink) {
    enum { PIECE = 1 << 16 }; // elements
    DRV_TRY(check_tensor(file, from, &to->entry, sink->fp32_only));
    float *piece = mem_alloc(sizeof *piece * PIECE);
    drv_status status = DRV_OK;
    for (int64_t first = 0; first < from->elements && status == DRV_OK; first += PIECE) {
        const int64_t n = from->elements - first < PIECE ? from->elements - first : PIECE;
        status = st_read_f32(file, from, first, n, piece);
        if (status == DRV_OK) status = check_finite(file, from, first, n, piece);
        if (status == DRV_OK) status = sink->write(sink->ctx, to, first, n, piece);
    }
    free(piece);
    return status;
}

typedef struct filling {
    arena *a;
    const char *path, *which;
    const ckpt_tensor *list;
    int n;
    const ckpt_sink *sink;
    folder folder;
} filling;

static drv_status fill_all(void *ctx) {
    filling *fill = ctx;
    DRV_TRY(open_folder(fill->a, fill->path, fill->which, &fill->folder));
    DRV_TRY(refuse_unexpected(&fill->folder, fill->list, fill->n));
    for (int i = 0; i < fill->n; i++) {
        const st_file *file;
        const char *name = fill->list[i].entry.name;
        const st_tensor *from = find(&fill->folder, name, &file);
        if (!from) return drv_fail(DRV_E_DATA, "\"%s\" has no tensor \"%s\"", fill->path, name);
        DRV_TRY(fill_tensor(file, from, &fill->list[i], fill->sink));
    }
    return DRV_OK;
}

drv_status ckpt_fill(const char *path, const char *which, const ckpt_tensor *list, int n,
        const ckpt_sink *sink) {
    arena *a = arena_new("load");
    filling fill = {a, path, which, list, n, sink, {0}};
    drv_status status = bus_error_guard(fill_all, &fill, path);
    for (int i = 0; i < fill.folder.n; i++)
        st_close(&fill.folder.files[i]);
    arena_free(a);
    return status;
}
