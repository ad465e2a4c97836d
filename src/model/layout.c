// The sizes of one rank.
#include "model/layout.h"

model_layout layout_of(const model_config *model) {
    model_layout l = {.model = model,
            .n_layers = (int)model->num_hidden_layers,
            .n_heads = (int)model->num_attention_heads,
            .n_kv_heads = (int)model->num_key_value_heads,
            .head_dim = (int)model->head_dim,
            .hidden = model->hidden_size,
            .vocab = model->vocab_size,
            .ffn = model->intermediate_size};
    l.q_width = (int64_t)l.n_heads * l.head_dim;
    l.kv_width = (int64_t)l.n_kv_heads * l.head_dim;
    l.qkv_width = l.q_width + 2 * l.kv_width;
    return l;
}
