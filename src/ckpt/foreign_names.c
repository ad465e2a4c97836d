// torchtitan: torchtitan/models/llama3 (v0.2.2, and the branch main of August 2026).
// Megatron-Core: megatron/core/models/gpt/gpt_layer_specs.py, transformer/{attention,mlp}.py.
#include "ckpt/foreign_names.h"

#include <string.h>

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

#define MLAYER "decoder.layers.%d."
static const foreign_name megatron[] = {
        ONE("embedding.word_embeddings.weight", "model.embed_tokens.weight"),
        ONE(MLAYER "self_attention.linear_qkv.layer_norm_weight", LAYER "input_layernorm.weight"),
        {MLAYER "self_attention.linear_qkv.weight",
                {LAYER "self_attn.q_proj.weight", LAYER "self_attn.k_proj.weight",
                        LAYER "self_attn.v_proj.weight"},
                FOREIGN_QKV, 3},
        {MLAYER "self_attention.linear_qkv.bias",
                {LAYER "self_attn.q_proj.bias", LAYER "self_attn.k_proj.bias",
                        LAYER "self_attn.v_proj.bias"},
                FOREIGN_QKV, 3},
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

#define NAMES(list) list, sizeof(list) / sizeof *(list)
const foreign_names foreign_name_sets[] = {{.name = "hf"},
        {"torchtitan", NAMES(torchtitan), false, true},
        {"torchtitan-main", NAMES(torchtitan_main), false, true},
        {"megatron", NAMES(megatron), true, false}};
const int n_foreign_name_sets = sizeof foreign_name_sets / sizeof *foreign_name_sets;

const foreign_names *foreign_names_find(const char *name) {
    for (int i = 0; i < n_foreign_name_sets; i++)
        if (strcmp(foreign_name_sets[i].name, name) == 0) return &foreign_name_sets[i];
    return NULL;
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
    if (out->heads % out->kv_heads == 0 && out->head_dim % 2 == 0 && out->head_dim) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: %lld heads of %lld with %lld of keys, expected heads of an even size, and a "
            "multiple of those of keys",
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
    }
    return row;
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
    }
    return foreign;
}
