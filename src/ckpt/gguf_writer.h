// Writes a source as a GGUF file that llama.cpp loads: metadata, tokenizer and chat template, norms
// in F32, matrices in one type. Holds one piece of a tensor in memory, at least the rows of one
// head.
#pragma once
#include "ckpt/model_writer.h"
#include "gguf/llama_meta.h"

typedef struct gguf_write_opts {
    const char *verb; // "export": begins the progress line
    const char *name; // general.name; NULL: the source's last part
    bool has_type;    // otherwise the source's own: F32, F16 or BF16
    // F32, F16, BF16, Q8_0 or Q4_K. With Q4_K the output weight is Q8_0. A matrix whose rows are
    // not whole blocks (of 32 or 256) is Q8_0 or F16.
    quant_id type;
    bool force;                 // replace a file
    const model_change *change; // as in model_write_opts; NULL: none
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

// Parses the value of an option: "f32", "f16", "bf16", "q8_0", "q4_k"; also "fp32" and "fp16".
bool gguf_write_type(const char *name, quant_id *out);
// DRV_E_USAGE: `path` is a folder, or exists and `force` is not given. Call it before long work.
DRV_CHECKED drv_status gguf_write_check(const char *path, bool force);

// `m`: the model's shape; the source must have its tensors (ckpt_check). The file appears whole or
// not at all.
DRV_CHECKED drv_status gguf_write(const model_source *s, const llama_meta *m, const char *path,
        const gguf_write_opts *opts, gguf_written *out);
