// fp32 numbers to blocks of Q8_0 and Q4_K (layouts: ggml-common.h). Q8_0 has the bits of ggml and
// gguf-py. Q4_K leaves open which scales fit a block best; ours are found by the search below, in a
// fixed order of fp32 operations, so that the bits are the same on any processor.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "kernels/blocks/quants.h"

static void put_half(unsigned char *p, float x) {
    const uint16_t word = f32_to_f16(x);
    memcpy(p, &word, 2);
}

static float rounded_half(float x) {
    return f16_to_f32(f32_to_f16(x));
}

// --- Q8_0: fp16 d, 32 whole numbers of 8 bits; x = d q
// As ggml's reference does: the scale is rounded to fp16 only after the numbers are.
void q8_0_from_f32(const float *values, int64_t n, unsigned char *blocks) {
    enum { BLOCK = 32 };
    for (int64_t b = 0; b < n; b++, blocks += 34, values += BLOCK) {
        float largest = 0;
        for (int i = 0; i < BLOCK; i++)
            largest = fmaxf(largest, fabsf(values[i]));
        const float d = largest / 127, inverse = d > 0 ? 1 / d : 0;
        put_half(blocks, d);
        for (int i = 0; i < BLOCK; i++)
            blocks[2 + i] = (unsigned char)(int8_t)roundf(values[i] * inverse);
    }
}

// --- Q4_K: fp16 d and m, then 6 bits of scale s and of minimum o for each of 8 sub-blocks of 32,
// then their numbers of 4 bits; x = (d s) q - (m o)
enum { SUB = 32, N_SUBS = 8, MOST = 15, CHAINS = 8, CANDIDATES = 9 };

typedef struct line { // x = step q - below, neither negative
    float step, below;
} line;

// Sums over a sub-block of its values x and numbers q, by their weights w. CHAINS chains, joined in
// halves: the same bits, whether a compiler makes vectors of them or not.
typedef struct moments {
    float w, q, qq, x, xq, xx;
} moments;

static float joined(const float sums[CHAINS]) {
    const float a = (sums[0] + sums[4]) + (sums[2] + sums[6]),
                b = (sums[1] + sums[5]) + (sums[3] + sums[7]);
    return a + b;
}

// Returns the nearest number of 0 .. MOST.
static float nearest(float x) {
    const float inside = x < 0 ? 0 : x > MOST ? (float)MOST : x;
    return (float)(int)(inside + 0.5f);
}

static moments moments_of(const float *x, const float *w, float low, float inverse) {
    float sw[CHAINS] = {0}, sq[CHAINS] = {0}, sqq[CHAINS] = {0}, sx[CHAINS] = {0},
          sxq[CHAINS] = {0}, sxx[CHAINS] = {0};
    for (int i = 0; i < SUB; i += CHAINS)
        for (int k = 0; k < CHAINS; k++) {
            const float q = nearest((x[i + k] - low) * inverse), wq = w[i + k] * q,
                        wx = w[i + k] * x[i + k];
            sw[k] += w[i + k];
            sq[k] += wq;
            sqq[k] += wq * q;
            sx[k] += wx;
            sxq[k] += wx * q;
            sxx[k] += wx * x[i + k];
        }
    return (moments){.w = joined(sw),
            .q = joined(sq),
            .qq = joined(sqq),
            .x = joined(sx),
            .xq = joined(sxq),
            .xx = joined(sxx)};
}

// Finds the line with the least weighted sum of squared errors; *error is that sum.
static line best_line(const moments *m, float *error) {
    const float det = m->w * m->qq - m->q * m->q;
    line l = {0, 0};
    if (det > 0) {
        l.step = (m->w * m->xq - m->q * m->x) / det;
        l.below = (m->q * m->xq - m->qq * m->x) / det;
    }
    if (!(l.below > 0)) l = (line){m->qq > 0 ? m->xq / m->qq : 0, 0};
    if (!(l.step > 0)) l.step = 0;
    *error = m->xx + l.step * l.step * m->qq + l.below * l.below * m->w - 2 * l.step * m->xq +
             2 * l.below * m->x - 2 * l.step * l.below * m->q;
    return l;
}

// Numbers are tried from several widths of the range; large values count more, as they do in
// ggml's search.
static line fit(const float *values) {
    float low = 0, high = values[0], w[SUB], squares = 0;
    for (int i = 0; i < SUB; i++) {
        low = fminf(low, values[i]);
        high = fmaxf(high, values[i]);
        squares += values[i] * values[i];
    }
    if (!(high > low)) return (line){0, -low}; // all alike, and not positive
    const float typical = sqrtf(squares / SUB);
    for (int i = 0; i < SUB; i++)
        w[i] = typical + fabsf(values[i]);
    line best = {(high - low) / MOST, -low};
    float least = INFINITY; // rounding makes it negative where the numbers are on a line
    for (int c = 0; c < CANDIDATES; c++) {
        const float wider = 0.25f * (float)(c - CANDIDATES / 2);
        const moments m = moments_of(values, w, low, (MOST + wider) / (high - low));
        float error;
        const line l = best_line(&m, &error);
        if (l.step > 0 && error < least) least = error, best = l;
    }
    return best;
}

// Returns the nearest multiple of an fp16 unit, 0 .. 63.
static int multiple(float x, float unit) {
    if (!(unit > 0)) return 0;
    const float n = x / unit;
    return n >= 63 ? 63 : (int)(n + 0.5f);
}

// Scale and minimum of sub-block i in the 12 bytes that quants.c reads.
static void put_scale(unsigned char *packed, int i, int scale, int min) {
    if (i < 4) {
        packed[i] = (unsigned char)(packed[i] | scale);
        packed[i + 4] = (unsigned char)(packed[i + 4] | min);
    } else {
        packed[i + 4] = (unsigned char)((scale & 15) | (min & 15) << 4);
        packed[i - 4] = (unsigned char)(packed[i - 4] | scale >> 4 << 6);
        packed[i] = (unsigned char)(packed[i] | min >> 4 << 6);
    }
}

static void q4_k_block(const float *values, unsigned char *block) {
    line lines[N_SUBS];
    float step = 0, below = 0;
    for (int s = 0; s < N_SUBS; s++) {
        lines[s] = fit(values + s * SUB);
        step = fmaxf(step, lines[s].step);
        below = fmaxf(below, lines[s].below);
    }
    const float d = rounded_half(step / 63), m = rounded_half(below / 63);
    memset(block, 0, 144);
    put_half(block, d);
    put_half(block + 2, m);
    for (int s = 0; s < N_SUBS; s++) {
        const int scale = multiple(lines[s].step, d), min = multiple(lines[s].below, m);
        const float by = d * (float)scale, off = m * (float)min, inverse = by > 0 ? 1 / by : 0;
        put_scale(block + 4, s, scale, min);
        for (int i = 0; i < SUB; i++) {
            const int q = (int)nearest((values[s * SUB + i] + off) * inverse);
            unsigned char *byte = block + 16 + s / 2 * SUB + i;
            *byte = (unsigned char)(*byte | q << (s % 2 * 4));
        }
    }
}

void q4_k_from_f32(const float *values, int64_t n, unsigned char *blocks) {
    for (int64_t b = 0; b < n; b++)
        q4_k_block(values + b * SUB * N_SUBS, blocks + b * 144);
}
