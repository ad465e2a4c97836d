// The table of names, and look-ups in both directions.
#include "gguf/llama_names.h"

#include <string.h>

const llama_name llama_names[] = {
        {"token_embd.weight", "model.embed_tokens.weight", 2, ROWS_AS_THEY_ARE},
        {"blk.%d.attn_norm.weight", "model.layers.%d.input_layernorm.weight", 1, ROWS_AS_THEY_ARE},
        {"blk.%d.attn_q.weight", "model.layers.%d.self_attn.q_proj.weight", 2, ROWS_OF_QUERY},
        {"blk.%d.attn_k.weight", "model.layers.%d.self_attn.k_proj.weight", 2, ROWS_OF_KEY},
        {"blk.%d.attn_v.weight", "model.layers.%d.self_attn.v_proj.weight", 2, ROWS_AS_THEY_ARE},
        {"blk.%d.attn_q.bias", "model.layers.%d.self_attn.q_proj.bias", 1, OF_QKV_BIAS},
        {"blk.%d.attn_k.bias", "model.layers.%d.self_attn.k_proj.bias", 1, OF_QKV_BIAS},
        {"blk.%d.attn_v.bias", "model.layers.%d.self_attn.v_proj.bias", 1, OF_QKV_BIAS},
        {"blk.%d.attn_q_norm.weight", "model.layers.%d.self_attn.q_norm.weight", 1, OF_QK_NORM},
        {"blk.%d.attn_k_norm.weight", "model.layers.%d.self_attn.k_norm.weight", 1, OF_QK_NORM},
        {"blk.%d.attn_output.weight", "model.layers.%d.self_attn.o_proj.weight", 2,
                ROWS_AS_THEY_ARE},
        {"blk.%d.ffn_norm.weight", "model.layers.%d.post_attention_layernorm.weight", 1,
                ROWS_AS_THEY_ARE},
        {"blk.%d.ffn_gate.weight", "model.layers.%d.mlp.gate_proj.weight", 2, ROWS_AS_THEY_ARE},
        {"blk.%d.ffn_up.weight", "model.layers.%d.mlp.up_proj.weight", 2, ROWS_AS_THEY_ARE},
        {"blk.%d.ffn_down.weight", "model.layers.%d.mlp.down_proj.weight", 2, ROWS_AS_THEY_ARE},
        {"output_norm.weight", "model.norm.weight", 1, ROWS_AS_THEY_ARE},
        {"output.weight", "lm_head.weight", 2, ROWS_AS_THEY_ARE},
};
const int n_llama_names = sizeof llama_names / sizeof *llama_names;

bool llama_name_is_of(const llama_name *row, const model_family *family) {
    if (row->rows == OF_QKV_BIAS) return family->qkv_bias;
    return row->rows != OF_QK_NORM || family->qk_norm;
}

bool llama_name_interleaves(const llama_name *row, const model_family *family) {
    return (row->rows == ROWS_OF_QUERY || row->rows == ROWS_OF_KEY) && family->gguf_interleaves;
}

// Returns whether `name` is `pattern` with a number, without leading zeros, in place of "%d".
static bool matches(const char *name, const char *pattern, int *layer) {
    const char *mark = strstr(pattern, "%d");
    *layer = -1;
    if (!mark) return strcmp(name, pattern) == 0;
    const size_t n = (size_t)(mark - pattern);
    if (strncmp(name, pattern, n) != 0) return false;
    const char *p = name + n;
    int number = 0, digits = 0;
    for (; *p >= '0' && *p <= '9' && digits < 6; p++, digits++)
        number = number * 10 + (*p - '0');
    if (digits == 0 || (digits > 1 && name[n] == '0')) return false;
    *layer = number;
    return strcmp(p, mark + 2) == 0;
}

const llama_name *llama_name_of_gguf(const char *name, int *layer) {
    for (int i = 0; i < n_llama_names; i++)
        if (matches(name, llama_names[i].gguf, layer)) return &llama_names[i];
    return NULL;
}

char *llama_name_print(arena *a, const char *pattern, int layer) {
    const char *mark = strstr(pattern, "%d");
    if (!mark) return arena_strdup(a, pattern);
    return arena_printf(a, "%.*s%d%s", (int)(mark - pattern), pattern, layer, mark + 2);
}
