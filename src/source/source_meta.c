// Meta's own files of a Llama as a source (github.com/meta-llama/llama-models, and transformers'
// convert_llama_weights_to_hf.py): consolidated.NN.pth, each the part of one rank of tensor
// parallelism, and params.json. Names and rows are those of torchtitan's first models.
// Legend: m the model, p its params, t a tensor.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "source/foreign_source.h"

enum { MAX_SHARDS = 64, LLAMA_3_VOCAB = 128000 };

// params.json.
typedef struct meta_params {
    int64_t dim, n_layers, n_heads, n_kv_heads, head_dim;
    double norm_eps, rope_theta, rope_factor; // rope_factor 0: the frequencies are not scaled
} meta_params;

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

static drv_status read_params(const foreign_model *m, meta_params *out) {
    const char *path = path_join(m->a, m->folder, "params.json");
    json_t *root;
    DRV_TRY(json_read_file(path, &root));
    const json_t *inner = json_object_get(root, "model");
    const drv_status status = parse_params(path, json_is_object(inner) ? inner : root, out);
    json_decref(root);
    return status;
}

// --- tensors
static drv_status open_shards(foreign_model *m) {
    m->files = ARENA_ARRAY(m->a, torch_file *, MAX_SHARDS);
    for (int i = 0; i < MAX_SHARDS; i++) {
        const char *path = arena_printf(m->a, "%s/consolidated.%02d.pth", m->folder, i);
        if (i && !file_exists(path)) break;
        torch_file *file = ARENA_NEW(m->a, torch_file);
        DRV_TRY(torch_open(m->a, path, NULL, file));
        m->files[m->n_files++] = file;
    }
    return DRV_OK;
}

// Decides how a tensor was divided. Of the table of embeddings Llama 3 has all columns in each
// shard, Llama 2 all rows.
static foreign_cut cut_of(const meta_params *p, const foreign_name *row,
        const foreign_block *part) {
    const bool is_table = strcmp(row->part[0], "model.embed_tokens.weight") == 0;
    return is_table && part->cols < p->dim ? CUT_COLUMNS : foreign_cut_of(row);
}

// Returns how many shards have the same rows: more shards than heads of keys repeat the heads.
static int repeats(const foreign_model *m, const meta_params *p, const char *name) {
    const bool key = strstr(name, ".wk.") || strstr(name, ".wv.");
    return key && m->n_files > p->n_kv_heads ? m->n_files / (int)p->n_kv_heads : 1;
}

static drv_status add_part(foreign_tensor *t, foreign_cut cut, torch_file *file,
        const torch_tensor *part) {
    foreign_block b = foreign_whole_block(file, part);
    if (t->n_blocks &&
            (part->type != t->type || (cut == CUT_COLUMNS ? b.rows != t->rows : b.cols != t->cols)))
        return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" has another shape or type than in %s",
                file->part.path, t->name, t->blocks->file->part.path);
    b.row = cut == CUT_COLUMNS ? 0 : t->rows;
    b.col = cut == CUT_COLUMNS ? t->cols : 0;
    t->rows = b.row + b.rows;
    t->cols = b.col + b.cols;
    t->blocks[t->n_blocks++] = b;
    return DRV_OK;
}

// Joins the parts that the shards have of a tensor; `first` is that of the first shard.
static drv_status add_tensor(foreign_model *m, const meta_params *p, const torch_tensor *first) {
    int layer;
    const foreign_name *row = foreign_name_of(m->names, first->name, &layer);
    const foreign_block block = foreign_whole_block(m->files[0], first);
    if (!row || layer >= p->n_layers)
        return drv_fail(DRV_E_DATA, "%s: tensor \"%.80s\" has no place in a Llama of %lld layers",
                m->files[0]->part.path, first->name, (long long)p->n_layers);
    const foreign_cut cut = cut_of(p, row, &block);
    const int step = cut == CUT_NOT ? m->n_files : repeats(m, p, first->name);
    foreign_tensor *t = &m->tensors[m->n++];
    *t = (foreign_tensor){.name = first->name,
            .type = first->type,
            .blocks = ARENA_ARRAY(m->a, foreign_block, m->n_files)};
    for (int i = 0; i < m->n_files; i += step) {
        const torch_tensor *part = torch_find(m->files[i], first->name);
        if (!part)
            return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is missing", m->files[i]->part.path,
                    first->name);
        DRV_TRY(add_part(t, cut, m->files[i], part));
    }
    if (!strstr(t->name, ".wq.") || t->rows == p->dim) return DRV_OK;
    return drv_fail(DRV_E_DATA, // nothing else says how many files there are
            "\"%s\" has %d file%s numbered from consolidated.00.pth, with %lld rows of \"%s\" together, expected "
            "%lld as dim in params.json: is a file missing?",
            m->folder, m->n_files, str_plural(m->n_files), (long long)t->rows, t->name,
            (long long)p->dim);
}

// The shards have the same names, so that those of the first one are all.
static drv_status add_tensors(foreign_model *m, const meta_params *p) {
    const torch_file *first = m->files[0];
    int layer, layers = 0;
    m->tensors = ARENA_ARRAY(m->a, foreign_tensor, first->n + 1);
    for (int i = 0; i < first->n; i++) {
        if (foreign_name_is_ignored(first->tensors[i].name)) continue;
        DRV_TRY(add_tensor(m, p, &first->tensors[i]));
        foreign_name_of(m->names, first->tensors[i].name, &layer);
        if (layer >= layers) layers = layer + 1;
    }
    for (int i = 1; i < m->n_files; i++)
        if (m->files[i]->n != first->n)
            return drv_fail(DRV_E_DATA, "%s: has %d tensors, expected %d, as %s has",
                    m->files[i]->part.path, m->files[i]->n, first->n, first->part.path);
    if (layers == p->n_layers) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s/params.json: n_layers is %lld, but %s has %d layers", m->folder,
            (long long)p->n_layers, first->part.path, layers);
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

static const foreign_tensor *find_tensor(const foreign_model *m, const char *name) {
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    return NULL;
}

static drv_status make_config(foreign_model *m, const meta_params *p) {
    static const char table_name[] = "tok_embeddings.weight",
                      gate_name[] = "layers.0.feed_forward.w1.weight";
    const foreign_tensor *table = find_tensor(m, table_name), *gate = find_tensor(m, gate_name);
    if (!table || !gate)
        return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is missing", m->files[0]->part.path,
                table ? gate_name : table_name);
    const bool llama_3 = table->rows >= LLAMA_3_VOCAB;
    m->config = json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "architectures",
            "LlamaForCausalLM", "model_type", "llama", "vocab_size", (json_int_t)table->rows,
            "hidden_size", (json_int_t)p->dim, "intermediate_size", (json_int_t)gate->rows,
            "num_hidden_layers", (json_int_t)p->n_layers, "num_attention_heads",
            (json_int_t)p->n_heads, "num_key_value_heads", (json_int_t)p->n_kv_heads,
            "max_position_embeddings", context_of(p, table->rows));
    json_t *more = json_pack("{s:s, s:f, s:f, s:b, s:b, s:b, s:s, s:o, s:i}", "hidden_act", "silu",
            "rms_norm_eps", p->norm_eps, "rope_theta", p->rope_theta, "attention_bias", 0,
            "mlp_bias", 0, "tie_word_embeddings", !find_tensor(m, "output.weight"), "torch_dtype",
            table->type->name, "rope_scaling", rope_json(p), "bos_token_id",
            llama_3 ? LLAMA_3_VOCAB : 1);
    json_object_update(m->config, more);
    json_decref(more);
    // Llama 3 ends a text, a message and a turn each in its own way.
    json_object_set_new(m->config, "eos_token_id",
            llama_3 ? json_pack("[i, i, i]", 128001, 128008, 128009) : json_integer(2));
    return DRV_OK;
}

// --- opening
static drv_status open_all(foreign_model *m) {
    meta_params p = {0};
    DRV_TRY(read_params(m, &p));
    DRV_TRY(open_shards(m));
    DRV_TRY(add_tensors(m, &p));
    DRV_TRY(make_config(m, &p));
    return foreign_sizes_read(path_join(m->a, m->folder, "params.json"), m->config, &m->sizes);
}

bool model_source_is_meta_folder(arena *a, const char *path) {
    return file_exists(path_join(a, path, "consolidated.00.pth"));
}

drv_status model_source_open_meta(arena *a, const char *path, model_source *out) {
    foreign_model *m = ARENA_NEW(a, foreign_model);
    path = arena_strdup(a, path);
    *m = (foreign_model){.a = a,
            .path = path,
            .folder = path,
            .format = "Meta's own files",
            .names = foreign_names_find("torchtitan")};
    return foreign_source(m, open_all(m), out);
}
