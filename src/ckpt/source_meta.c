// Meta's own files of a Llama as a source (github.com/meta-llama/llama-models, and transformers'
// convert_llama_weights_to_hf.py): consolidated.NN.pth, each the part of one rank of tensor
// parallelism, and params.json. A matrix is joined along its rows or its columns; rows of q and k
// have the two halves of each rotary pair side by side, as GGUF has them.
// Legend: m the source's own, p its params, s the source, t a tensor of it, n rows, o an origin.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "ckpt/model_source.h"
#include "gguf/llama_names.h"
#include "pickle/torch_file.h"

enum { MAX_SHARDS = 64, LLAMA_3_VOCAB = 128000 };

typedef enum joining { BY_ROWS, BY_ROWS_INTERLEAVED, BY_COLUMNS, BY_SHAPE, THE_SAME } joining;

static const struct {
    const char *meta, *hf; // "%d" stands for the layer
    joining join;
} names[] = {{"tok_embeddings.weight", "model.embed_tokens.weight", BY_SHAPE},
        {"layers.%d.attention_norm.weight", "model.layers.%d.input_layernorm.weight", THE_SAME},
        {"layers.%d.attention.wq.weight", "model.layers.%d.self_attn.q_proj.weight",
                BY_ROWS_INTERLEAVED},
        {"layers.%d.attention.wk.weight", "model.layers.%d.self_attn.k_proj.weight",
                BY_ROWS_INTERLEAVED},
        {"layers.%d.attention.wv.weight", "model.layers.%d.self_attn.v_proj.weight", BY_ROWS},
        {"layers.%d.attention.wo.weight", "model.layers.%d.self_attn.o_proj.weight", BY_COLUMNS},
        {"layers.%d.ffn_norm.weight", "model.layers.%d.post_attention_layernorm.weight", THE_SAME},
        {"layers.%d.feed_forward.w1.weight", "model.layers.%d.mlp.gate_proj.weight", BY_ROWS},
        {"layers.%d.feed_forward.w3.weight", "model.layers.%d.mlp.up_proj.weight", BY_ROWS},
        {"layers.%d.feed_forward.w2.weight", "model.layers.%d.mlp.down_proj.weight", BY_COLUMNS},
        {"norm.weight", "model.norm.weight", THE_SAME},
        {"output.weight", "lm_head.weight", BY_ROWS}};
enum { N_NAMES = sizeof names / sizeof *names };

// params.json.
typedef struct meta_params {
    int64_t dim, n_layers, n_heads, n_kv_heads, head_dim;
    double norm_eps, rope_theta, rope_factor; // rope_factor 0: the frequencies are not scaled
} meta_params;

typedef struct meta_source {
    arena *a;
    const char *folder;
    torch_file *files;
    int n;
    meta_params params;
} meta_source;

// The type of a source tensor's `origin`.
typedef struct meta_origin {
    joining join;
    const torch_file **files;
    const torch_tensor **parts; // of each shard that has one
    int n;
    int64_t head_dim;
} meta_origin;

// --- params.json
static drv_status refuse_param(const char *path, const char *key, const char *expected) {
    return drv_fail(DRV_E_DATA, "%s: \"%s\" is missing or not %s", path, key, expected);
}

static drv_status take_count(const char *path, const json_t *root, const char *key, int64_t *out) {
    const json_t *value = json_object_get(root, key);
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= 1 && *out <= INT32_MAX) return DRV_OK;
    return refuse_param(path, key, "a number of 1 or more");
}

static drv_status read_scaling(const char *path, const json_t *root, meta_params *p) {
    const json_t *factor = json_object_get(root, "rope_scaling_factor");
    if (!json_is_true(json_object_get(root, "use_scaled_rope"))) return DRV_OK;
    // Llama 3.1 has 8; the small ones of 3.2 have 32, and their files do not say so.
    p->rope_factor = json_is_number(factor) ? json_number_value(factor) : p->dim < 4096 ? 32 : 8;
    if (p->rope_factor >= 1) return DRV_OK;
    return refuse_param(path, "rope_scaling_factor", "a number of 1 or more");
}

static drv_status parse_params(const char *path, const json_t *root, meta_params *p) {
    const json_t *theta = json_object_get(root, "rope_theta"),
                 *eps = json_object_get(root, "norm_eps");
    DRV_TRY(take_count(path, root, "dim", &p->dim));
    DRV_TRY(take_count(path, root, "n_layers", &p->n_layers));
    DRV_TRY(take_count(path, root, "n_heads", &p->n_heads));
    p->n_kv_heads = p->n_heads;
    if (json_is_integer(json_object_get(root, "n_kv_heads")))
        DRV_TRY(take_count(path, root, "n_kv_heads", &p->n_kv_heads));
    p->head_dim = p->dim / p->n_heads;
    p->norm_eps = json_number_value(eps);
    p->rope_theta = theta ? json_number_value(theta) : 10000.0;
    if (!(p->norm_eps > 0)) return refuse_param(path, "norm_eps", "a number above 0");
    if (!(p->rope_theta > 0)) return refuse_param(path, "rope_theta", "a number above 0");
    if (p->dim % p->n_heads || p->head_dim % 2 || p->n_heads % p->n_kv_heads)
        return drv_fail(DRV_E_DATA,
                "%s: dim is %lld, n_heads %lld and n_kv_heads %lld, which do not divide one another",
                path, (long long)p->dim, (long long)p->n_heads, (long long)p->n_kv_heads);
    if (json_object_get(root, "moe") || json_object_get(root, "moe_args"))
        return drv_fail(DRV_E_DATA, "%s: is a model with experts, which drover does not have",
                path);
    return read_scaling(path, root, p);
}

static drv_status read_params(meta_source *m) {
    const char *path = path_join(m->a, m->folder, "params.json");
    json_t *root;
    DRV_TRY(json_read_file(path, &root));
    const json_t *inner = json_object_get(root, "model");
    const drv_status status = parse_params(path, json_is_object(inner) ? inner : root, &m->params);
    json_decref(root);
    return status;
}

// --- config.json
static json_t *rope_json(const meta_params *p) {
    if (p->rope_factor == 0) return json_null();
    return json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", p->rope_factor,
            "low_freq_factor", 1.0, "high_freq_factor", 4.0, "original_max_position_embeddings",
            8192);
}

// The file does not say for how long a context the model was made; each release had one.
static int context_of(const meta_params *p, int64_t vocab) {
    if (p->rope_factor > 0) return 131072;
    if (vocab >= LLAMA_3_VOCAB) return 8192;
    return p->rope_theta > 10000 ? 16384 : 4096;
}

static drv_status read_config(const model_source *s, json_t **out) {
    const meta_params *p = &((const meta_source *)s->state)->params;
    const source_tensor *table = model_source_find(s, "model.embed_tokens.weight"),
                        *gate = model_source_find(s, "model.layers.0.mlp.gate_proj.weight");
    const char *type = table->type == ST_F16    ? "float16"
                       : table->type == ST_BF16 ? "bfloat16"
                                                : "float32";
    const bool llama_3 = table->rows >= LLAMA_3_VOCAB;
    json_t *o = json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "architectures",
            "LlamaForCausalLM", "model_type", "llama", "vocab_size", (json_int_t)table->rows,
            "hidden_size", (json_int_t)p->dim, "intermediate_size", (json_int_t)gate->rows,
            "num_hidden_layers", (json_int_t)p->n_layers, "num_attention_heads",
            (json_int_t)p->n_heads, "num_key_value_heads", (json_int_t)p->n_kv_heads,
            "max_position_embeddings", context_of(p, table->rows));
    json_t *more = json_pack("{s:s, s:f, s:f, s:b, s:b, s:b, s:s, s:o, s:i}", "hidden_act", "silu",
            "rms_norm_eps", p->norm_eps, "rope_theta", p->rope_theta, "attention_bias", 0,
            "mlp_bias", 0, "tie_word_embeddings", !model_source_find(s, "lm_head.weight"),
            "torch_dtype", type, "rope_scaling", rope_json(p), "bos_token_id",
            llama_3 ? LLAMA_3_VOCAB : 1);
    json_object_update(o, more);
    json_decref(more);
    // Llama 3 ends a text, a message and a turn each in its own way.
    json_object_set_new(o, "eos_token_id",
            llama_3 ? json_pack("[i, i, i]", 128001, 128008, 128009) : json_integer(2));
    *out = o;
    return DRV_OK;
}

// --- rows
static int64_t rows_of(const torch_tensor *t) {
    return t->dim[0];
}

static int64_t cols_of(const torch_tensor *t) {
    return t->n_dims == 2 ? t->dim[1] : 1;
}

static drv_status read_rows(const meta_origin *o, int64_t row, int64_t n, unsigned char *out) {
    for (int i = 0; i < o->n && n; i++) {
        const torch_tensor *part = o->parts[i];
        const int64_t cols = cols_of(part), rows = rows_of(part);
        if (row >= rows) {
            row -= rows;
            continue;
        }
        const int64_t count = rows - row < n ? rows - row : n;
        DRV_TRY(torch_read(o->files[i], part, row * cols, count * cols, out));
        out += count * cols * part->type->bytes;
        n -= count;
        row = 0;
    }
    return DRV_OK;
}

static drv_status read_columns(const meta_origin *o, int64_t row, int64_t n, int64_t row_bytes,
        unsigned char *out) {
    int64_t at = 0; // in a row, in bytes
    for (int i = 0; i < o->n; i++) {
        const int64_t cols = cols_of(o->parts[i]), bytes = cols * o->parts[i]->type->bytes;
        unsigned char *piece = mem_alloc((size_t)(n * bytes) + 1);
        const drv_status status = torch_read(o->files[i], o->parts[i], row * cols, n * cols, piece);
        for (int64_t k = 0; status == DRV_OK && k < n; k++)
            memcpy(out + k * row_bytes + at, piece + k * bytes, (size_t)bytes);
        free(piece);
        DRV_TRY(status);
        at += bytes;
    }
    return DRV_OK;
}

static drv_status read_raw(const model_source *s DRV_UNUSED, const source_tensor *t, int64_t row,
        int64_t n, void *out) {
    const meta_origin *o = t->origin;
    unsigned char *bytes = out;
    if (o->join == BY_COLUMNS) return read_columns(o, row, n, t->row_bytes, out);
    if (o->join != BY_ROWS_INTERLEAVED) return read_rows(o, row, n, out);
    for (int64_t i = 0; i < n; i++)
        DRV_TRY(read_rows(o, llama_row_in_gguf(row + i, o->head_dim), 1, bytes + i * t->row_bytes));
    return DRV_OK;
}

static void close_meta(model_source *s) {
    meta_source *m = s->state;
    for (int i = 0; i < m->n; i++)
        torch_close(&m->files[i]);
}

static const source_reader meta_reader = {.format = "Meta's own files",
        .read_raw = read_raw,
        .config = read_config,
        .close = close_meta};

// --- opening
static drv_status open_shards(meta_source *m) {
    m->files = ARENA_ARRAY(m->a, torch_file, MAX_SHARDS);
    for (int i = 0; i < MAX_SHARDS; i++) {
        const char *path = arena_printf(m->a, "%s/consolidated.%02d.pth", m->folder, i);
        if (i && !file_exists(path)) break;
        DRV_TRY(torch_open(m->a, path, NULL, &m->files[m->n]));
        m->n++;
    }
    return DRV_OK;
}

// Decides how the table of embeddings was divided: Llama 3 has all columns in each shard.
static joining joining_of(const meta_source *m, joining join, const torch_tensor *part) {
    if (join == BY_SHAPE) return cols_of(part) == m->params.dim ? BY_ROWS : BY_COLUMNS;
    return join;
}

// Returns how many shards have the same rows: more shards than heads of keys repeat the heads.
static int repeats(const meta_source *m, const char *name) {
    const bool key = strstr(name, ".wk.") || strstr(name, ".wv.");
    return key && m->n > m->params.n_kv_heads ? m->n / (int)m->params.n_kv_heads : 1;
}

static drv_status find_parts(const meta_source *m, const char *name, meta_origin *o) {
    const int step = o->join == THE_SAME ? m->n : repeats(m, name);
    o->files = ARENA_ARRAY(m->a, const torch_file *, m->n);
    o->parts = ARENA_ARRAY(m->a, const torch_tensor *, m->n);
    for (int i = 0; i < m->n; i += step) {
        const torch_tensor *part = torch_find(&m->files[i], name);
        if (!part)
            return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is missing", m->files[i].part.path,
                    name);
        if (part->n_dims != (o->join == THE_SAME ? 1 : 2) || part->elements == 0 ||
                (o->n && part->type != o->parts[0]->type))
            return drv_fail(DRV_E_DATA,
                    "%s: tensor \"%s\" is of %s with %d dimensions, which differs from other shards or from a Llama",
                    m->files[i].part.path, name, part->type->name, part->n_dims);
        o->files[o->n] = &m->files[i];
        o->parts[o->n++] = part;
    }
    return DRV_OK;
}

static drv_status add_tensor(const meta_source *m, const char *meta, const char *hf, joining join,
        model_source *out) {
    meta_origin *o = ARENA_NEW(m->a, meta_origin);
    *o = (meta_origin){.join = join, .head_dim = m->params.head_dim};
    DRV_TRY(find_parts(m, meta, o));
    const torch_tensor *first = o->parts[0];
    o->join = joining_of(m, join, first);
    const bool columns = o->join == BY_COLUMNS;
    source_tensor t = {.name = hf,
            .file = o->files[0]->part.path,
            .type_name = first->type->st_name,
            .type = source_torch_type(first->type),
            .n_dims = first->n_dims,
            .rows = columns ? rows_of(first) : 0,
            .cols = columns ? 0 : cols_of(first),
            .origin = o};
    for (int i = 0; i < o->n; i++) {
        if ((columns ? rows_of(o->parts[i]) : cols_of(o->parts[i])) != (columns ? t.rows : t.cols))
            return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" has another shape than in %s",
                    o->files[i]->part.path, meta, t.file);
        *(columns ? &t.cols : &t.rows) += columns ? cols_of(o->parts[i]) : rows_of(o->parts[i]);
    }
    if (strstr(meta, ".wq.") &&
            t.rows != m->params.dim) // nothing else says how many files there are
        return drv_fail(DRV_E_DATA,
                "\"%s\" has %d file%s numbered from consolidated.00.pth, with %lld rows of \"%s\" together, expected "
                "%lld as dim in params.json: is a file missing?",
                m->folder, m->n, str_plural(m->n), (long long)t.rows, meta,
                (long long)m->params.dim);
    if (o->join == BY_ROWS_INTERLEAVED && t.rows % o->head_dim)
        return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" has %lld rows, expected heads of %lld",
                t.file, meta, (long long)t.rows, (long long)o->head_dim);
    t.dim[0] = t.rows;
    t.dim[1] = t.n_dims == 2 ? t.cols : 0;
    t.row_bytes = t.cols * first->type->bytes;
    out->tensors[out->n] = t;
    name_map_set(&out->by_name, t.name, &out->tensors[out->n++]);
    return DRV_OK;
}

// Every tensor of a shard must be known, or be the frequencies, which follow from rope_theta.
static drv_status check_known(const meta_source *m) {
    name_map known = {.a = m->a};
    for (int i = 0; i < N_NAMES; i++)
        for (int layer = 0; layer < (strchr(names[i].meta, '%') ? m->params.n_layers : 1); layer++)
            name_map_set(&known, llama_name_print(m->a, names[i].meta, layer), m->a);
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->files[i].n; k++) {
            const char *name = m->files[i].tensors[k].name;
            if (!name_map_get(&known, name) && strcmp(name, "rope.freqs") != 0)
                return drv_fail(DRV_E_DATA,
                        "%s: tensor \"%.80s\" has no place in a Llama of %lld layers",
                        m->files[i].part.path, name, (long long)m->params.n_layers);
        }
    return DRV_OK;
}

static drv_status open_all(meta_source *m, model_source *out) {
    DRV_TRY(read_params(m));
    DRV_TRY(open_shards(m));
    if (m->params.n_layers > m->files[0].n)
        return drv_fail(DRV_E_DATA, "%s/params.json: n_layers is %lld, but %s has %d tensors",
                m->folder, (long long)m->params.n_layers, m->files[0].part.path, m->files[0].n);
    DRV_TRY(check_known(m));
    out->tensors = ARENA_ARRAY(m->a, source_tensor, m->params.n_layers * N_NAMES);
    for (int i = 0; i < N_NAMES; i++) {
        const int64_t n = strchr(names[i].meta, '%') ? m->params.n_layers : 1;
        if (strcmp(names[i].meta, "output.weight") == 0 && !torch_find(&m->files[0], names[i].meta))
            continue; // tied
        for (int layer = 0; layer < n; layer++)
            DRV_TRY(add_tensor(m, llama_name_print(m->a, names[i].meta, layer),
                    llama_name_print(m->a, names[i].hf, layer), names[i].join, out));
    }
    return DRV_OK;
}

bool model_source_is_meta_folder(arena *a, const char *path) {
    return file_exists(path_join(a, path, "consolidated.00.pth"));
}

drv_status model_source_open_meta(arena *a, const char *path, model_source *out) {
    meta_source *m = ARENA_NEW(a, meta_source);
    *m = (meta_source){.a = a, .folder = arena_strdup(a, path)};
    *out = (model_source){.path = m->folder,
            .folder = m->folder,
            .reader = &meta_reader,
            .by_name = {.a = a},
            .state = m};
    const drv_status status = open_all(m, out);
    if (status != DRV_OK) model_source_close(out);
    return status;
}
