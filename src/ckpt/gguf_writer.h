// A source as a GGUF file that llama.cpp loads: metadata, tokenizer and chat template, norms in
// F32, matrices in one type. Memory is the rows of one head, or a piece of a tensor.
#pragma once
#include "ckpt/model_source.h"
#include "gguf/llama_meta.h"

typedef struct gguf_write_opts {
    const char *verb; // "export": begins the progress line
    const char *name; // general.name; NULL: the source's last part
    bool has_type;    // otherwise the source's own: F32, F16 or BF16
    quant_id type; // F32, F16, BF16 or Q8_0, whose matrices have F16 where rows are not a multiple
                   // of 32
    bool force;    // replace a file
} gguf_write_opts;

typedef struct gguf_written { // for a summary
    int64_t bytes;
    quant_id type;
    int n_tensors;
    double seconds;
} gguf_written;

// "f32", "f16", "bf16", "q8_0", as options name them; also "fp32" and "fp16".
bool gguf_write_type(const char *name, quant_id *out);
// DRV_E_USAGE: `path` is a folder, or is there and `force` is not given. Best asked before long
// work.
DRV_CHECKED drv_status gguf_write_check(const char *path, bool force);

// `m`: the source's shape; it must have these tensors (ckpt_check). The file appears whole
// or not at all.
DRV_CHECKED drv_status gguf_write(const model_source *s, const llama_meta *m, const char *path,
        const gguf_write_opts *opts, gguf_written *out);
