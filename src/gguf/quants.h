// The element types of GGUF tensors: what a block of each holds, and how it is turned into fp32.
// Blocks lie in rows; a row is a whole number of blocks.
#pragma once
#include <stdint.h>

typedef enum quant_id { // numbers of the format, those that are written
    QUANT_F32 = 0,
    QUANT_F16 = 1,
    QUANT_Q8_0 = 8,
    QUANT_BF16 = 30,
} quant_id;

typedef struct quant_type {
    const char *name;           // as ggml calls it: "Q4_K"
    int32_t block, block_bytes; // elements and bytes of a block
    // `n` blocks to fp32; NULL: this type is not read.
    void (*to_f32)(const unsigned char *blocks, int64_t n, float *out);
    // `n` blocks from fp32; NULL: this type is not written.
    void (*from_f32)(const float *values, int64_t n, unsigned char *blocks);
} quant_type;

// NULL: no such type, or one that ggml no longer has.
const quant_type *quant_type_of(uint32_t id);
// The names of all types that are read, separated by ", ".
const char *quant_types_read(void);
