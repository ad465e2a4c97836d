// A source as a GGUF file that llama.cpp loads: metadata, tokenizer and chat template, norms in
// F32, matrices in one type. Memory is that of a piece of a tensor, at least the rows of one head.
#pragma once
#include "ckpt/model_writer.h"
#include "gguf/llama_meta.h"

typedef struct gguf_write_opts {
    const char *verb; // "export": begins the progress line
    const char *name; // general.name; NULL: the source's last part
    bool has_type;    // otherwise the source's own: F32, F16 or BF16
    // F32, F16, BF16, Q8_0 or Q4_K, which the output weight has Q8_0 with; a matrix whose rows are
    // not whole blocks (32, 256) has Q8_0 or F16.
    quant_id type;
    bool force;                 // replace a file
    const model_change *change; // as of model_write_opts; NULL: none
    const ckpt_carried *files;  // likewise
    int n_files;
} gguf_write_opts;

typedef struct gguf_written { // for a summary
    int64_t bytes;
    quant_id type;
    int n_tensors;
    int n_wider; // of these, matrices in Q8_0 or F16, as their rows are not whole blocks of `type`
    double seconds;
} gguf_written;

// "f32", "f16", "bf16", "q8_0", "q4_k", as options name them; also "fp32" and "fp16".
bool gguf_write_type(const char *name, quant_id *out);
// DRV_E_USAGE: `path` is a folder, or is there and `force` is not given. Best asked before long
// work.
DRV_CHECKED drv_status gguf_write_check(const char *path, bool force);

// `m`: the source's shape; it must have these tensors (ckpt_check). The file appears whole
// or not at all.
DRV_CHECKED drv_status gguf_write(const model_source *s, const llama_meta *m, const char *path,
        const gguf_write_opts *opts, gguf_written *out);
