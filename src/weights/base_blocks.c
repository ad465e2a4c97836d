// Chooses the types in which a base is held, and reads the blocks of GGUF files.
#include "weights/base_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "source/model_source.h"

// --- types
typedef struct choosing {
    arena *a;
    const run_config *cfg;
    dtype compute;
    const model_source *source; // with BASE_GGUF; else NULL
    const param_list *params;
} choosing;

// Returns whether a weight is the output weight, or an embedding that is used as one.
static bool is_output(const choosing *c, const param *w) {
    return w == c->params->head ||
           (c->cfg->model.tie_word_embeddings &&
                   strcmp(w->part[0].hf_name, "model.embed_tokens.weight") == 0);
}

static drv_status type_of_part(const choosing *c, const param *w, const param_part *part,
        const quant_type **out) {
    static const quant_id ids[] =
            {[BASE_BF16] = QUANT_BF16, [BASE_Q8_0] = QUANT_Q8_0, [BASE_Q4_K] = QUANT_Q4_K};
    if (c->cfg->base_dtype != BASE_GGUF) {
        *out = quant_type_of(quant_of_weight(ids[c->cfg->base_dtype], is_output(c, w)));
        return DRV_OK;
    }
    const source_tensor *t = model_source_find(c->source, part->hf_name);
    if (!t)
        return drv_fail(DRV_E_DATA, "\"%s\" has no tensor \"%s\"", c->source->path, part->hf_name);
    *out = t->quant;
    if (t->quant->to_f32) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is %s, which is not read; expected one of %s",
            t->file, t->name, t->type_name, quant_types_read());
}

static drv_status check_rows(const choosing *c, const param *w, const param_part *part,
        const quant_type *type) {
    const char *split = "";
    if (w->dim[1] % type->block == 0) return DRV_OK;
    if (w->all_columns != w->dim[1])
        split = arena_printf(c->a, " on each of %lld tensor ranks (%lld in all)",
                (long long)(w->all_columns / w->dim[1]), (long long)w->all_columns);
    return config_refuse(c->cfg, "model.base_dtype",
            "is %s, but \"%s\" has rows of %lld numbers%s, expected a multiple of %d, the numbers of a block of %s",
            base_dtype_name(c->cfg->base_dtype), part->hf_name, (long long)w->dim[1], split,
            type->block, type->name);
}

// Chooses the types of a matrix: one for all rows, unless its parts have several in a GGUF file.
static drv_status choose_types(const choosing *c, param *w) {
    block_matrix *blocks = ARENA_NEW(c->a, block_matrix);
    const quant_type *plain = quant_type_of(c->compute == DT_BF16 ? QUANT_BF16 : QUANT_F32);
    _Static_assert((int)MAX_PARTS <= (int)MAX_BLOCK_PARTS, "a type for each part");
    *blocks = (block_matrix){.columns = w->dim[1]};
    bool all_plain = true;
    for (int k = 0; k < w->n_parts; k++) {
        const quant_type *type = NULL;
        DRV_TRY(type_of_part(c, w, &w->part[k], &type));
        DRV_TRY(check_rows(c, w, &w->part[k], type));
        all_plain &= type == plain;
        if (k == 0 || type != blocks->part[blocks->n_parts - 1].type)
            blocks->part[blocks->n_parts++].type = type;
        blocks->part[blocks->n_parts - 1].rows += w->part[k].rows;
    }
    if (!all_plain) w->blocks = blocks;
    return DRV_OK;
}

static drv_status open_file(arena *a, const run_config *cfg, const char *folder,
        model_source *out) {
    DRV_TRY_CTX(model_source_open(a, folder, out), "%s: model.from",
            config_where(cfg, "model.from"));
    for (int i = 0; i < out->n; i++)
        if (out->tensors[i].quant) return DRV_OK;
    const char *format = out->reader->format;
    model_source_close(out);
    return config_refuse(cfg, "model.base_dtype",
            "is gguf, but model.from \"%s\" is %s, expected a folder that drover ckpt import --keep-blocks has made of "
            "a GGUF file",
            folder, format);
}

drv_status base_blocks_choose(arena *mem, const run_config *cfg, dtype compute,
        param_list *params) {
    choosing c = {.a = mem, .cfg = cfg, .compute = compute, .params = params};
    model_source source;
    drv_status status = DRV_OK;
    if (cfg->base_dtype == BASE_AUTO) return DRV_OK;
    arena *a = arena_new("header of the base");
    if (cfg->base_dtype == BASE_GGUF) {
        status = open_file(a, cfg, cfg->from, &source);
        c.source = status == DRV_OK ? &source : NULL;
    }
    for (int i = 0; i < params->n && status == DRV_OK; i++) {
        param *w = &params->p[i];
        if (w->n_dims == 2 && !w->trainable) status = choose_types(&c, w);
    }
    if (c.source) model_source_close(&source);
    arena_free(a);
    return status;
}

drv_status base_blocks_hold(arena *mem, run_config *cfg, const char *folder, dtype compute,
        param_list *params) {
    model_source source;
    bool quantised = false;
    arena *a = arena_new("header of the model");
    drv_status status = model_source_open(a, folder, &source);
    if (status == DRV_OK) {
        for (int i = 0; i < source.n; i++)
            quantised |= source.tensors[i].quant != NULL;
        model_source_close(&source);
    }
    arena_free(a);
    DRV_TRY(status);
    if (!quantised)
        return drv_fail(DRV_E_USAGE,
                "the weights of \"%s\" are not those of a GGUF file, which --precision blocks expects",
                folder);
    cfg->from = folder;
    cfg->base_dtype = BASE_GGUF;
    for (int i = 0; i < params->n; i++)
        params->p[i].trainable = params->p[i].is_adapter;
    return base_blocks_choose(mem, cfg, compute, params);
}

// --- the blocks of a file
enum { PIECE = 1 << 22 }; // bytes that are read at a time

typedef struct byte_run {
    int64_t skipped, at, n; // bytes before it in the requested range, and in the state
} byte_run;

// Returns the bytes among [offset, offset + n) of a weight that this rank has.
static byte_run bytes_here(const held_model *model, const param *w, int64_t offset, int64_t n) {
    const int64_t begin = block_matrix_at(w->blocks, held_weight_of(model, w).first),
                  end = begin + held_weight_bytes(model, w), from = offset > begin ? offset : begin,
                  to = offset + n < end ? offset + n : end;
    return (byte_run){from - offset, from - begin, to > from ? to - from : 0};
}

// Reads this rank's rows of a part, and its columns of each row.
static drv_status load_part(held_model *model, const model_source *source, const param *weight,
        const param_part *part) {
    const source_tensor *t = model_source_find(source, part->hf_name);
    const int64_t mine = block_row_bytes(t->quant, weight->dim[1]),
                  before = block_row_bytes(t->quant, weight->first_column),
                  most = PIECE / t->row_bytes > 0 ? PIECE / t->row_bytes : 1;
    char *rows = mem_alloc((size_t)(most * t->row_bytes));
    drv_status status = DRV_OK;
    for (int64_t row = 0, n; row < part->rows && status == DRV_OK; row += n) {
        const quant_type *type;
        const int64_t offset = block_row_at(weight->blocks, part->row + row, &type);
        n = part->rows - row < most ? part->rows - row : most;
        const byte_run here = bytes_here(model, weight, offset, n * mine);
        if (here.n == 0) continue; // another rank has these rows
        status = source_read_blocks(source, t, part->first_row + row, n, rows);
        for (int64_t i = 0; i < n; i++)
            memmove(rows + i * mine, rows + i * t->row_bytes + before, (size_t)mine);
        if (status == DRV_OK)
            status = backend_write(model->b, weight->name, here.at, here.n, rows + here.skipped);
    }
    free(rows);
    return status;
}

drv_status base_blocks_load(held_model *model, const char *folder) {
    model_source source;
    if (model->config->base_dtype != BASE_GGUF) return DRV_OK;
    arena *a = arena_new("blocks of the base");
    drv_status status = open_file(a, model->config, folder, &source);
    const bool opened = status == DRV_OK;
    for (int i = 0; i < model->params.n && status == DRV_OK; i++) {
        const param *w = &model->params.p[i];
        status = stop_check("weights were loaded");
        for (int k = 0; k < w->n_parts && w->blocks && status == DRV_OK; k++)
            status = load_part(model, &source, w, &w->part[k]);
    }
    if (opened) model_source_close(&source);
    arena_free(a);
    return status;
}
