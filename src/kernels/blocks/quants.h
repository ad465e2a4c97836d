// The element types of GGUF tensors: the content of a block and its conversion to fp32. A row is a
// whole number of blocks. Files store weights in these types, and so may the memory of a run
// (kernels/blocks/block_matrix.h); every conversion gives the bits of `to_f32`.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

typedef enum quant_id { // the format's numbers of the types that drover names
    QUANT_F32 = 0,
    QUANT_F16 = 1,
    QUANT_Q8_0 = 8,
    QUANT_Q4_K = 12,
    QUANT_Q6_K = 14, // read, not written
    QUANT_BF16 = 30,
} quant_id;

typedef struct quant_type {
    const char *name;           // as ggml calls it: "Q4_K"
    int32_t block, block_bytes; // elements and bytes of a block
    // `n` blocks to fp32; NULL: this type is not read.
    void (*to_f32)(const unsigned char *blocks, int64_t n, float *out);
    // `n` blocks from fp32; NULL: this type is not written.
    void (*from_f32)(const float *values, int64_t n, unsigned char *blocks);
    // The absolute values that can be written are smaller than this, since scales are fp16; 0: any
    // finite value can.
    float limit;
} quant_type;

// Returns a type by its number; NULL: there is none, or ggml has removed it.
const quant_type *quant_type_of(uint32_t id);
// Returns the names of all types that are read, separated by ", ".
const char *quant_types_read(void);

// Returns the type of a matrix in a model of type `asked`: in a Q4_K model the output weight (the
// embedding if tied) is Q8_0, since 4 bits lose the most accuracy there.
quant_id quant_of_weight(quant_id asked, bool is_output);

// --- parts of blocks
// Returns an fp16 number of a block, as a scale.
static inline float quant_half(const unsigned char *p) {
    uint16_t word;
    memcpy(&word, p, 2);
    return f16_to_f32(word);
}
// Q4_K and Q5_K: scale and minimum, 6 bits each, of sub-block s of 8 in 12 bytes: the last four
// sub-blocks have their upper two bits in the bytes of the first four.
static inline void quant_scale_and_min(const unsigned char *packed, int s, int *scale, int *min) {
    if (s < 4) {
        *scale = packed[s] & 63;
        *min = packed[s + 4] & 63;
    } else {
        *scale = (packed[s + 4] & 15) | packed[s - 4] >> 6 << 4;
        *min = packed[s + 4] >> 4 | packed[s] >> 6 << 4;
    }
}

// Quantise fp32 values to `n` blocks of 32 or 256 (quantise.c): the same bits on any processor.
void q8_0_from_f32(const float *values, int64_t n, unsigned char *blocks);
void q4_k_from_f32(const float *values, int64_t n, unsigned char *blocks);
