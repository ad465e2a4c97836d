// Reads the metadata of a GGUF file that holds a Llama or a related model, and makes the equivalent
// config.json and generation_config.json.
#pragma once
#include "base/json.h"
#include "model/family/model_family.h"

#include "gguf/gguf.h"
#include "gguf/llama_rope.h"

enum { MAX_LLAMA_EOS = 8 };

typedef struct llama_meta {
    const model_family *family;
    int64_t vocab_size, hidden_size, intermediate_size, n_layers, n_heads, n_kv_heads, head_dim;
    int64_t context; // tokens
    int64_t window;  // most tokens that a token attends to, itself included; 0: all
    double rms_norm_eps, rope_theta;
    llama3_rope rope;
    bool tied;                  // no output.weight: it is that of the embedding
    int64_t bos, pad;           // ids; -1: none
    int64_t eos[MAX_LLAMA_EOS]; // the tokenizer's first, then others that end a turn
    int n_eos;
} llama_meta;

// Reads the metadata. DRV_E_DATA: a key is missing or out of range, or the model is of no family:
// its architecture is unknown, or a key has a value that no family supports.
DRV_CHECKED drv_status llama_meta_read(arena *a, const gguf_file *f, llama_meta *out);
// Reads the id of a special token; warns of one beyond the vocabulary, and leaves it out.
drv_status llama_meta_token(const gguf_file *f, const char *key, int64_t n_tokens, int64_t *id);

// Makes config.json for transformers; `torch_dtype` is torch's name. The caller owns the value.
json_t *llama_config_json(const llama_meta *m, const char *torch_dtype);
// Make ids as in both configs: a number, a list of several, or null. The caller owns the value.
json_t *llama_id_json(int64_t id);
json_t *llama_eos_json(const llama_meta *m);
