// The table. Defaults are those of transformers' configuration_*.py, names and the order of rows in
// GGUF those of llama.cpp (conversion/*.py, llama-model.cpp: llama_model_rope_type).
#include "model/family/model_family.h"

#include <string.h>

const model_family model_families[] = {
        {
                .model_type = "llama",
                .architecture = "LlamaForCausalLM",
                .gguf = "llama",
                .gguf_interleaves = true,
        },
        {
                .model_type = "mistral",
                .architecture = "MistralForCausalLM",
                .gguf = "llama",
                .gguf_interleaves = true,
                .window = WINDOW_OF_ALL,
                .num_key_value_heads = 8,
                .max_position_embeddings = 131072,
                .sliding_window = 4096,
        },
        {
                .model_type = "qwen2",
                .architecture = "Qwen2ForCausalLM",
                .gguf = "qwen2",
                .qkv_bias = true,
                .window = WINDOW_SWITCHED,
                .num_key_value_heads = 32,
                .max_position_embeddings = 32768,
                .sliding_window = 4096,
                .max_window_layers = 28,
        },
        {
                .model_type = "qwen3",
                .architecture = "Qwen3ForCausalLM",
                .gguf = "qwen3",
                .qk_norm = true,
                .window = WINDOW_SWITCHED,
                .num_key_value_heads = 32,
                .head_dim = 128,
                .max_position_embeddings = 32768,
                .sliding_window = 4096,
                .max_window_layers = 28,
        },
        {
                .model_type = "smollm3",
                .architecture = "SmolLM3ForCausalLM",
                .gguf = "smollm3",
                .gguf_interleaves = true,
                .no_rope_layer_interval = 4,
                .num_key_value_heads = 4,
                .max_position_embeddings = 32768,
                .rope_theta = 2e6,
                .tie_word_embeddings = true,
        },
};
const int n_model_families = sizeof model_families / sizeof *model_families;

const model_family *model_family_of_type(const char *model_type) {
    for (int i = 0; i < n_model_families; i++)
        if (strcmp(model_families[i].model_type, model_type) == 0) return &model_families[i];
    return NULL;
}

const model_family *model_family_of_gguf(const char *architecture, bool window) {
    for (int i = 0; i < n_model_families; i++)
        if (strcmp(model_families[i].gguf, architecture) == 0 &&
                !(window && model_families[i].window == WINDOW_NEVER))
            return &model_families[i];
    return NULL;
}
