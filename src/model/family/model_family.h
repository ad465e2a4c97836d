// The supported families of models: their additions to the graph of a Llama, and their names in
// config.json and GGUF. Every addition is also a field of model_config (config/model_config.h),
// from which parameters and graph are built, so that no code tests the name of a family. A new
// family is a row here, a golden test and a chat template.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// The ways in which config.json specifies that a token sees only the last `sliding_window` tokens.
typedef enum family_window {
    WINDOW_NEVER,   // it does not: the field is not read
    WINDOW_OF_ALL,  // sliding_window applies to all layers; null: there is no window
    WINDOW_SWITCHED // only if use_sliding_window is true, from layer max_window_layers on
} family_window;

typedef struct model_family {
    const char *model_type, *architecture; // in config.json
    const char *gguf;                      // general.architecture, and the prefix of its keys
    bool qkv_bias;                         // biases of the projections to queries, keys, values
    bool qk_norm;                          // an RMS norm of each head of queries and keys
    family_window window;

    // Layers whose number, counted from 1, is a multiple of no_rope_layer_interval have no rotary
    // embedding. The family's interval, which GGUF does not record; 0: all layers have one.
    int64_t no_rope_layer_interval;

    // GGUF has the two halves of each rotary pair of q and k side by side (llama.cpp's NORM rope);
    // else one half after the other, as config.json's models do (its NEOX rope).
    bool gguf_interleaves;

    // Defaults of the family's class in transformers, for what config.json leaves out; 0: the same
    // as LlamaConfig.
    int64_t num_key_value_heads, head_dim, max_position_embeddings;
    int64_t sliding_window, max_window_layers;
    double rope_theta;
    bool tie_word_embeddings;
} model_family;

extern const model_family model_families[];
extern const int n_model_families;

// Return the family of a model_type, or the first one of a general.architecture, which several
// families share. `window`: only one that supports a sliding window. NULL: there is none.
const model_family *model_family_of_type(const char *model_type);
const model_family *model_family_of_gguf(const char *architecture, bool window);
