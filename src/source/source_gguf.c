// GGUF files as sources: tensors under Hugging Face's names, in its order of rows, and config.json
// and the tokenizer's files made from the metadata.
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "source/model_source.h"
#include "gguf/llama_meta.h"
#include "gguf/llama_generation.h"
#include "gguf/llama_names.h"
#include "gguf/vocabulary.h"

typedef struct gguf_source {
    arena *a;
    gguf_file file;
    llama_meta meta;
    st_type type; // of the matrices, where all have one that safetensors hold; else ST_F32
} gguf_source;

// The type of a source tensor's `origin`.
typedef struct gguf_origin {
    const gguf_tensor *tensor;
    bool interleaved; // rows of q and k
} gguf_origin;

// --- what is there
static void shape_of(const llama_meta *m, const char *name, int64_t dim[2]) {
    const int64_t q = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
    const struct {
        const char *part;
        int64_t rows, cols; // cols 1: a vector
    } shapes[] = {{"token_embd", m->vocab_size, m->hidden_size}, {"attn_q_norm", m->head_dim, 1},
            {"attn_k_norm", m->head_dim, 1}, {"norm", m->hidden_size, 1},
            {"attn_q", q, m->hidden_size}, {"attn_k", kv, m->hidden_size},
            {"attn_v", kv, m->hidden_size}, {"attn_output", m->hidden_size, q},
            {"ffn_gate", m->intermediate_size, m->hidden_size},
            {"ffn_up", m->intermediate_size, m->hidden_size},
            {"ffn_down", m->hidden_size, m->intermediate_size},
            {"output", m->vocab_size, m->hidden_size}};
    size_t i = 0;
    while (!strstr(name, shapes[i].part))
        i++;
    dim[0] = shapes[i].rows;
    dim[1] = shapes[i].cols;
}

static drv_status check_shape(const gguf_source *g, const gguf_tensor *t, const llama_name *row) {
    int64_t dim[2];
    shape_of(&g->meta, row->gguf, dim);
    const bool vector = row->n_dims == 1;
    const int64_t cols = vector ? dim[0] : dim[1], rows = vector ? 1 : dim[0];
    if (gguf_cols(t) == cols && gguf_rows(t) == rows && t->dim[1] <= rows) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: tensor \"%s\" has %lld rows of %lld, expected %lld of %lld by the metadata",
            g->file.path, t->name, (long long)gguf_rows(t), (long long)gguf_cols(t),
            (long long)rows, (long long)cols);
}

static drv_status refuse_tensor(const gguf_source *g, const char *name) {
    return drv_fail(DRV_E_DATA,
            "%s: tensor \"%s\" has no place in a model of architecture \"%s\" with %lld layers",
            g->file.path, name, g->meta.family->gguf, (long long)g->meta.n_layers);
}

static drv_status check_complete(const gguf_source *g) {
    for (int i = 0; i < n_llama_names; i++) {
        const bool layered = strstr(llama_names[i].gguf, "%d") != NULL;
        const int64_t n = layered ? g->meta.n_layers : 1;
        if (strcmp(llama_names[i].gguf, "output.weight") == 0) continue; // absent: tied
        if (!llama_name_is_of(&llama_names[i], g->meta.family)) continue;
        for (int layer = 0; layer < n; layer++) {
            const char *name = llama_name_print(g->a, llama_names[i].gguf, layer);
            if (!gguf_find_tensor(&g->file, name))
                return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is missing", g->file.path, name);
        }
    }
    return DRV_OK;
}

// --- types
static st_type type_of(const quant_type *t) {
    st_type type = ST_OTHER;
    if (strcmp(t->name, "F32") == 0) type = ST_F32;
    if (strcmp(t->name, "F16") == 0) type = ST_F16;
    if (strcmp(t->name, "BF16") == 0) type = ST_BF16;
    return type;
}

static st_type type_of_matrices(const gguf_file *f) {
    st_type type = ST_OTHER;
    for (int i = 0; i < f->n_tensors; i++) {
        const gguf_tensor *t = &f->tensors[i];
        if (gguf_rows(t) == 1) continue;
        const st_type its = type_of(t->type);
        if (its == ST_OTHER || (type != ST_OTHER && its != type)) return ST_F32;
        type = its;
    }
    return type == ST_OTHER ? ST_F32 : type;
}

// GGUF stores norms in fp32 for models of any type. They are converted back where that loses
// nothing, so a model comes back as it went.
static drv_status fits_type(const gguf_source *g, const gguf_tensor *t, bool *fits) {
    float *values = mem_alloc(sizeof *values * (size_t)t->elements);
    const drv_status status = gguf_read_f32(&g->file, t, 0, 1, values);
    *fits = status == DRV_OK;
    for (int64_t i = 0; *fits && i < t->elements; i++) {
        const float x = values[i], back = g->type == ST_F16 ? f16_to_f32(f32_to_f16(x))
                                                            : bf16_to_f32(f32_to_bf16(x));
        *fits = memcmp(&x, &back, sizeof x) == 0;
    }
    free(values);
    return status;
}

// --- reading
static const gguf_source *state_of(const model_source *s) {
    return s->state;
}

// A vector is one row in the file, and here a row per element.
static drv_status read_vector(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        float *out) {
    const gguf_origin *from = t->origin;
    float *values = mem_alloc(sizeof *values * (size_t)t->rows);
    const drv_status status = gguf_read_f32(&state_of(s)->file, from->tensor, 0, 1, values);
    if (status == DRV_OK) memcpy(out, values + row, sizeof *values * (size_t)n);
    free(values);
    return status;
}

static drv_status read_f32(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        float *out) {
    const gguf_origin *from = t->origin;
    const gguf_source *g = state_of(s);
    if (t->n_dims == 1) return read_vector(s, t, row, n, out);
    if (!from->interleaved) return gguf_read_f32(&g->file, from->tensor, row, n, out);
    for (int64_t i = 0; i < n; i++)
        DRV_TRY(gguf_read_f32(&g->file, from->tensor, llama_row_in_gguf(row + i, g->meta.head_dim),
                1, out + i * t->cols));
    return DRV_OK;
}

static drv_status read_raw(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        void *out) {
    const gguf_origin *from = t->origin;
    const gguf_source *g = state_of(s);
    if (t->n_dims == 1) {
        float *values = mem_alloc(sizeof *values * (size_t)n);
        drv_status status = read_vector(s, t, row, n, values);
        if (status == DRV_OK) status = tensor_round(t->name, t->type, values, n, out);
        free(values);
        return status;
    }
    if (!from->interleaved) return gguf_read_raw(&g->file, from->tensor, row, n, out);
    for (int64_t i = 0; i < n; i++)
        DRV_TRY(gguf_read_raw(&g->file, from->tensor, llama_row_in_gguf(row + i, g->meta.head_dim),
                1, (char *)out + i * t->row_bytes));
    return DRV_OK;
}

static drv_status read_config(const model_source *s, json_t **out) {
    const gguf_source *g = state_of(s);
    *out = llama_config_json(&g->meta, g->type == ST_F16    ? "float16"
                                       : g->type == ST_BF16 ? "bfloat16"
                                                            : "float32");
    return DRV_OK;
}

static ckpt_carried carried(arena *a, const char *name, str *text) {
    const ckpt_carried file = {.name = name,
            .bytes = arena_strndup(a, text->p, text->n),
            .n = text->n};
    str_free(text);
    return file;
}

static drv_status read_files(arena *a, const model_source *source, ckpt_carried **list,
        int *n_out) {
    const gguf_source *gguf = state_of(source);
    bpe_lists v;
    json_t *generation;
    bool found;
    str text = {0};
    *list = ARENA_ARRAY(a, ckpt_carried, 3);
    *n_out = 0;
    DRV_TRY(llama_generation_json(&gguf->file, &gguf->meta, &generation));
    json_print_to(&text, generation, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    str_puts(&text, "\n");
    (*list)[(*n_out)++] = carried(a, "generation_config.json", &text);
    DRV_TRY(vocabulary_read(a, &gguf->file, &v, &found));
    if (!found) return DRV_OK;
    v.context = gguf->meta.context;
    bpe_tokenizer_json(&v, &text);
    (*list)[(*n_out)++] = carried(a, "tokenizer.json", &text);
    bpe_config_json(&v, &text);
    (*list)[(*n_out)++] = carried(a, "tokenizer_config.json", &text);
    return DRV_OK;
}

static void close_gguf(model_source *s) {
    gguf_source *g = s->state;
    gguf_close(&g->file);
}

static const source_reader gguf_reader = {.format = "a GGUF file",
        .read_raw = read_raw,
        .read_f32 = read_f32,
        .config = read_config,
        .files = read_files,
        .close = close_gguf};

// --- opening
static drv_status add_tensor(gguf_source *gguf, const gguf_tensor *tensor, model_source *out) {
    int layer;
    const llama_name *row = llama_name_of_gguf(tensor->name, &layer);
    if (strcmp(tensor->name, "rope_freqs.weight") == 0) return DRV_OK; // config.json has it
    if (!row || layer >= gguf->meta.n_layers || !llama_name_is_of(row, gguf->meta.family))
        return refuse_tensor(gguf, tensor->name);
    DRV_TRY(check_shape(gguf, tensor, row));
    gguf_origin *origin = ARENA_NEW(gguf->a, gguf_origin);
    *origin = (gguf_origin){tensor, llama_name_interleaves(row, gguf->meta.family)};
    source_tensor *listed = &out->tensors[out->n++];
    *listed = (source_tensor){.name = llama_name_print(gguf->a, row->hf, layer),
            .file = gguf->file.path,
            .type_name = tensor->type->name,
            .type = type_of(tensor->type),
            .n_dims = row->n_dims,
            .origin = origin};
    shape_of(&gguf->meta, row->gguf, listed->dim);
    listed->rows = listed->dim[0];
    listed->cols = row->n_dims == 2 ? listed->dim[1] : 1;
    listed->row_bytes = gguf_row_bytes(tensor);
    listed->quant = row->n_dims == 2 ? tensor->type : NULL;
    if (row->n_dims == 1) {
        bool fits = false;
        if (gguf->type != ST_F32) DRV_TRY(fits_type(gguf, tensor, &fits));
        listed->type = fits ? gguf->type : ST_F32;
        listed->type_name = st_type_name(listed->type);
        listed->row_bytes = st_type_bytes(listed->type);
        listed->dim[1] = 0;
    }
    name_map_set(&out->by_name, listed->name, listed);
    return DRV_OK;
}

static drv_status open_all(gguf_source *g, const char *path, model_source *out) {
    DRV_TRY(gguf_open(g->a, path, &g->file));
    DRV_TRY(llama_meta_read(g->a, &g->file, &g->meta));
    DRV_TRY(check_complete(g));
    g->type = type_of_matrices(&g->file);
    out->tensors = ARENA_ARRAY(g->a, source_tensor, g->file.n_tensors + 1);
    for (int i = 0; i < g->file.n_tensors; i++)
        DRV_TRY(add_tensor(g, &g->file.tensors[i], out));
    return DRV_OK;
}

drv_status model_source_open_gguf(arena *a, const char *path, model_source *out) {
    gguf_source *g = ARENA_NEW(a, gguf_source);
    *g = (gguf_source){.a = a, .file = {.fd = -1}};
    *out = (model_source){.path = arena_strdup(a, path),
            .reader = &gguf_reader,
            .by_name = {.a = a},
            .state = g};
    const drv_status status = open_all(g, path, out);
    if (status != DRV_OK) model_source_close(out);
    return status;
}
