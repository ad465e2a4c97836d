// Tensors are copied as stored, in the order of their data.
#include "ckpt/consolidate.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/model_writer.h"
#include "ckpt/tensor_writer.h"

enum { PIECE = 4 << 20 };

static drv_status entry_of(const source_tensor *t, st_entry *out) {
    *out = (st_entry){.name = t->name, .n_dims = t->n_dims, .type = t->type};
    if (t->type == ST_OTHER || t->type == ST_F64 || t->n_dims < 1 || t->n_dims > 2)
        return drv_fail(DRV_E_DATA,
                "%s: tensor \"%s\" is %s of %d dimensions, expected F32, F16 or BF16 of 1 or 2",
                t->file, t->name, t->type_name, t->n_dims);
    out->dim[0] = t->dim[0];
    out->dim[1] = t->n_dims == 2 ? t->dim[1] : 0;
    return DRV_OK;
}

static drv_status copy_tensor(const model_source *s, const source_tensor *t, tensor_writer *w) {
    const int64_t rows = source_piece_rows(t, PIECE);
    void *piece = mem_alloc((size_t)(rows * t->row_bytes + 1));
    drv_status status = DRV_OK;
    for (int64_t row = 0; row < t->rows && status == DRV_OK; row += rows) {
        const int64_t n = t->rows - row < rows ? t->rows - row : rows;
        status = source_read_raw(s, t, row, n, piece);
        if (status == DRV_OK) status = tensor_writer_add(w, piece, n * t->row_bytes);
    }
    free(piece);
    return status;
}

static drv_status copy_tensors(const model_source *s, const char *which, int64_t shard_bytes,
        out_folder *o) {
    st_entry *list = ARENA_ARRAY(o->a, st_entry, s->n + 1);
    tensor_writer *w;
    for (int i = 0; i < s->n; i++)
        DRV_TRY(entry_of(&s->tensors[i], &list[i]));
    drv_status status = tensor_writer_open(o, which, list, s->n, shard_bytes, &w);
    for (int i = 0; i < s->n && status == DRV_OK; i++) {
        progress("%s: tensor %d of %d", which, i + 1, s->n);
        status = copy_tensor(s, &s->tensors[i], w);
    }
    progress_end();
    return tensor_writer_close(w, status);
}

static drv_status copy_group(arena *a, const char *path, const char *which, int64_t shard_bytes,
        out_folder *o) {
    model_source s;
    DRV_TRY(model_source_open_folder(a, path, which, &s));
    drv_status status = copy_tensors(&s, which, shard_bytes, o);
    model_source_close(&s);
    return status;
}

static bool is_tensors(const char *name) {
    return str_ends(name, ".safetensors") || str_ends(name, ".safetensors.index.json");
}

static drv_status copy_others(arena *a, const char *path, out_folder *o) {
    char **names, *bytes;
    int n;
    size_t n_bytes;
    DRV_TRY(dir_list(a, path, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *file = path_join(a, path, names[i]);
        if (is_tensors(names[i]) || strcmp(names[i], "manifest.json") == 0) continue;
        if (file_is_dir(file)) {
            log_warn("\"%s\" is a folder and is left out", file);
            continue;
        }
        DRV_TRY(file_read(a, file, &bytes, &n_bytes));
        DRV_TRY(out_folder_put(o, names[i], bytes, n_bytes));
    }
    return DRV_OK;
}

static drv_status write_manifest(arena *a, const char *path, out_folder *o) {
    json_t *old;
    const char *file = path_join(a, path, "manifest.json");
    if (!file_exists(file)) return DRV_OK;
    DRV_TRY(json_read_file(file, &old));
    drv_status status = out_folder_manifest(o, json_integer_value(json_object_get(old, "step")));
    json_decref(old);
    return status;
}

static drv_status copy_all(arena *a, const char *path, int64_t shard_bytes, out_folder *o) {
    static const char *const groups[] = {"model", "optimizer", "adapter_model"};
    int n = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const char *one = arena_printf(a, "%s/%s.safetensors", path, groups[i]);
        const char *index = arena_printf(a, "%s.index.json", one);
        if (!file_exists(one) && !file_exists(index)) continue;
        // A reader of checkpoints expects the optimizer in one file.
        const bool sharded = strcmp(groups[i], "model") == 0;
        DRV_TRY(copy_group(a, path, groups[i], sharded ? shard_bytes : INT64_MAX, o));
        n++;
    }
    const char *run = n ? NULL : ckpt_run_hint(a, path);
    if (run) return drv_fail(DRV_E_DATA, "\"%s\" is %s", path, run);
    if (n == 0)
        return drv_fail(DRV_E_DATA, "\"%s\" has neither model.safetensors nor its index", path);
    DRV_TRY(copy_others(a, path, o));
    DRV_TRY(out_folder_sync(o));
    return write_manifest(a, path, o);
}

drv_status ckpt_consolidate(arena *a, const char *path, const char *out, int64_t shard_bytes,
        bool force) {
    out_folder o;
    DRV_TRY(model_write_check(path, out, force));
    DRV_TRY(dir_make_parent(out));
    DRV_TRY(out_folder_begin(a, out, &o));
    drv_status status = copy_all(a, path, shard_bytes, &o);
    if (status == DRV_OK)
        status = file_exists(o.path) && force ? out_folder_commit_into(&o, o.path)
                                              : out_folder_commit(&o, o.path);
    if (status != DRV_OK) out_folder_discard(&o);
    return status;
}
