// Tensors of a model into the state of a run: exactly those that are expected.
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"

enum { PIECE = 1 << 18 }; // bytes in fp32

// --- what should not be there
static drv_status refuse_unexpected(arena *a, const model_source *s, const ckpt_tensor *list, int n,
        bool beside_masters) {
    name_map expected = {.a = a};
    for (int i = 0; i < n; i++)
        name_map_set(&expected, list[i].entry.name, (void *)(uintptr_t)&list[i]);
    for (int i = 0; i < s->n; i++) {
        const source_tensor *t = &s->tensors[i];
        bool drops;
        if (name_map_get(&expected, t->name)) continue;
        if (beside_masters && str_starts(t->name, CKPT_MASTER)) continue;
        DRV_TRY(model_source_drops(s, t, &drops));
        if (!drops)
            return drv_fail(DRV_E_DATA,
                    "%s: tensor \"%.80s\" has no place in the model of the config", t->file,
                    t->name);
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

static drv_status check_shape(const source_tensor *from, const st_entry *to) {
    bool same = from->n_dims == to->n_dims;
    for (int i = 0; same && i < to->n_dims; i++)
        same = from->dim[i] == to->dim[i];
    if (same) return DRV_OK;
    str shape = {0};
    print_dims(from->dim, from->n_dims, &shape);
    str_puts(&shape, ", expected ");
    print_dims(to->dim, to->n_dims, &shape);
    drv_status status =
            drv_fail(DRV_E_DATA, "%s: tensor \"%s\" has shape %s", from->file, to->name, shape.p);
    str_free(&shape);
    return status;
}

static drv_status fill_tensor(const model_source *s, const source_tensor *from,
        const ckpt_tensor *to, const ckpt_sink *sink) {
    if (sink->fp32_only && from->type != ST_F32)
        return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is %s, expected F32 to resume from",
                from->file, to->entry.name, from->type_name);
    const int64_t rows = source_piece_rows(from, PIECE);
    float *piece = mem_alloc(sizeof *piece * (size_t)(rows * from->cols));
    drv_status status = DRV_OK;
    for (int64_t row = 0; row < from->rows && status == DRV_OK; row += rows) {
        const int64_t n = from->rows - row < rows ? from->rows - row : rows;
        status = source_read_f32(s, from, row, n, piece);
        if (status == DRV_OK)
            status = sink->write(sink->ctx, to, row * from->cols, n * from->cols, piece);
    }
    free(piece);
    return status;
}

static drv_status check(const model_source *s, const ckpt_tensor *list, int n,
        bool beside_masters) {
    arena *a = arena_new("expected tensors");
    drv_status status = refuse_unexpected(a, s, list, n, beside_masters);
    for (int i = 0; i < n && status == DRV_OK; i++) {
        const char *name = list[i].entry.name;
        const source_tensor *from = model_source_find(s, name);
        status =
                from ? check_shape(from, &list[i].entry)
                     : drv_fail(DRV_E_DATA, "\"%s\" has no tensor \"%s\"%s", s->path, name,
                               strcmp(name, "lm_head.weight") == 0
                                       ? "; if the embedding takes its place, config.json has to say "
                                         "tie_word_embeddings: true"
                                       : "");
    }
    arena_free(a);
    return status;
}

drv_status ckpt_check(const model_source *s, const ckpt_tensor *list, int n) {
    return check(s, list, n, false);
}

drv_status ckpt_fill(const char *path, const char *which, const ckpt_tensor *list, int n,
        const ckpt_sink *sink) {
    arena *a = arena_new("load");
    model_source s;
    const bool is_model = strcmp(which, "model") == 0;
    drv_status status = !is_model         ? model_source_open_folder(a, path, which, &s)
                        : sink->fp32_only ? model_source_open_masters(a, path, &s)
                                          : model_source_open(a, path, &s);
    if (status == DRV_OK) status = check(&s, list, n, !is_model);
    for (int i = 0; i < n && status == DRV_OK; i++)
        status = fill_tensor(&s, model_source_find(&s, list[i].entry.name), &list[i], sink);
    model_source_close(&s);
    arena_free(a);
    return status;
}
