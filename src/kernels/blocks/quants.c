// Blocks of quantised weights <-> fp32. The layouts are those of ggml (ggml-common.h,
// ggml-quants.c); each sum and product is rounded as gguf-py's does, so both give the same bits. d,
// m: scale and minimum, fp16; q: a whole number; x = d * q + m.
#include "kernels/blocks/quants.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

enum { SMALL = 32, LARGE = 256 }; // elements of a block: of the plain types, of the K types

static uint16_t word_at(const unsigned char *p) {
    uint16_t word;
    memcpy(&word, p, 2);
    return word;
}

// --- plain numbers
static void f32_to_f32(const unsigned char *blocks, int64_t n, float *out) {
    memcpy(out, blocks, 4 * (size_t)n);
}

static void f32_from_f32(const float *values, int64_t n, unsigned char *blocks) {
    memcpy(blocks, values, 4 * (size_t)n);
}

static void f16_rows_to_f32(const unsigned char *blocks, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = quant_half(blocks + 2 * i);
}

static void f16_rows_from_f32(const float *values, int64_t n, unsigned char *blocks) {
    for (int64_t i = 0; i < n; i++) {
        const uint16_t word = f32_to_f16(values[i]);
        memcpy(blocks + 2 * i, &word, 2);
    }
}

static void bf16_rows_to_f32(const unsigned char *blocks, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = bf16_to_f32(word_at(blocks + 2 * i));
}

static void bf16_rows_from_f32(const float *values, int64_t n, unsigned char *blocks) {
    for (int64_t i = 0; i < n; i++) {
        const uint16_t word = f32_to_bf16(values[i]);
        memcpy(blocks + 2 * i, &word, 2);
    }
}

// --- blocks of 32: d, perhaps m, perhaps the fifth bits, then nibbles: byte i has the elements i
// (low) and i + 16 (high)
static void nibbles(const unsigned char *q, const unsigned char *fifth, int zero, float d, float m,
        bool has_m, float *out) {
    uint32_t high = 0;
    if (fifth) memcpy(&high, fifth, 4);
    for (int i = 0; i < SMALL; i++) {
        const int nibble = i < SMALL / 2 ? q[i] & 15 : q[i - SMALL / 2] >> 4;
        const int whole = nibble + (int)(high >> i & 1) * 16 - zero;
        out[i] = d * (float)whole;
        if (has_m) out[i] += m;
    }
}

static void q4_0_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 18, out += SMALL)
        nibbles(p + 2, NULL, 8, quant_half(p), 0, false, out);
}

static void q4_1_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 20, out += SMALL)
        nibbles(p + 4, NULL, 0, quant_half(p), quant_half(p + 2), true, out);
}

static void q5_0_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 22, out += SMALL)
        nibbles(p + 6, p + 2, 16, quant_half(p), 0, false, out);
}

static void q5_1_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 24, out += SMALL)
        nibbles(p + 8, p + 4, 0, quant_half(p), quant_half(p + 2), true, out);
}

static void q8_0_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 34, out += SMALL)
        for (int i = 0; i < SMALL; i++)
            out[i] = (float)(int8_t)p[2 + i] * quant_half(p);
}

// --- blocks of 256, cut into sub-blocks with scales of their own
// 16 sub-blocks of 16: 4 bits of scale and of minimum, 2 bits of each element.
static void q2_k_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 84, out += LARGE) {
        const unsigned char *scales = p, *q = p + 16;
        const float d = quant_half(p + 80), m = quant_half(p + 82);
        for (int i = 0; i < LARGE; i++) {
            const int two = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
            const float scale = d * (float)(scales[i / 16] & 15);
            out[i] = scale * (float)two - m * (float)(scales[i / 16] >> 4);
        }
    }
}

// 16 sub-blocks of 16: 6 bits of scale; of an element two bits and, apart, a third one.
static void q3_k_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 110, out += LARGE) {
        const unsigned char *third = p, *q = p + 32, *scales = p + 96;
        const float d = quant_half(p + 108);
        for (int i = 0; i < LARGE; i++) {
            const int s = i / 16;
            const int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
            const int scale = (low | (scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32;
            const int two = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
            const int whole = two - (third[i % 32] >> (i / 32) & 1 ? 0 : 4);
            out[i] = d * (float)scale * (float)whole;
        }
    }
}

// 8 sub-blocks of 32: nibbles, and for Q5_K their fifth bits, one bit of a byte per sub-block.
static void nibbles_k(const unsigned char *p, const unsigned char *fifth, const unsigned char *q,
        float *out) {
    const float d = quant_half(p), m = quant_half(p + 2);
    for (int s = 0; s < LARGE / SMALL; s++) {
        int scale, min;
        quant_scale_and_min(p + 4, s, &scale, &min);
        const float by = d * (float)scale, off = m * (float)min;
        for (int i = 0; i < SMALL; i++) {
            const int nibble = q[s / 2 * SMALL + i] >> (s % 2 * 4) & 15;
            const int whole = nibble + (fifth ? (fifth[i] >> s & 1) * 16 : 0);
            out[s * SMALL + i] = by * (float)whole - off;
        }
    }
}

static void q4_k_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 144, out += LARGE)
        nibbles_k(p, NULL, p + 16, out);
}

static void q5_k_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 176, out += LARGE)
        nibbles_k(p, p + 16, p + 48, out);
}

// 16 sub-blocks of 16: 8 bits of scale; of an element four bits and, apart, two.
static void q6_k_to_f32(const unsigned char *p, int64_t n, float *out) {
    for (int64_t b = 0; b < n; b++, p += 210, out += LARGE) {
        const unsigned char *low = p, *high = p + 128, *scales = p + 192;
        const float d = quant_half(p + 208);
        for (int i = 0; i < LARGE; i++) {
            const int half = i / 128, part = i % 128 / 32, column = i % 32;
            const int nibble = low[half * 64 + part % 2 * 32 + column] >> (part / 2 * 4) & 15;
            const int two = high[half * 32 + column] >> (part * 2) & 3;
            out[i] = d * (float)(int8_t)scales[i / 16] * (float)((nibble | two << 4) - 32);
        }
    }
}

// --- the table: by ggml's numbers; the sizes of types that are not read are needed to check files
static const quant_type types[] = {
        [QUANT_F32] = {"F32", 1, 4, f32_to_f32, f32_from_f32, 0},
        [QUANT_F16] = {"F16", 1, 2, f16_rows_to_f32, f16_rows_from_f32, 0},
        [2] = {"Q4_0", SMALL, 18, q4_0_to_f32, NULL, 0},
        [3] = {"Q4_1", SMALL, 20, q4_1_to_f32, NULL, 0},
        [6] = {"Q5_0", SMALL, 22, q5_0_to_f32, NULL, 0},
        [7] = {"Q5_1", SMALL, 24, q5_1_to_f32, NULL, 0},
        [QUANT_Q8_0] = {"Q8_0", SMALL, 34, q8_0_to_f32, q8_0_from_f32, 127 * 65504.0f},
        [9] = {"Q8_1", SMALL, 40, NULL, NULL, 0},
        [10] = {"Q2_K", LARGE, 84, q2_k_to_f32, NULL, 0},
        [11] = {"Q3_K", LARGE, 110, q3_k_to_f32, NULL, 0},
        [QUANT_Q4_K] = {"Q4_K", LARGE, 144, q4_k_to_f32, q4_k_from_f32, 63 * 65504.0f},
        [13] = {"Q5_K", LARGE, 176, q5_k_to_f32, NULL, 0},
        [QUANT_Q6_K] = {"Q6_K", LARGE, 210, q6_k_to_f32, NULL, 0},
        [15] = {"Q8_K", LARGE, 292, NULL, NULL, 0},
        [16] = {"IQ2_XXS", LARGE, 66, NULL, NULL, 0},
        [17] = {"IQ2_XS", LARGE, 74, NULL, NULL, 0},
        [18] = {"IQ3_XXS", LARGE, 98, NULL, NULL, 0},
        [19] = {"IQ1_S", LARGE, 50, NULL, NULL, 0},
        [20] = {"IQ4_NL", SMALL, 18, NULL, NULL, 0},
        [21] = {"IQ3_S", LARGE, 110, NULL, NULL, 0},
        [22] = {"IQ2_S", LARGE, 82, NULL, NULL, 0},
        [23] = {"IQ4_XS", LARGE, 136, NULL, NULL, 0},
        [24] = {"I8", 1, 1, NULL, NULL, 0},
        [25] = {"I16", 1, 2, NULL, NULL, 0},
        [26] = {"I32", 1, 4, NULL, NULL, 0},
        [27] = {"I64", 1, 8, NULL, NULL, 0},
        [28] = {"F64", 1, 8, NULL, NULL, 0},
        [29] = {"IQ1_M", LARGE, 56, NULL, NULL, 0},
        [QUANT_BF16] = {"BF16", 1, 2, bf16_rows_to_f32, bf16_rows_from_f32, 0},
        [34] = {"TQ1_0", LARGE, 54, NULL, NULL, 0},
        [35] = {"TQ2_0", LARGE, 66, NULL, NULL, 0},
        [39] = {"MXFP4", SMALL, 17, NULL, NULL, 0},
        [40] = {"NVFP4", 64, 36, NULL, NULL, 0},
        [41] = {"Q1_0", 128, 18, NULL, NULL, 0},
};
enum { N_TYPES = sizeof types / sizeof *types };

const quant_type *quant_type_of(uint32_t id) {
    return id < N_TYPES && types[id].name ? &types[id] : NULL;
}

quant_id quant_of_weight(quant_id asked, bool is_output) {
    return asked == QUANT_Q4_K && is_output ? QUANT_Q8_0 : asked;
}

const char *quant_types_read(void) {
    static _Thread_local char text[160];
    size_t n = 0;
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].to_f32)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", types[i].name);
    return text;
}
