// torchtitan: torchtitan/models/llama3 (v0.2.2, and the branch main of August 2026).
// Megatron-Core: megatron/core/models/gpt/gpt_layer_specs.py, transformer/{attention,mlp}.py.
#include "source/foreign_names.h"

#include <string.h>

#include "base/str.h"
#include "gguf/llama_names.h"

#define LAYER "model.layers.%d."
#define ONE(foreign, ours)                                                                         \
    { foreign, {ours}, FOREIGN_SAME, 1 }
#define ROTARY(foreign, ours)                                                                      \
    { foreign, {ours}, FOREIGN_ROTARY, 1 }

#define TORCHTITAN(attention, output)                                                              \
    ONE("tok_embeddings.weight", "model.embed_tokens.weight"),                                     \
            ONE("layers.%d.attention_norm.weight", LAYER "input_layernorm.weight"),                \
            ROTARY("layers.%d.attention." attention "wq.weight", LAYER "self_attn.q_proj.weight"), \
            ROTARY("layers.%d.attention." attention "wk.weight", LAYER "self_attn.k_proj.weight"), \
            ONE("layers.%d.attention." attention "wv.weight", LAYER "self_attn.v_proj.weight"),    \
            ONE("layers.%d.attention.wo.weight", LAYER "self_attn.o_proj.weight"),                 \
            ONE("layers.%d.ffn_norm.weight", LAYER "post_attention_layernorm.weight"),             \
            ONE("layers.%d.feed_forward.w1.weight", LAYER "mlp.gate_proj.weight"),                 \
            ONE("layers.%d.feed_forward.w2.weight", LAYER "mlp.down_proj.weight"),                 \
            ONE("layers.%d.feed_forward.w3.weight", LAYER "mlp.up_proj.weight"),                   \
            ONE("norm.weight", "model.norm.weight"), ONE(output, "lm_head.weight")

static const foreign_name torchtitan[] = {TORCHTITAN("", "output.weight")};
static const foreign_name torchtitan_main[] = {TORCHTITAN("qkv_linear.", "lm_head.weight")};

#define QKV(foreign, kind)                                                                         \
    {                                                                                              \
        foreign,                                                                                   \
                {LAYER "self_attn.q_proj." kind, LAYER "self_attn.k_proj." kind,                   \
                        LAYER "self_attn.v_proj." kind},                                           \
                FOREIGN_QKV, 3                                                                     \
    }

#define MLAYER "decoder.layers.%d."
static const foreign_name megatron[] = {
        ONE("embedding.word_embeddings.weight", "model.embed_tokens.weight"),
        ONE(MLAYER "self_attention.linear_qkv.layer_norm_weight", LAYER "input_layernorm.weight"),
        QKV(MLAYER "self_attention.linear_qkv.weight", "weight"),
        QKV(MLAYER "self_attention.linear_qkv.bias", "bias"),
        ONE(MLAYER "self_attention.q_layernorm.weight", LAYER "self_attn.q_norm.weight"),
        ONE(MLAYER "self_attention.k_layernorm.weight", LAYER "self_attn.k_norm.weight"),
        ONE(MLAYER "self_attention.linear_proj.weight", LAYER "self_attn.o_proj.weight"),
        ONE(MLAYER "mlp.linear_fc1.layer_norm_weight", LAYER "post_attention_layernorm.weight"),
        {MLAYER "mlp.linear_fc1.weight", {LAYER "mlp.gate_proj.weight", LAYER "mlp.up_proj.weight"},
                FOREIGN_GATE_UP, 2},
        ONE(MLAYER "mlp.linear_fc2.weight", LAYER "mlp.down_proj.weight"),
        ONE("decoder.final_layernorm.weight", "model.norm.weight"),
        ONE("output_layer.weight", "lm_head.weight"),
};

// Names of the local spec, and of the classic GPTModel (Megatron-LM before Megatron-Core, NeMo 1).
static const foreign_name megatron_more[] = {
        ONE(MLAYER "input_layernorm.weight", LAYER "input_layernorm.weight"),
        ONE(MLAYER "pre_mlp_layernorm.weight", LAYER "post_attention_layernorm.weight"),
};

#define CLAYER "language_model.encoder.layers.%d."
static const foreign_name classic[] = {
        ONE("language_model.embedding.word_embeddings.weight", "model.embed_tokens.weight"),
        ONE(CLAYER "input_layernorm.weight", LAYER "input_layernorm.weight"),
        ONE(CLAYER "input_norm.weight", LAYER "input_layernorm.weight"),
        QKV(CLAYER "self_attention.query_key_value.weight", "weight"),
        QKV(CLAYER "self_attention.query_key_value.bias", "bias"),
        ONE(CLAYER "self_attention.query.weight", LAYER "self_attn.q_proj.weight"),
        {CLAYER "self_attention.key_value.weight",
                {LAYER "self_attn.k_proj.weight", LAYER "self_attn.v_proj.weight"},
                FOREIGN_KEY_VALUE, 2},
        ONE(CLAYER "self_attention.dense.weight", LAYER "self_attn.o_proj.weight"),
        ONE(CLAYER "post_attention_layernorm.weight", LAYER "post_attention_layernorm.weight"),
        ONE(CLAYER "post_attention_norm.weight", LAYER "post_attention_layernorm.weight"),
        {CLAYER "mlp.dense_h_to_4h.weight",
                {LAYER "mlp.gate_proj.weight", LAYER "mlp.up_proj.weight"}, FOREIGN_GATE_UP, 2},
        ONE(CLAYER "mlp.dense_4h_to_h.weight", LAYER "mlp.down_proj.weight"),
        ONE("language_model.encoder.final_layernorm.weight", "model.norm.weight"),
        ONE("language_model.encoder.final_norm.weight", "model.norm.weight"),
        ONE("language_model.output_layer.weight", "lm_head.weight"),
        ONE("word_embeddings_for_head.weight", "lm_head.weight"), // the last stage's own table
        ONE("word_embeddings.weight", "lm_head.weight"),
};

// Our own names, and where NxD and Optimum Neuron join tensors.
#define OURS(name) ONE(name, name)
static const foreign_name ours[] = {OURS("model.embed_tokens.weight"),
        OURS(LAYER "input_layernorm.weight"), OURS(LAYER "self_attn.q_proj.weight"),
        OURS(LAYER "self_attn.k_proj.weight"), OURS(LAYER "self_attn.v_proj.weight"),
        OURS(LAYER "self_attn.q_proj.bias"), OURS(LAYER "self_attn.k_proj.bias"),
        OURS(LAYER "self_attn.v_proj.bias"), OURS(LAYER "self_attn.q_norm.weight"),
        OURS(LAYER "self_attn.k_norm.weight"), OURS(LAYER "self_attn.o_proj.weight"),
        OURS(LAYER "post_attention_layernorm.weight"), OURS(LAYER "mlp.gate_proj.weight"),
        OURS(LAYER "mlp.up_proj.weight"), OURS(LAYER "mlp.down_proj.weight"),
        OURS("model.norm.weight"), OURS("lm_head.weight"),
        {LAYER "self_attn.qkv_proj.weight_q", {LAYER "self_attn.q_proj.weight"}, FOREIGN_QUERY, 1},
        {LAYER "self_attn.qkv_proj.weight_k", {LAYER "self_attn.k_proj.weight"}, FOREIGN_COPIES, 1},
        {LAYER "self_attn.qkv_proj.weight_v", {LAYER "self_attn.v_proj.weight"}, FOREIGN_COPIES, 1},
        {LAYER "self_attn.qkv_proj.weight_qkv",
                {LAYER "self_attn.q_proj.weight", LAYER "self_attn.k_proj.weight",
                        LAYER "self_attn.v_proj.weight"},
                FOREIGN_RANKS, 3},
        {LAYER "self_attn.qkv_proj.weight",
                {LAYER "self_attn.q_proj.weight", LAYER "self_attn.k_proj.weight",
                        LAYER "self_attn.v_proj.weight"},
                FOREIGN_RANKS, 3},
        {LAYER "mlp.gate_up_proj.weight",
                {LAYER "mlp.gate_proj.weight", LAYER "mlp.up_proj.weight"}, FOREIGN_GATE_UP, 2}};

#define NAMES(list) .rows = list, .n = sizeof(list) / sizeof *(list)
const foreign_names foreign_name_sets[] = {{.name = "hf",
                                                   .more = ours,
                                                   .n_more = sizeof ours / sizeof *ours},
        {.name = "torchtitan", NAMES(torchtitan), .needs_head = true},
        {.name = "torchtitan-main", NAMES(torchtitan_main), .needs_head = true},
        {.name = "megatron",
                NAMES(megatron),
                .stacked = true,
                .more = megatron_more,
                .n_more = sizeof megatron_more / sizeof *megatron_more},
        {.more = classic, .n_more = sizeof classic / sizeof *classic}};
const int n_foreign_name_sets = sizeof foreign_name_sets / sizeof *foreign_name_sets;

const foreign_names *foreign_names_find(const char *name) {
    for (int i = 0; i < n_foreign_name_sets; i++)
        if (foreign_name_sets[i].name && strcmp(foreign_name_sets[i].name, name) == 0)
            return &foreign_name_sets[i];
    return NULL;
}

// Returns whether `name` is `pattern` with a number for its "%d", or, where layers are stacked,
// without that part.
static bool matches(const char *name, const char *pattern, bool stacked, int *layer) {
    const char *mark = strstr(pattern, "%d.");
    *layer = -1;
    if (!mark) return strcmp(name, pattern) == 0;
    const size_t n = (size_t)(mark - pattern);
    if (strncmp(name, pattern, n) != 0) return false;
    if (stacked && strcmp(name + n, mark + 3) == 0) return true;
    const char *p = name + n;
    int number = 0, digits = 0;
    for (; *p >= '0' && *p <= '9' && digits < 6; p++, digits++)
        number = number * 10 + (*p - '0');
    *layer = number;
    return digits && (digits == 1 || name[n] != '0') && *p == '.' && strcmp(p + 1, mark + 3) == 0;
}

const foreign_name *foreign_name_of(const foreign_names *names, const char *foreign, int *layer) {
    for (int i = 0; i < names->n; i++)
        if (matches(foreign, names->rows[i].foreign, names->stacked, layer)) return &names->rows[i];
    for (int i = 0; i < names->n_more; i++)
        if (matches(foreign, names->more[i].foreign, names->stacked, layer)) return &names->more[i];
    return NULL;
}

foreign_cut foreign_cut_of(const foreign_name *row) {
    if (str_ends(row->part[0], "norm.weight")) return CUT_NOT;
    return str_ends(row->part[0], "o_proj.weight") || str_ends(row->part[0], "down_proj.weight")
                   ? CUT_COLUMNS
                   : CUT_ROWS;
}

bool foreign_is_vector(const foreign_name *row) {
    return str_ends(row->part[0], "norm.weight") || str_ends(row->part[0], ".bias");
}

// Scales of fp8 and the like, of Transformer Engine; rotary frequencies, which follow from theta.
bool foreign_name_is_ignored(const char *foreign) {
    return strstr(foreign, "_extra_state") || str_ends(foreign, "rotary_emb.inv_freq") ||
           str_ends(foreign, "rotary_pos_emb.inv_freq") || str_ends(foreign, "freqs_cis") ||
           strcmp(foreign, "rope.freqs") == 0;
}

// --- sizes
static drv_status read_size(const char *where, const json_t *config, const char *key,
        int64_t *size) {
    const json_t *value = json_object_get(config, key);
    if (!value && *size) return DRV_OK; // the default
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
            json_integer_value(value) > 1 << 30)
        return drv_fail(DRV_E_DATA, "%s: \"%s\" is missing or no size, expected an integer from 1",
                where, key);
    *size = json_integer_value(value);
    return DRV_OK;
}

drv_status foreign_sizes_read(const char *where, const json_t *config, foreign_sizes *out) {
    int64_t hidden = 0;
    *out = (foreign_sizes){.tensor_ranks = 1};
    DRV_TRY(read_size(where, config, "num_hidden_layers", &out->layers));
    DRV_TRY(read_size(where, config, "hidden_size", &hidden));
    DRV_TRY(read_size(where, config, "intermediate_size", &out->intermediate));
    DRV_TRY(read_size(where, config, "num_attention_heads", &out->heads));
    out->kv_heads = out->heads;
    out->head_dim = hidden / out->heads;
    DRV_TRY(read_size(where, config, "num_key_value_heads", &out->kv_heads));
    const json_t *head_dim = json_object_get(config, "head_dim");
    if (head_dim && !json_is_null(head_dim))
        DRV_TRY(read_size(where, config, "head_dim", &out->head_dim));
    if (json_is_integer(json_object_get(config, "vocab_size")))
        DRV_TRY(read_size(where, config, "vocab_size", &out->vocab));
    if (out->heads % out->kv_heads == 0 && out->head_dim % 2 == 0 && out->head_dim) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: %lld heads of size %lld and %lld key-value heads, expected an even size, and a number of heads that is a multiple of the key-value heads",
            where, (long long)out->heads, (long long)out->head_dim, (long long)out->kv_heads);
}

// --- rows
// Rows of the heads of one key-value head: its queries, itself, its values.
static int64_t group_rows(const foreign_sizes *s) {
    return (s->heads / s->kv_heads + 2) * s->head_dim;
}

static int64_t qkv_row(const foreign_sizes *s, int part, int64_t row) {
    const int64_t queries = s->heads / s->kv_heads * s->head_dim,
                  own = part == 0 ? queries : s->head_dim, group = row / own;
    const int64_t before = part == 0 ? 0 : queries + (part - 1) * s->head_dim;
    return group * group_rows(s) + before + row % own;
}

// Places a row of q where there are copies of keys. Tensor ranks beyond the number of keys share a
// key, and rank r has key r mod kv_heads: a part of the queries of that key.
static int64_t query_row(const foreign_sizes *s, int64_t row) {
    const int64_t copies = s->key_copies ? s->key_copies : 1, head = row / s->head_dim,
                  own = s->heads / (s->kv_heads * copies), part = head / own;
    if (s->copies_adjacent) return row;
    const int64_t rank = part % copies * s->kv_heads + part / copies;
    return (rank * own + head % own) * s->head_dim + row % s->head_dim;
}

static int64_t copy_row(const foreign_sizes *s, int64_t row) {
    if (!s->copies_adjacent) return row; // the first copy of all heads
    return row / s->head_dim * s->key_copies * s->head_dim + row % s->head_dim;
}

// Each rank has its rows of the parts one after the other.
static int64_t ranks_row(const foreign_sizes *s, int part, int64_t row) {
    const int64_t copies = s->key_copies ? s->key_copies : 1,
                  queries = s->heads * s->head_dim / s->tensor_ranks,
                  keys = copies * s->kv_heads * s->head_dim / s->tensor_ranks;
    const int64_t place = part == 0 ? query_row(s, row) : copy_row(s, row),
                  own = part == 0 ? queries : keys;
    const int64_t before = part == 0 ? 0 : queries + (part - 1) * keys;
    return place / own * (queries + 2 * keys) + before + place % own;
}

int64_t foreign_row_of(foreign_rows rows, const foreign_sizes *sizes, int part, int64_t row) {
    const int64_t own = sizes->intermediate / sizes->tensor_ranks;
    switch (rows) {
    case FOREIGN_SAME:
        return row;
    case FOREIGN_ROTARY:
        return llama_row_in_gguf(row, sizes->head_dim);
    case FOREIGN_QKV:
        return qkv_row(sizes, part, row);
    case FOREIGN_GATE_UP:
        return (row / own * 2 + part) * own + row % own;
    case FOREIGN_QUERY:
        return query_row(sizes, row);
    case FOREIGN_COPIES:
        return copy_row(sizes, row);
    case FOREIGN_RANKS:
        return ranks_row(sizes, part, row);
    case FOREIGN_KEY_VALUE:
        return (row / sizes->head_dim * 2 + part) * sizes->head_dim + row % sizes->head_dim;
    }
    return row;
}

int64_t foreign_part_rows(foreign_rows rows, const foreign_sizes *sizes, int part) {
    const int64_t queries = sizes->heads * sizes->head_dim,
                  keys = sizes->kv_heads * sizes->head_dim;
    switch (rows) {
    case FOREIGN_GATE_UP:
        return sizes->intermediate;
    case FOREIGN_QUERY:
        return queries;
    case FOREIGN_COPIES:
    case FOREIGN_KEY_VALUE:
        return keys;
    case FOREIGN_QKV:
    case FOREIGN_RANKS:
        return part == 0 ? queries : keys;
    case FOREIGN_SAME:
    case FOREIGN_ROTARY:
        break;
    }
    return -1;
}

static int64_t qkv_back(const foreign_sizes *s, int64_t foreign, int *part) {
    const int64_t queries = s->heads / s->kv_heads * s->head_dim;
    const int64_t group = foreign / group_rows(s), rest = foreign % group_rows(s);
    *part = rest < queries ? 0 : 1 + (int)((rest - queries) / s->head_dim);
    if (*part == 0) return group * queries + rest;
    return group * s->head_dim + (rest - queries) % s->head_dim;
}

int64_t foreign_row_back(foreign_rows rows, const foreign_sizes *sizes, int64_t foreign,
        int *part) {
    const int64_t in_head = foreign % sizes->head_dim,
                  own = sizes->intermediate / sizes->tensor_ranks;
    *part = 0;
    switch (rows) {
    case FOREIGN_SAME:
        return foreign;
    case FOREIGN_ROTARY:
        return foreign - in_head + in_head % 2 * (sizes->head_dim / 2) + in_head / 2;
    case FOREIGN_QKV:
        return qkv_back(sizes, foreign, part);
    case FOREIGN_GATE_UP:
        *part = (int)(foreign / own % 2);
        return foreign / own / 2 * own + foreign % own;
    default: // not written
        break;
    }
    return foreign;
}
