// Lists the state tensors that make up a checkpoint, and fills them from one.
#include "weights/state.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/pieces.h"
#include "weights/base_blocks.h"

const ckpt_ranks *state_ranks(const held_model *model, ckpt_ranks *out) {
    *out = (ckpt_ranks){.comm = model->comm, .mesh = run_mesh(model->config)};
    return model->comm && comm_size(model->comm) > 1 ? out : NULL;
}

typedef bool wanted_fn(const held_model *model, const param *w);
static bool is_model(const held_model *model DRV_UNUSED, const param *w) {
    return !w->is_adapter;
}
static bool is_adapter(const held_model *model DRV_UNUSED, const param *w) {
    return w->is_adapter;
}
static bool is_trained(const held_model *model DRV_UNUSED, const param *w) {
    return w->trainable;
}
static bool is_of_adamw(const held_model *model, const param *w) {
    return w->trainable && !held_by_muon(model, w);
}

// Returns the pieces of a part of a weight that this rank has: elements `has` of the rank's weight.
// `source` begins with element `source_first` of that weight.
static ckpt_tensor tensor_of(const param *of, const param_part *part, const char *name,
        st_type type, const char *source, int64_t source_first, held_shard has, unsigned replicated,
        bool at_ends) {
    const bool is_matrix = of->n_dims == 2;
    const int64_t columns = is_matrix ? of->dim[1] : 1, begin = part->row * columns,
                  end = begin + part->rows * columns, has_end = has.first + has.n;
    const int64_t from = has.first > begin ? has.first : begin, to = has_end < end ? has_end : end;
    ckpt_tensor t = {
            .entry = {name, of->n_dims, {part->all_rows, is_matrix ? of->all_columns : 0}, type}};
    if (from < to) t.n_pieces = pieces_of_run(from - begin, to - from, columns, t.piece);
    int64_t element = from - source_first; // of the source
    for (int k = 0; k < t.n_pieces; k++) {
        ckpt_piece *p = &t.piece[k];
        p->row += part->first_row;
        p->column += is_matrix ? of->first_column : 0;
        p->source = source;
        p->first = element;
        p->replicated = replicated;
        p->at_ends = at_ends;
        element += p->rows * p->columns;
    }
    return t;
}

// Returns whether both the first and the last stage have the weight.
static bool is_tied_table(const held_model *model, const param *w) {
    return w->is_copy || (model->config->model.tie_word_embeddings && w == model->params.embedding);
}

// Returns the axes along which ranks have replicas of the weight.
static unsigned replicated(const held_model *model, const param *w, bool sharded) {
    unsigned axes = 0;
    if (w->split == SPLIT_NONE) axes |= 1u << AXIS_TENSOR;
    if (!sharded) axes |= 1u << AXIS_DATA | 1u << AXIS_CONTEXT;
    if (model->params.layout.mesh.size[AXIS_PIPELINE] == 1 || is_tied_table(model, w))
        axes |= 1u << AXIS_PIPELINE;
    return axes;
}

// Lists the parameters of all stages; a rank has no pieces of those of other stages.
static param_list all_params(arena *a, const held_model *model) {
    if (model->params.layout.mesh.size[AXIS_PIPELINE] <= 1) return model->params;
    const model_layout all = layout_all_layers(&model->params.layout);
    return llama_params(a, &all, &model->lora);
}

// Returns the type in which a run keeps a moment or the value of a weight, on whatever rank it is.
static st_type type_of(const param *w, const held_model *model, bool is_moment) {
    const run_config *cfg = model->config;
    const bool bf16 = is_moment ? cfg->state_dtype == PRECISION_BF16
                                : w->trainable && param_dtype(w, model->dt) == DT_BF16 &&
                                          !config_has_masters(cfg);
    return bf16 ? ST_BF16 : ST_F32;
}

// Adds the parts of all `wanted` parameters; source_prefix NULL: their values are in the masters.
static ckpt_tensor *add_tensors(arena *a, const held_model *model, wanted_fn *wanted,
        const char *hf_prefix, const char *source_prefix, bool to_load, ckpt_tensor *tensors,
        int *n_tensors) {
    const param_list params = all_params(a, model);
    for (int i = 0; i < params.n; i++) {
        const param *named = &params.p[i],
                    *weight = param_of_part(&model->params, named->part[0].hf_name);
        if (!wanted(model, named)) continue;
        if (!weight) { // it belongs to another stage
            for (int k = 0; k < named->n_parts; k++)
                tensors[(*n_tensors)++] = tensor_of(named, &named->part[k],
                        arena_printf(a, "%s%s", hf_prefix, named->part[k].hf_name),
                        type_of(named, model, source_prefix != NULL), "", 0, (held_shard){0, 0}, 0,
                        false);
            continue;
        }
        const char *source = source_prefix ? arena_printf(a, "%s%s", source_prefix, weight->name)
                                           : held_master(a, model, weight);
        // Up to ZeRO-2 each data rank has the whole compute copy of a weight, but the optimizer may
        // have shards. With ZeRO-3 groups hold the same weights, and each rank saves its share.
        const bool computes = strcmp(source, weight->name) == 0,
                   sharded = model->zero == 3 || (model->zero && !computes && !to_load);
        const held_shard held = held_weight_of(model, weight),
                         shard = sharded && !to_load ? held_shard_of(model, weight) : held;
        const int64_t source_first = computes || to_load ? held.first : shard.first;
        for (int k = 0; k < weight->n_parts; k++)
            tensors[(*n_tensors)++] = tensor_of(weight, &weight->part[k],
                    arena_printf(a, "%s%s", hf_prefix, weight->part[k].hf_name),
                    type_of(named, model, source_prefix != NULL), source, source_first, shard,
                    replicated(model, weight, sharded), is_tied_table(model, weight));
    }
    return tensors;
}

// Bounds the number of parts. A layer has six weights and, for its four inputs, four A, each of up
// to three parts, and seven B, one for each projection; three weights are outside the layers.
static int64_t max_parts(const held_model *model) {
    return (3 * 6 + 3 * 4 + 7) * model->config->model.num_hidden_layers + 3;
}

static ckpt_tensor *list_of(arena *a, const held_model *model, wanted_fn *wanted,
        const char *source_prefix, bool to_load, int *n) {
    *n = 0;
    return add_tensors(a, model, wanted, "", source_prefix, to_load,
            ARENA_ARRAY(a, ckpt_tensor, max_parts(model)), n);
}

ckpt_tensor *state_model(arena *a, const held_model *model, bool to_load, int *n) {
    return list_of(a, model, is_model, NULL, to_load, n);
}

ckpt_tensor *state_adapter(arena *a, const held_model *model, bool to_load, int *n) {
    return list_of(a, model, is_adapter, NULL, to_load, n);
}

ckpt_tensor *state_used(arena *a, const held_model *model, int *n) {
    return list_of(a, model, is_trained, "", false, n);
}

ckpt_tensor *state_gradients(arena *a, const held_model *model, int *n) {
    return list_of(a, model, is_trained, "gradient.", false, n);
}

// Describes NorMuon's mean squares of rows. The rank that orthogonalises the weight has them for
// all tensor ranks, matrix after matrix.
static ckpt_tensor row_squares_of(arena *a, const held_model *model, const param *named, int k) {
    const param_part *part = &named->part[k];
    const param *w = param_of_part(&model->params, part->hf_name);
    ckpt_tensor t = {.entry = {arena_printf(a, "second_momentum_buffer.%s", part->hf_name), 1,
                             {part->all_rows, 0}, ST_F32}};
    const char *source = arena_printf(a, "row_squares.%s", named->name);
    if (!w || !held_has(model, source)) return t;
    const bool by_rows = w->split == SPLIT_ROWS;
    unsigned axes = 1u << AXIS_TENSOR;
    if (!held_has_owners(model)) axes |= 1u << AXIS_DATA | 1u << AXIS_CONTEXT;
    if (model->params.layout.mesh.size[AXIS_PIPELINE] == 1) axes |= 1u << AXIS_PIPELINE;
    t.n_pieces = 1;
    t.piece[0] = (ckpt_piece){.rows = part->all_rows,
            .columns = 1,
            .source = source,
            .first = w->part[k].row * (by_rows ? model->params.layout.mesh.size[AXIS_TENSOR] : 1),
            .replicated = axes};
    return t;
}

static ckpt_tensor *add_row_squares(arena *a, const held_model *model, ckpt_tensor *tensors,
        int *n) {
    const param_list params = all_params(a, model);
    for (int i = 0; i < params.n; i++)
        for (int k = 0; k < params.p[i].n_parts && held_by_muon(model, &params.p[i]); k++)
            tensors[(*n)++] = row_squares_of(a, model, &params.p[i], k);
    return tensors;
}

ckpt_tensor *state_optimizer(arena *a, const held_model *model, int *n) {
    ckpt_tensor *t = ARENA_ARRAY(a, ckpt_tensor, 2 * max_parts(model));
    *n = 0;
    add_tensors(a, model, is_of_adamw, "exp_avg.", "adam_m.", false, t, n);
    add_tensors(a, model, is_of_adamw, "exp_avg_sq.", "adam_v.", false, t, n);
    add_tensors(a, model, held_by_muon, "momentum_buffer.", "momentum.", false, t, n);
    return model->config->optimizer == OPTIMIZER_NORMUON ? add_row_squares(a, model, t, n) : t;
}

static drv_status put_weight(void *ctx, const ckpt_tensor *t, const ckpt_piece *piece,
        int64_t first, int64_t n, const float *values) {
    held_model *model = ctx;
    const param *w = param_of_part(&model->params, t->entry.name);
    return held_write_weight(model, w, held_weight_of(model, w).first + piece->first + first, n,
            values);
}

static drv_status put_values(const held_model *model, const char *state, dtype type,
        int64_t element, int64_t n, const float *values) {
    if (type != DT_BF16) return backend_write(model->b, state, 4 * element, 4 * n, values);
    uint16_t *rounded = mem_alloc(sizeof *rounded * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        rounded[i] = f32_to_bf16(values[i]);
    const drv_status status = backend_write(model->b, state, 2 * element, 2 * n, rounded);
    free(rounded);
    return status;
}

static drv_status put_compute(void *ctx, const ckpt_tensor *t, const ckpt_piece *piece,
        int64_t first, int64_t n, const float *values) {
    held_model *model = ctx;
    const param *w = param_of_part(&model->params, t->entry.name);
    if (w->blocks) return put_weight(ctx, t, piece, first, n, values);
    return put_values(model, w->name, param_dtype(w, model->dt), piece->first + first, n, values);
}

static drv_status check_squares(const ckpt_tensor *t, const ckpt_piece *piece, int64_t first,
        int64_t n, const float *values) {
    const bool squares = str_starts(t->entry.name, "exp_avg_sq.") ||
                         str_starts(t->entry.name, "second_momentum_buffer.");
    for (int64_t i = 0; i < n && squares; i++)
        if (values[i] < 0)
            return drv_fail(DRV_E_DATA, "\"%s\" is %g in row %lld, expected no negative number",
                    t->entry.name, (double)values[i],
                    (long long)(piece->row + (first + i) / piece->columns));
    return DRV_OK;
}

static drv_status put_moment(void *ctx, const ckpt_tensor *t, const ckpt_piece *piece,
        int64_t first, int64_t n, const float *values) {
    held_model *model = ctx;
    DRV_TRY(check_squares(t, piece, first, n, values));
    return put_values(model, piece->source, held_state_type(model, piece->source),
            piece->first + first, n, values);
}

drv_status state_read_f32(void *ctx, const char *source, int64_t first, int64_t n, float *values) {
    const held_model *model = ctx;
    if (held_state_type(model, source) != DT_BF16)
        return backend_read(model->b, source, 4 * first, 4 * n, values);
    uint16_t *stored = (uint16_t *)values + n; // the upper half, converted from below
    DRV_TRY(backend_read(model->b, source, 2 * first, 2 * n, stored));
    for (int64_t i = 0; i < n; i++) {
        const float value = bf16_to_f32(stored[i]);
        memcpy(&values[i], &value, sizeof value);
    }
    return DRV_OK;
}

ckpt_sink state_weight_sink(held_model *model) {
    return (ckpt_sink){put_weight, model, .exact = false};
}

ckpt_sink state_compute_sink(held_model *model) {
    return (ckpt_sink){put_compute, model, .exact = false};
}

drv_status state_load_model(held_model *model, const char *folder, const ckpt_sink *sink) {
    arena *a = arena_new("load weights");
    int n;
    ckpt_tensor *t = state_model(a, model, true, &n);
    ckpt_ranks ranks;
    drv_status s = ckpt_fill(state_ranks(model, &ranks), folder, "model", t, n, sink);
    arena_free(a);
    return s;
}

drv_status state_load_weights(held_model *model, const char *folder) {
    const ckpt_sink sink = state_weight_sink(model);
    return state_load_model(model, folder, &sink);
}

drv_status state_load_eval_weights(held_model *model, const char *folder) {
    const ckpt_sink sink = state_compute_sink(model);
    DRV_TRY(state_load_model(model, folder, &sink));
    return base_blocks_load(model, folder);
}

static drv_status load_moments(held_model *model, const char *folder, const ckpt_sink *sink) {
    arena *a = arena_new("load moments");
    int n;
    ckpt_tensor *list = state_optimizer(a, model, &n);
    ckpt_ranks ranks;
    drv_status status = ckpt_fill(state_ranks(model, &ranks), folder, "optimizer", list, n, sink);
    arena_free(a);
    return status;
}

drv_status state_load_moments(held_model *model, const char *folder) {
    return load_moments(model, folder,
            &(ckpt_sink){put_moment, model, .exact = true, .takes_bf16 = true});
}

drv_status state_load(held_model *model, const char *folder) {
    DRV_TRY(state_load_model(model, folder, &(ckpt_sink){put_weight, model, .exact = true}));
    return state_load_moments(model, folder);
}

drv_status state_load_resumed(held_model *model, const char *folder) {
    DRV_TRY(state_load_model(model, folder, &(ckpt_sink){put_weight, model, .resumes = true}));
    return load_moments(model, folder, &(ckpt_sink){put_moment, model, .resumes = true});
}
