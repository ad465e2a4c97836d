// xser: torch_xla/utils/serialization.py, and NeMo's copy of it in neuronx-nemo-megatron.
#include "source/rank_tensors.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "source/megatron_args.h"

static const torch_opts opts = {.more_names = megatron_names};

static void close_later(foreign_model *m, torch_file *file) {
    ARENA_GROW(m->a, m->files, m->n_files, m->cap_files);
    m->files[m->n_files++] = file;
}

drv_status rank_open_file(foreign_model *m, const char *path, bool keeps_open, torch_file **out) {
    *out = ARENA_NEW(m->a, torch_file);
    DRV_TRY(torch_open(m->a, path, &opts, *out));
    close_later(m, *out);
    if (!keeps_open) { // there may be more files than a process may have open
        close((*out)->part.fd);
        (*out)->owns_fd = false;
        (*out)->part.fd = FOREIGN_REOPENED;
    }
    return DRV_OK;
}

drv_status rank_open_part(foreign_model *m, const file_part *part, torch_file **out) {
    *out = ARENA_NEW(m->a, torch_file);
    DRV_TRY(torch_open_part(m->a, part, &opts, *out));
    close_later(m, *out);
    return DRV_OK;
}

bool rank_is_reference(const pickle_value *v) {
    return v->kind == PICKLE_CALL && strcmp(v->call->name->name, "TensorReference") == 0;
}

// A reference is an object with a field tid, K of tensor_K.pt.
static drv_status open_reference(foreign_model *m, const torch_file *file, const char *name,
        const pickle_value *v, torch_file **from) {
    const pickle_value *tid = v->call->state ? pickle_get(v->call->state, "tid") : NULL;
    if (!tid && v->call->arguments->list.n == 1) tid = v->call->arguments->list.items[0];
    if (!tid || tid->kind != PICKLE_INT)
        return drv_fail(DRV_E_DATA, "%s: the reference of \"%s\" has no number", file->part.path,
                name);
    const char *path = arena_printf(m->a, "%s.tensors/tensor_%lld.pt", file->part.path,
            (long long)tid->integer);
    if (!file_exists(path))
        return drv_fail(DRV_E_DATA, "%s: \"%s\" is in \"%s\", which is not there", file->part.path,
                name, path);
    return rank_open_file(m, path, false, from);
}

drv_status rank_tensor_of(foreign_model *m, torch_file *file, const char *name,
        const pickle_value *v, torch_file **from, const torch_tensor **out) {
    torch_tensor *tensor = ARENA_NEW(m->a, torch_tensor);
    bool is_tensor = false;
    *from = file;
    if (rank_is_reference(v)) {
        DRV_TRY(open_reference(m, file, name, v, from));
        v = (*from)->root;
    }
    DRV_TRY(torch_tensor_of(*from, v, tensor, &is_tensor));
    *out = tensor;
    if (is_tensor) return DRV_OK;
    if (*from != file) return drv_fail(DRV_E_DATA, "%s: holds no tensor", (*from)->part.path);
    return drv_fail(DRV_E_DATA, "%s: \"%s\" is %s, expected a tensor", file->part.path, name,
            pickle_kind_name(v->kind));
}
