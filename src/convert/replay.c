// Replays a model layer by layer and piece by piece. Products, norm, attention and swiglu are small
// programs of the engine; everything between them is computed here.
#include "convert/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "ir/program_inputs.h"

enum { PIECE_BYTES = 16 << 20, MAX_PRODUCTS = 64 };

// Computes x_NK W_RK^T for pieces of R rows.
typedef struct product {
    int64_t k, rows;
    const char *x, *w, *y; // names of state tensors
    executable *run;
} product;

struct replay {
    arena *a;
    backend *b;
    model_layout l;
    model_config config;
    const replay_prompts *prompts;
    disturbance disturbed; // of the current model
    int64_t n;             // tokens
    executable *norm, *swiglu;
    executable *attention[2]; // of most layers; of those for which is_other_layer is true
    product products[MAX_PRODUCTS];
    int n_products;
    float *piece;  // of a weight
    float *result; // of a product: [N, rows]
    int64_t result_elements;
};

// --- programs
static tensor *state(graph *g, tensor_class cls, const char *name, int64_t rows, int64_t cols) {
    return graph_state(g, cls, name, DT_F32, cols ? 2 : 1, (int64_t[]){rows, cols});
}

static drv_status compile(replay *r, graph *g, executable **out) {
    plan *planned;
    DRV_TRY(graph_verify(g, STAGE_BUILT));
    return backend_compile(r->a, r->b, g, &planned, out);
}

static drv_status build_norm(replay *r) {
    graph *g = graph_new(r->a, "norm");
    tensor *in[] = {state(g, TENSOR_INPUT, "stream", r->n, r->l.hidden),
            state(g, TENSOR_WEIGHT, "gain", r->l.hidden, 0)};
    const op_attrs attrs = {.norm.eps = r->config.rms_norm_eps};
    graph_output(g, graph_add(g, OP_rmsnorm, 2, in, &attrs)->out[0], "normed");
    return compile(r, g, &r->norm);
}

// Returns whether a layer differs from most: it has the sliding window, or no rotary embedding. No
// family has layers of both kinds.
static bool is_other_layer(const replay *r, int layer) {
    return !model_layer_rotates(&r->config, layer) ||
           (r->config.sliding_window && layer >= r->config.max_window_layers);
}

static drv_status build_attention_in(replay *self, bool other, executable **out) {
    const model_config *config = &self->config;
    graph *program = graph_new(self->a, other ? "attention.other" : "attention");
    tensor *qkv = state(program, TENSOR_INPUT, "qkv", self->n, self->l.qkv_width);
    tensor *position = graph_state(program, TENSOR_INPUT, program_inputs[INPUT_POSITION].name,
            DT_I32, 1, &self->n);
    const op_attrs table = {.heads.head_dim = self->l.head_dim,
            .rope.table_dtype = DT_F32,
            .rope.theta = config->rope_theta,
            .rope.factor = config->rope_factor,
            .rope.low_freq_factor = config->rope_low_freq_factor,
            .rope.high_freq_factor = config->rope_high_freq_factor,
            .rope.original_context = (double)config->rope_original_context};
    if (config->qk_norm) {
        tensor *normed[] = {qkv, state(program, TENSOR_WEIGHT, "q_norm", self->l.head_dim, 0),
                state(program, TENSOR_WEIGHT, "k_norm", self->l.head_dim, 0)};
        const op_attrs norm = {.heads = {self->l.n_heads, self->l.n_kv_heads, self->l.head_dim},
                .norm.eps = config->rms_norm_eps};
        qkv = graph_add(program, OP_head_norm, 3, normed, &norm)->out[0];
    }
    if (!other || !config->no_rope_layer_interval) {
        tensor *rotated[] = {qkv, graph_add(program, OP_rope_table, 1, &position, &table)->out[0]};
        const op_attrs rope = {.heads.n_heads = self->l.n_heads + self->l.n_kv_heads,
                .heads.head_dim = self->l.head_dim};
        qkv = graph_add(program, OP_rope, 2, rotated, &rope)->out[0];
    }
    tensor *in[] = {qkv, position};
    const op_attrs attrs = {.heads = {self->l.n_heads, self->l.n_kv_heads, self->l.head_dim},
            .attention.seq = (int)self->n,
            .attention.window = other ? (int)config->sliding_window : 0};
    graph_output(program, graph_add(program, OP_attention, 2, in, &attrs)->out[0], "attended");
    return compile(self, program, out);
}

static drv_status build_attention(replay *r) {
    const bool others = r->config.sliding_window || r->config.no_rope_layer_interval;
    DRV_TRY(build_attention_in(r, false, &r->attention[0]));
    return others ? build_attention_in(r, true, &r->attention[1]) : DRV_OK;
}

static drv_status build_swiglu(replay *r) {
    graph *g = graph_new(r->a, "swiglu");
    tensor *in = state(g, TENSOR_INPUT, "gate_up", r->n, 2 * r->l.ffn);
    graph_output(g, graph_add(g, OP_swiglu, 1, &in, NULL)->out[0], "activated");
    return compile(r, g, &r->swiglu);
}

static drv_status product_for(replay *self, int64_t k, product **out) {
    for (int i = 0; i < self->n_products; i++)
        if (self->products[i].k == k) {
            *out = &self->products[i];
            return DRV_OK;
        }
    if (self->n_products == MAX_PRODUCTS)
        return drv_fail(DRV_E_DATA, "more than %d widths of matrices (ranks of an adapter?)",
                MAX_PRODUCTS);
    product *p = &self->products[self->n_products++];
    *p = (product){.k = k,
            .rows = PIECE_BYTES / 4 / k < 1 ? 1 : PIECE_BYTES / 4 / k,
            .x = arena_printf(self->a, "x.%lld", (long long)k),
            .w = arena_printf(self->a, "w.%lld", (long long)k),
            .y = arena_printf(self->a, "y.%lld", (long long)k)};
    if (p->rows > 4096) p->rows = 4096; // for a narrow matrix, so that the result stays small
    graph *g = graph_new(self->a, arena_printf(self->a, "product.%lld", (long long)k));
    tensor *in[] = {state(g, TENSOR_INPUT, p->x, self->n, k),
            state(g, TENSOR_WEIGHT, p->w, p->rows, k)};
    graph_output(g, graph_add(g, OP_matmul, 2, in, &(op_attrs){.matmul.tb = 1})->out[0], p->y);
    DRV_TRY(compile(self, g, &p->run));
    if (self->n * p->rows > self->result_elements) {
        self->result_elements = self->n * p->rows;
        self->result =
                mem_realloc(self->result, sizeof *self->result * (size_t)self->result_elements);
    }
    *out = p;
    return DRV_OK;
}

drv_status replay_open(arena *a, const model_config *m, const replay_prompts *prompts,
        replay **out) {
    replay *r = ARENA_NEW(a, replay);
    *r = (replay){.a = a, .config = *m, .prompts = prompts, .n = prompts->n};
    *out = r;
    r->l = layout_of(&r->config);
    const int64_t widest = PIECE_BYTES / 4 > r->l.ffn ? PIECE_BYTES / 4 : r->l.ffn;
    r->piece = mem_alloc(sizeof *r->piece * (size_t)widest);
    product *p;
    drv_status status = backend_open_host(a, &r->b);
    if (status == DRV_OK) status = build_norm(r);
    if (status == DRV_OK) status = build_attention(r);
    if (status == DRV_OK) status = build_swiglu(r);
    if (status == DRV_OK) status = product_for(r, r->l.hidden, &p);
    if (status == DRV_OK) status = product_for(r, r->l.q_width, &p);
    if (status == DRV_OK) status = product_for(r, r->l.ffn, &p);
    if (status == DRV_OK) status = backend_prepare(r->b);
    if (status != DRV_OK) replay_close(r);
    return status;
}

void replay_close(replay *r) {
    if (r->b) backend_close(r->b);
    free(r->piece);
    free(r->result);
    r->b = NULL;
    r->piece = r->result = NULL;
}

// --- weights
static uint64_t mixed(uint64_t x) { // splitmix64
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static drv_status read_weights(const replay *r, const model_source *s, const source_tensor *t,
        int64_t row, int64_t n, float *out) {
    const disturbance *d = &r->disturbed;
    DRV_TRY(source_read_f32(s, t, row, n, out));
    if (d->relative == 0 && d->floor == 0) return DRV_OK;
    const uint64_t key = mixed(d->seed ^ XXH3_64bits(t->name, strlen(t->name)));
    for (int64_t i = 0; i < n * t->cols; i++) {
        const double w = (double)out[i], size = d->relative * fabs(w) + d->floor;
        out[i] = (float)(mixed(key + (uint64_t)(row * t->cols + i)) >> 63 ? w + size : w - size);
    }
    return DRV_OK;
}

// --- products
// Computes columns [column, column + n) of y [N, width]: x times the rows [row, row + n) of a
// tensor. If `scale` is not 0, adds scale times that to y instead.
static drv_status multiply_piece(replay *r, const product *p, const model_source *s,
        const source_tensor *t, int64_t row, int64_t n, float *y, int64_t width, float scale) {
    DRV_TRY(read_weights(r, s, t, row, n, r->piece));
    DRV_TRY(backend_write(r->b, p->w, 0, 4 * n * p->k, r->piece));
    DRV_TRY(backend_run(r->b, p->run));
    DRV_TRY(backend_read(r->b, p->y, 0, 4 * r->n * p->rows, r->result));
    for (int64_t token = 0; token < r->n; token++) {
        const float *from = r->result + token * p->rows;
        float *to = y + token * width;
        for (int64_t i = 0; i < n; i++)
            to[i] = scale != 0 ? to[i] + scale * from[i] : from[i];
    }
    return DRV_OK;
}

// Does the same for n_rows rows from `first` on, in pieces.
static drv_status multiply_rows(replay *r, const model_source *s, const source_tensor *t,
        int64_t first, int64_t n_rows, const float *x_NK, float *y, int64_t width, float scale) {
    product *p;
    DRV_TRY(product_for(r, t->cols, &p));
    DRV_TRY(backend_write(r->b, p->x, 0, 4 * r->n * p->k, x_NK));
    for (int64_t row = 0; row < n_rows; row += p->rows) {
        const int64_t n = n_rows - row < p->rows ? n_rows - row : p->rows;
        DRV_TRY(multiply_piece(r, p, s, t, first + row, n, y + row, width, scale));
    }
    return DRV_OK;
}

static drv_status multiply(replay *r, const model_source *s, const source_tensor *t,
        const float *x_NK, float *y, int64_t width, float scale) {
    return multiply_rows(r, s, t, 0, t->rows, x_NK, y, width, scale);
}

// Computes y += scale (x A^T) B^T.
static drv_status add_adapter(replay *r, const model *m, const char *name, const float *x_NK,
        float *y, int64_t width) {
    const adapter_module *module = m->adapter ? adapter_find(m->adapter, name) : NULL;
    if (!module) return DRV_OK;
    float *low_NR = mem_alloc(sizeof *low_NR * (size_t)(r->n * module->rank));
    const model_source *s = &m->adapter->tensors;
    drv_status status = multiply(r, s, module->a, x_NK, low_NR, module->rank, 0);
    if (status == DRV_OK)
        status = multiply(r, s, module->b, low_NR, y, width, (float)module->scale);
    free(low_NR);
    return status;
}

// Computes columns of y [N, width] from the first on: x times a weight, by its Hugging Face name.
static drv_status linear(replay *r, const model *m, const char *name, const float *x_NK, float *y,
        int64_t width) {
    const source_tensor *t = model_source_find(&m->source, name);
    DRV_TRY(multiply(r, &m->source, t, x_NK, y, width, 0));
    return add_adapter(r, m, name, x_NK, y, width);
}

// Adds a part of a bias to its columns of y [N, width].
static drv_status add_bias(const replay *r, const model *m, const param_part *part, float *y,
        int64_t width) {
    const source_tensor *t = model_source_find(&m->source, part->hf_name);
    float *values = mem_alloc(sizeof *values * (size_t)part->rows);
    const drv_status status = read_weights(r, &m->source, t, 0, part->rows, values);
    for (int64_t token = 0; token < r->n && status == DRV_OK; token++)
        for (int64_t i = 0; i < part->rows; i++)
            y[token * width + part->row + i] += values[i];
    free(values);
    return status;
}

// Computes all parts of a fused weight, side by side.
static drv_status fused(replay *r, const model *m, const param *w, const float *x_NK, float *y) {
    for (int k = 0; k < w->n_parts; k++)
        DRV_TRY(linear(r, m, w->part[k].hf_name, x_NK, y + w->part[k].row, w->dim[0]));
    for (int k = 0; w->bias && k < w->bias->n_parts; k++)
        DRV_TRY(add_bias(r, m, &w->bias->part[k], y, w->dim[0]));
    return DRV_OK;
}

// --- layers
// The activations of all tokens.
typedef struct activations {
    float *stream_NH, *normed_NH, *wide, *attended, *block_NH;
} activations;

// Copies a vector of weights into a state of the program.
static drv_status put_vector(replay *r, const model *m, const param *w, const char *state_name) {
    const source_tensor *t = model_source_find(&m->source, w->part[0].hf_name);
    float *values = mem_alloc(sizeof *values * (size_t)t->rows);
    drv_status status = read_weights(r, &m->source, t, 0, t->rows, values);
    if (status == DRV_OK) status = backend_write(r->b, state_name, 0, 4 * t->rows, values);
    free(values);
    return status;
}

static drv_status put_head_norms(replay *r, const model *m, const layer_params *w) {
    if (!w->q_norm) return DRV_OK;
    DRV_TRY(put_vector(r, m, w->q_norm, "q_norm"));
    return put_vector(r, m, w->k_norm, "k_norm");
}

static drv_status norm(replay *r, const model *m, const param *w, activations *act) {
    const int64_t bytes = 4 * r->n * r->l.hidden;
    DRV_TRY(put_vector(r, m, w, "gain"));
    DRV_TRY(backend_write(r->b, "stream", 0, bytes, act->stream_NH));
    DRV_TRY(backend_run(r->b, r->norm));
    return backend_read(r->b, "normed", 0, bytes, act->normed_NH);
}

static void add_block(const replay *r, activations *act) {
    for (int64_t i = 0; i < r->n * r->l.hidden; i++)
        act->stream_NH[i] += act->block_NH[i];
}

// Computes the output of a block from the normalised stream, to which it is added.
static drv_status attend(replay *r, const model *m, int i, activations *act) {
    const int64_t n = r->n;
    const layer_params *w = &m->params.layer[i];
    DRV_TRY(fused(r, m, w->qkv, act->normed_NH, act->wide));
    DRV_TRY(put_head_norms(r, m, w));
    DRV_TRY(backend_write(r->b, "qkv", 0, 4 * n * r->l.qkv_width, act->wide));
    DRV_TRY(backend_write(r->b, program_inputs[INPUT_POSITION].name, 0, 4 * n,
            r->prompts->position));
    DRV_TRY(backend_run(r->b, r->attention[is_other_layer(r, i)]));
    DRV_TRY(backend_read(r->b, "attended", 0, 4 * n * r->l.q_width, act->attended));
    return fused(r, m, w->o, act->attended, act->block_NH);
}

static drv_status layer(replay *r, const model *m, int i, activations *act) {
    const int64_t n = r->n;
    const layer_params *w = &m->params.layer[i];
    DRV_TRY(norm(r, m, w->input_norm, act));
    DRV_TRY(attend(r, m, i, act));
    add_block(r, act);
    DRV_TRY(norm(r, m, w->post_norm, act));
    DRV_TRY(fused(r, m, w->gate_up, act->normed_NH, act->wide));
    DRV_TRY(backend_write(r->b, "gate_up", 0, 8 * n * r->l.ffn, act->wide));
    DRV_TRY(backend_run(r->b, r->swiglu));
    DRV_TRY(backend_read(r->b, "activated", 0, 4 * n * r->l.ffn, act->wide));
    DRV_TRY(fused(r, m, w->down, act->wide, act->block_NH));
    add_block(r, act);
    return DRV_OK;
}

static drv_status embed(const replay *r, const model *m, activations *act) {
    const source_tensor *t = model_source_find(&m->source, m->params.embedding->part[0].hf_name);
    for (int64_t i = 0; i < r->n; i++)
        DRV_TRY(read_weights(r, &m->source, t, r->prompts->ids[i], 1,
                act->stream_NH + i * r->l.hidden));
    return DRV_OK;
}

static drv_status all_layers(replay *r, const model *m, const char *what, activations *act) {
    const double begin = clock_s();
    DRV_TRY(embed(r, m, act));
    for (int i = 0; i < r->l.n_layers; i++) {
        DRV_TRY(layer(r, m, i, act));
        const double each = (clock_s() - begin) / (i + 1);
        progress("replaying %s: layer %d of %d, %s left", what, i + 1, r->l.n_layers,
                str_duration(each * (r->l.n_layers - i - 1)));
    }
    return norm(r, m, m->params.final_norm, act);
}

drv_status replay_hidden(replay *r, const model *m, const char *what, float *hidden_NH) {
    const size_t n = (size_t)r->n,
                 wide = (size_t)(2 * r->l.ffn > r->l.qkv_width ? 2 * r->l.ffn : r->l.qkv_width);
    const size_t hidden = (size_t)r->l.hidden, q = (size_t)r->l.q_width;
    activations act = {.stream_NH = mem_alloc(4 * n * hidden),
            .normed_NH = hidden_NH,
            .wide = mem_alloc(4 * n * wide),
            .attended = mem_alloc(4 * n * q),
            .block_NH = mem_alloc(4 * n * hidden)};
    r->disturbed = m->disturbed;
    drv_status status = all_layers(r, m, what, &act);
    progress_end();
    free(act.stream_NH);
    free(act.wide);
    free(act.attended);
    free(act.block_NH);
    return status;
}

// --- logits
int64_t replay_logit_rows(const replay *r) {
    return r->products[0].rows; // for width H, which the first product has
}

drv_status replay_logits(replay *r, const model *m, const float *hidden_NH, int64_t row, int64_t n,
        float *logits) {
    const char *name = m->params.head->part[0].hf_name;
    r->disturbed = m->disturbed;
    const source_tensor *t = model_source_find(&m->source, name);
    DRV_TRY(multiply_rows(r, &m->source, t, row, n, hidden_NH, logits, n, 0));
    const adapter_module *module = m->adapter ? adapter_find(m->adapter, name) : NULL;
    if (!module) return DRV_OK;
    float *low_NR = mem_alloc(sizeof *low_NR * (size_t)(r->n * module->rank));
    const model_source *s = &m->adapter->tensors;
    drv_status status = multiply(r, s, module->a, hidden_NH, low_NR, module->rank, 0);
    if (status == DRV_OK)
        status = multiply_rows(r, s, module->b, row, n, low_NR, logits, n, (float)module->scale);
    free(low_NR);
    return status;
}
