// Writes fp32 values to a weight's master and to its compute copy, and makes fresh values.
#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "base/round.h"
#include "base/stop.h"
#include "weights/held_model.h"

// Returns whether the weight is a rounded copy of a master. A frozen weight has no master.
static bool has_master(const held_model *model, const param *w) {
    return w->trainable && param_dtype(w, model->dt) != dtype_acc(model->dt) &&
           config_has_masters(model->config);
}

const char *held_master(arena *a, const held_model *model, const param *w) {
    return has_master(model, w) ? arena_printf(a, "master.%s", w->name) : w->name;
}

// Writes those of elements [first, first + n) that this rank's master has.
static drv_status write_master(held_model *model, const param *w, int64_t first, int64_t n,
        const float *values) {
    char master[256];
    const held_shard shard = held_shard_of(model, w);
    const int64_t from = first > shard.first ? first : shard.first,
                  end = first + n < shard.first + shard.n ? first + n : shard.first + shard.n;
    snprintf(master, sizeof master, "master.%s", w->name);
    if (from >= end) return DRV_OK;
    return backend_write(model->b, master, 4 * (from - shard.first), 4 * (end - from),
            values + (from - first));
}

// Elements that a thread fills at a time, and elements that it rounds at a time.
enum { PIECE = 1 << 16, ROUNDED = 2048 };

// --- values into blocks
enum {
    QUANTISED = 1 << 13
}; // elements that a thread quantises at a time: whole blocks of any type

typedef struct quantise_call {
    const quant_type *type;
    const float *values;
    int64_t n;
    unsigned char *blocks;
} quantise_call;

static void quantise_piece(void *arg, int64_t i) {
    const quantise_call *call = arg;
    const quant_type *type = call->type;
    const int64_t first = i * QUANTISED, left = call->n - first,
                  n = left < QUANTISED ? left : QUANTISED;
    type->from_f32(call->values + first, n / type->block,
            call->blocks + first / type->block * type->block_bytes);
}

static drv_status check_limit(const param *w, const quant_type *type, int64_t n,
        const float *values) {
    for (int64_t i = 0; i < n && type->limit > 0; i++)
        if (!(fabsf(values[i]) < type->limit))
            return drv_fail(DRV_E_DATA, "\"%s\" has the value %g, which %s cannot hold", w->name,
                    (double)values[i], type->name);
    return DRV_OK;
}

// Quantises and writes contiguous rows of one type, in whole blocks; `begin` is the first element
// that this rank holds. Blocks of a GGUF file are read as they are instead (base_blocks_load).
static drv_status write_blocks(held_model *model, const param *w, int64_t begin, int64_t first,
        int64_t n, const float *values) {
    const int64_t columns = w->blocks->columns,
                  offset = block_matrix_at(w->blocks, first) - block_matrix_at(w->blocks, begin);
    const quant_type *type;
    block_row_at(w->blocks, first / columns, &type);
    if (model->config->base_dtype == BASE_GGUF) return DRV_OK;
    DRV_ASSERT(first % columns % type->block == 0 && n % type->block == 0, "blocks of \"%s\"",
            w->name);
    DRV_TRY(check_limit(w, type, n, values));
    const int64_t bytes = block_row_bytes(type, n);
    quantise_call call = {type, values, n, mem_alloc((size_t)bytes)};
    par_for(div_up(n, QUANTISED), quantise_piece, &call);
    const drv_status status = backend_write(model->b, w->name, offset, bytes, call.blocks);
    free(call.blocks);
    return status;
}

// Returns the elements among [first, first + n) of a weight that this rank has.
static held_shard part_here(const held_model *model, const param *w, int64_t first, int64_t n) {
    const held_shard here = held_weight_of(model, w);
    const int64_t from = first > here.first ? first : here.first,
                  end = first + n < here.first + here.n ? first + n : here.first + here.n;
    return (held_shard){from, end > from ? end - from : 0};
}

drv_status held_write_weight(held_model *model, const param *w, int64_t first, int64_t n,
        const float *values) {
    backend *b = model->b;
    if (has_master(model, w)) DRV_TRY(write_master(model, w, first, n, values));
    const int64_t begin = held_weight_of(model, w).first;
    const held_shard part = part_here(model, w, first, n);
    if (part.n == 0) return DRV_OK;
    const float *here = values + (part.first - first);
    if (w->blocks) return write_blocks(model, w, begin, part.first, part.n, here);
    if (param_dtype(w, model->dt) == DT_F32)
        return backend_write(b, w->name, (part.first - begin) * 4, part.n * 4, here);
    uint16_t rounded[ROUNDED];
    for (int64_t i = 0; i < part.n; i += ROUNDED) {
        const int64_t m = part.n - i < ROUNDED ? part.n - i : ROUNDED;
        for (int64_t j = 0; j < m; j++)
            rounded[j] = f32_to_bf16(here[i + j]);
        DRV_TRY(backend_write(b, w->name, (part.first - begin + i) * 2, m * 2, rounded));
    }
    return DRV_OK;
}

typedef struct fill_call { // one part of a weight, filled by all threads
    held_model *model;
    const param *w;
    const param_part *part;
    drv_status *status; // by piece
} fill_call;

static int64_t columns_of(const param *w) {
    return w->n_dims == 2 ? w->dim[1] : 1;
}

static int64_t part_elements(const param *w, const param_part *part) {
    return part->rows * columns_of(w);
}

// Draws n values from element `first` of the Hugging Face parameter on.
static void draw(const fill_call *f, int64_t first, int64_t n, float *x) {
    const run_config *cfg = f->model->config;
    const rng_key key = {(uint64_t)cfg->seed, RNG_INIT, hash_name(f->part->hf_name)};
    const double bound = f->w->n_dims == 2 ? 1 / sqrt((double)f->w->all_columns) : 0;
    switch (f->w->init) {
    case INIT_NORMAL:
        rng_normal_fill(&key, (uint64_t)first, n, cfg->model.initializer_range, x);
        return;
    case INIT_UNIFORM:
        for (int64_t j = 0; j < n; j++)
            x[j] = (float)(bound * (2 * rng_uniform(&key, (uint64_t)(first + j)) - 1));
        return;
    case INIT_ONES:
    case INIT_ZEROS:
        for (int64_t j = 0; j < n; j++)
            x[j] = f->w->init == INIT_ONES;
    }
}

// Draws elements of this rank's part, row by row: the values do not depend on the layout.
static void draw_part(const fill_call *f, int64_t first, int64_t n, float *x) {
    const param *w = f->w;
    const int64_t columns = columns_of(w), above = f->part->first_row;
    if (columns == w->all_columns) {
        draw(f, above * columns + first, n, x);
        return;
    }
    for (int64_t i = 0; i < n;) {
        const int64_t row = (first + i) / columns, column = (first + i) % columns;
        const int64_t left = columns - column, m = left < n - i ? left : n - i;
        draw(f, (above + row) * w->all_columns + w->first_column + column, m, x + i);
        i += m;
    }
}

static void fill_piece(void *arg, int64_t i) {
    const fill_call *f = arg;
    const int64_t total = part_elements(f->w, f->part), first = i * PIECE,
                  n = total - first < PIECE ? total - first : PIECE;
    const int64_t above = f->part->row * (total / f->part->rows);
    if (part_here(f->model, f->w, above + first, n).n == 0) return; // another rank has them
    float *x = mem_alloc(sizeof *x * PIECE);
    draw_part(f, first, n, x);
    f->status[i] = held_write_weight(f->model, f->w, above + first, n, x);
    free(x);
}

static drv_status fill_part(held_model *model, const param *w, const param_part *part) {
    const int64_t pieces = div_up(part_elements(w, part), PIECE);
    fill_call f = {.model = model,
            .w = w,
            .part = part,
            .status = mem_zeroed(sizeof *f.status * (size_t)pieces)};
    par_for(pieces, fill_piece, &f);
    drv_status status = DRV_OK;
    for (int64_t i = 0; i < pieces && status == DRV_OK; i++)
        status = f.status[i];
    free(f.status);
    return status;
}

static drv_status init_weights(held_model *model, bool adapter_alone) {
    for (int i = 0; i < model->params.n; i++) {
        const param *w = &model->params.p[i];
        DRV_TRY(stop_check("fresh weights were drawn"));
        for (int k = 0; k < w->n_parts; k++)
            if (w->is_adapter || !adapter_alone) DRV_TRY(fill_part(model, w, &w->part[k]));
    }
    return DRV_OK;
}

drv_status held_init_weights(held_model *model) {
    return init_weights(model, false);
}

drv_status held_init_adapter(held_model *model) {
    return init_weights(model, true);
}
