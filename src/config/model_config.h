// The shape of a Llama: Hugging Face config.json's own fields.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

enum { MAX_EOS = 8 };

typedef struct model_config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim;
    int64_t max_position_embeddings;
    double rms_norm_eps, rope_theta, initializer_range;
    bool tie_word_embeddings;
    // rope_scaling of type llama3 (factor 0: none), arXiv:2407.21783 and the 3.1 release
    double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    int64_t rope_original_context;
    int64_t bos_token_id, pad_token_id; // -1: none
    int64_t eos_token_id[MAX_EOS];
    int n_eos;
} model_config;

extern const char *const model_preset_names[];
extern const int n_model_presets;
// Shapes alone: token ids come from the run's tokenizer.
bool model_preset(const char *name, model_config *out);

// Reads config.json (or the folder that holds it). Refuses what is no Llama, by name of the field.
DRV_CHECKED drv_status model_config_read(const char *path, model_config *out);

// Divisibility and ranges. `where` begins the message (file and line, or a path).
DRV_CHECKED drv_status model_config_check(const char *where, const model_config *m);

// The config.json that transformers reads; the caller owns the value.
json_t *model_config_json(const model_config *m);

int64_t model_parameters(const model_config *m);
// Floating-point operations to train on one token of rows of `seq` tokens: 6 a weight that is
// multiplied, and the causal half of attention, 12 * layers * heads * head_dim * (seq + 1) / 2.
double model_flops_per_token(const model_config *m, int64_t seq);
