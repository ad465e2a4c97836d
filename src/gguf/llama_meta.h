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
    int64_t window;  // of the last ones that a token sees at most; 0: any number
    double rms_norm_eps, rope_theta;
    llama3_rope rope;
    bool tied;                  // there is no output.weight
    int64_t bos, pad;           // ids; -1: none
    int64_t eos[MAX_LLAMA_EOS]; // the tokenizer's first; others that end a turn follow
    int n_eos;
} llama_meta;

// DRV_E_DATA: a key is missing or out of range, or the file is of no family: another architecture,
// or something that none of them has, by its key.
DRV_CHECKED drv_status llama_meta_read(arena *a, const gguf_file *f, llama_meta *out);
// Ids of special tokens that are beyond the vocabulary are warned of, once, and left out.
drv_status llama_meta_token(const gguf_file *f, const char *key, int64_t n_tokens, int64_t *id);

// config.json as transformers reads it; `torch_dtype` as torch calls it. The caller owns the value.
json_t *llama_config_json(const llama_meta *m, const char *torch_dtype);
// Ids as both configs have them: a number, a list of several, null for none. The caller owns the
// value.
json_t *llama_id_json(int64_t id);
json_t *llama_eos_json(const llama_meta *m);
