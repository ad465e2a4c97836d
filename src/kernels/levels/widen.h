// Converts rows of quantised blocks by vectors: Q8_0, Q4_K and Q6_K; other types use their
// definition. kernels/blocks/quants.c draws the layouts; each product and sum is rounded as there,
// so the bits are those of block_widen on every level.
#pragma once
#include "base/round.h"
#include "kernels/kernels.h"
#include "kernels/levels/vec.h"

// WIDTH numbers of 4 bits, the lower or the upper halves of bytes.
INLINE vec nibbles_of(ints bytes, bool upper) {
    return upper ? v_mul(v_of(i_and(bytes, i_set(0xF0))), v_set(1.0f / 16))
                 : v_of(i_and(bytes, i_set(0x0F)));
}

INLINE void widen_q8_0(dtype dt, const unsigned char *block, void *out, int64_t at) {
    const vec d = v_set(quant_half(block));
    for (int i = 0; i < WIDEN_UNIT; i += WIDTH)
        v_store_as(dt, out, at + i, v_mul(v_load_i8(block + 2 + i), d), WIDTH);
}

// Sub-block s of 8 of a block with this scale and minimum. In bf16 its 16 values are computed once.
INLINE void widen_q4_k(dtype dt, const unsigned char *block, float d, float m, int s, void *out,
        int64_t at) {
    int scale, min;
    quant_scale_and_min(block + 4, s, &scale, &min);
    const vec by = v_set(d * (float)scale), off = v_set(m * (float)min);
    const unsigned char *q = block + 16 + s / 2 * WIDEN_UNIT;
    if (dt == DT_BF16) {
        vec values[16 / WIDTH];
        for (int i = 0; i < 16; i += WIDTH)
            values[i / WIDTH] = v_sub(v_mul(by, v_of(i_count((uint32_t)i))), off);
        v_store_bf16_of(values, q, s % 2 == 1, (uint16_t *)out + at);
        return;
    }
    for (int i = 0; i < WIDEN_UNIT; i += WIDTH)
        v_store_as(dt, out, at + i, v_sub(v_mul(by, nibbles_of(i_load_u8(q + i), s % 2 == 1)), off),
                WIDTH);
}

// Units [first, first + n) of a row.
INLINE void widen_units_q4_k(dtype dt, const unsigned char *row, int64_t first, int64_t n,
        void *out) {
    enum { PARTS = 256 / WIDEN_UNIT, BYTES = 144 };
    for (int64_t u = first; u < first + n;) {
        const unsigned char *block = row + u / PARTS * BYTES;
        const float d = quant_half(block), m = quant_half(block + 2);
        do
            widen_q4_k(dt, block, d, m, (int)(u % PARTS), out, (u - first) * WIDEN_UNIT);
        while (++u < first + n && u % PARTS != 0);
    }
}

// Part s of 8, two sub-blocks of 16: 4 bits of each number, and 2 more, which count 16.
INLINE void widen_q6_k(dtype dt, const unsigned char *block, int s, void *out, int64_t at) {
    static const float sixteenth[] = {16, 4, 1, 0.25f}; // of the two bits where they stand
    const int part = s % 4;
    const unsigned char *low = block + s / 4 * 64 + part % 2 * WIDEN_UNIT,
                        *high = block + 128 + s / 4 * WIDEN_UNIT, *scales = block + 192 + 2 * s;
    const float d = quant_half(block + 208);
    for (int i = 0; i < WIDEN_UNIT; i += WIDTH) {
        const vec by = v_set(d * (float)(int8_t)scales[i / 16]);
        const ints two = i_and(i_load_u8(high + i), i_set(3u << 2 * part));
        const vec whole = v_add(nibbles_of(i_load_u8(low + i), part >= 2),
                v_mul(v_of(two), v_set(sixteenth[part])));
        v_store_as(dt, out, at + i, v_mul(by, v_sub(whole, v_set(32))), WIDTH);
    }
}

INLINE void widen_as(dtype dt, const quant_type *type, const unsigned char *row, int64_t first,
        int64_t n, void *out) {
    enum { PARTS = 256 / WIDEN_UNIT };
    const int64_t unit = first / WIDEN_UNIT, n_units = n / WIDEN_UNIT;
    if (type == quant_type_of(QUANT_Q8_0)) {
        for (int64_t u = 0; u < n_units; u++)
            widen_q8_0(dt, row + (unit + u) * type->block_bytes, out, u * WIDEN_UNIT);
    } else if (type == quant_type_of(QUANT_Q4_K)) {
        widen_units_q4_k(dt, row, unit, n_units, out);
    } else if (type == quant_type_of(QUANT_Q6_K)) {
        for (int64_t u = 0; u < n_units; u++)
            widen_q6_k(dt, row + (unit + u) / PARTS * type->block_bytes, (int)((unit + u) % PARTS),
                    out, u * WIDEN_UNIT);
    } else {
        enum { AT_A_TIME = 256 };
        float values[AT_A_TIME];
        for (int64_t at = 0; at < n; at += AT_A_TIME) {
            const int64_t take = n - at < AT_A_TIME ? n - at : AT_A_TIME;
            block_widen(type, row, first + at, take, values);
            // Not by v_store_as: these types have denormal numbers, which it may take as 0.
            for (int64_t j = 0; j < take; j++)
                if (dt == DT_BF16)
                    ((uint16_t *)out)[at + j] = f32_to_bf16(values[j]);
                else
                    ((float *)out)[at + j] = values[j];
        }
    }
}

static void widen(dtype dt, const quant_type *type, const void *row, int64_t first, int64_t n,
        void *out) {
    if (dt == DT_BF16)
        widen_as(DT_BF16, type, row, first, n, out);
    else
        widen_as(DT_F32, type, row, first, n, out);
}

// The part of an operand b for a block of k, widened.
typedef struct widened_b {
    const void *p;
    int64_t ld;
} widened_b;

// Widens to `to` the part of operand b that a product needs for elements [k0, k0 + k) of the inner
// dimension: its columns, extended to whole units, of its rows.
static inline widened_b widen_b(dtype dt, const gemm_shape *shape, const void *held, int64_t k0,
        int64_t k, void *to) {
    const block_matrix *blocks = shape->blocks;
    const int64_t row = shape->b_row + (shape->tb ? 0 : k0), n_rows = shape->tb ? shape->n : k,
                  column = shape->b_column + (shape->tb ? k0 : 0), n = shape->tb ? k : shape->n,
                  first = column / WIDEN_UNIT * WIDEN_UNIT,
                  whole = round_up(column + n, WIDEN_UNIT),
                  end = whole < blocks->columns ? whole : blocks->columns, ld = n + 2 * WIDEN_UNIT,
                  bytes = dtype_bytes(dt);
    for (int64_t i = 0; i < n_rows; i++) {
        const quant_type *type, *next;
        const char *from = (const char *)held + block_row_at(blocks, row + i, &type);
        if (i + 1 < n_rows) {
            const char *ahead = (const char *)held + block_row_at(blocks, row + i + 1, &next);
            ahead += block_row_bytes(next, first);
            for (int64_t b = 0; b < block_row_bytes(next, end - first); b += 64)
                v_prefetch(ahead + b);
        }
        widen(dt, type, from, first, end - first, (char *)to + i * ld * bytes);
    }
    return (widened_b){(char *)to + (column - first) * bytes, ld};
}
