// Tensors are copied as stored, in the order of their data.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/model_writer.h"
#include "model/family/model_files.h"

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

static drv_status copy_tensors(const model_source *s, const char *which, int64_t shard_bytes,
        out_folder *o) {
    const model_write_opts opts = {.verb = "consolidate"};
    st_entry *list = ARENA_ARRAY(o->a, st_entry, s->n + 1);
    for (int i = 0; i < s->n; i++)
        DRV_TRY(entry_of(&s->tensors[i], &list[i]));
    return model_write_tensors(s, which, list, s->n, shard_bytes, o, &opts);
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
    char **names;
    int n;
    DRV_TRY(dir_list(a, path, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *file = path_join(a, path, names[i]);
        if (is_tensors(names[i]) || strcmp(names[i], "manifest.json") == 0) continue;
        if (!file_is_dir(file))
            DRV_TRY(out_folder_copy(o, names[i], file));
        else if (strcmp(names[i], path_parent(a, TOOL_TEMPLATE_FILE)) != 0)
            log_warn("\"%s\" is a folder and is left out", file);
    }
    const char *tools = path_join(a, path, TOOL_TEMPLATE_FILE);
    return file_exists(tools) ? out_folder_copy(o, TOOL_TEMPLATE_FILE, tools) : DRV_OK;
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
    file_lock lock;
    out_folder o;
    DRV_TRY(model_write_open(a, path, out, force, &o, &lock));
    drv_status status = out_folder_make(&o);
    if (status == DRV_OK) status = copy_all(a, path, shard_bytes, &o);
    if (status == DRV_OK) status = out_folder_place(&o, force);
    if (status != DRV_OK) out_folder_discard(&o);
    file_lock_release(&lock);
    return status;
}
