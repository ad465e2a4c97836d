// The shape of a model: Hugging Face config.json's own fields, and what its family
// (model/family/model_family.h) adds to a Llama.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "model/family/model_family.h"
#include "base/status.h"

enum { MAX_EOS = 8 };

typedef enum rope_type { ROPE_DEFAULT, ROPE_LLAMA3 } rope_type;

typedef struct model_config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim;
    int64_t max_position_embeddings; // tokens
    double rms_norm_eps, rope_theta, initializer_range;
    bool tie_word_embeddings;
    bool qkv_bias; // biases of the projections to queries, keys and values
    bool qk_norm;  // an RMS norm of each head of queries and keys
    // In layer max_window_layers and later ones a token attends to at most the last sliding_window
    // tokens, itself included.
    int64_t sliding_window, max_window_layers; // tokens, 0: no limit; layers, counted from 0
    int64_t no_rope_layer_interval;            // layers, see model_layer_rotates; 0: all rotate
    // rope_scaling of type llama3 (arXiv:2407.21783 and the 3.1 release); all 0 with ROPE_DEFAULT
    rope_type rope_type;
    double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    int64_t rope_original_context;      // tokens
    int64_t bos_token_id, pad_token_id; // -1: none
    int64_t eos_token_id[MAX_EOS];
    int n_eos;
} model_config;

// Returns the defaults of LlamaConfig in transformers, for fields that config.json omits; no shape.
model_config model_config_defaults(void);

extern const int n_model_presets;
const char *model_preset_name(int i);
// Shapes alone: token ids come from the run's tokenizer.
bool model_preset(const char *name, model_config *out);

// Reads config.json of a model of any family; `path` is the file or its folder. DRV_E_IO: it cannot
// be read; DRV_E_DATA names a field that is invalid or not supported.
DRV_CHECKED drv_status model_config_read(const char *path, model_config *out);
// The same for a parsed config.json; `path` is for messages.
DRV_CHECKED drv_status model_config_of_json(const char *path, const json_t *json,
        model_config *out);

// Fills in what follows from other fields (heads, widths), then checks ranges, divisibility and
// token ids. `where` begins the message (file and line, or a path), `prefix` comes before the names
// of fields: "model." in YAML, "" in config.json. DRV_E_USAGE: a check fails.
DRV_CHECKED drv_status model_config_check(const char *where, const char *prefix, model_config *m);

// Returns the family whose additions the model has, the first of several; NULL: none has all of
// them.
const model_family *model_config_family(const model_config *m);

// Returns the config.json that transformers reads; the caller owns the value.
json_t *model_config_json(const model_config *m);

// Returns the first field in which two configs differ, as "rope_theta 10000.0 and 500000.0"; NULL:
// none. Token ids are not part of the shape and not compared. Lives in `a`.
const char *model_config_difference(arena *a, const model_config *m, const model_config *other);

int64_t model_parameters(const model_config *m);
// Returns whether a layer, counted from 0, has rotary embedding: all have it but each
// no_rope_layer_interval-th (arXiv:2501.18795).
bool model_layer_rotates(const model_config *m, int64_t layer);
