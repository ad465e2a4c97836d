// Prints dropout: computes the words of Philox4x32-10 (base/rng.c) with integer operations, to the
// bit as the CPU does.
#include "backend/pjrt/stablehlo/lower.h"
#include "base/round.h"
#include "kernels/kernels.h"

typedef struct words { // four words of each counter
    hlo_value c[4];
} words;

// Returns the upper or lower half of a * factor.
static hlo_value product_half(hlo_text *h, hlo_value a, uint32_t factor, bool upper) {
    if (!upper) return hlo_with(h, "multiply", a, factor);
    const hlo_value wide = hlo_with(h, "multiply", hlo_convert(h, a, HLO_U64), factor);
    return hlo_convert(h, hlo_with(h, "shift_right_logical", wide, 32), HLO_U32);
}

static hlo_value xor_key(hlo_text *h, hlo_value x, hlo_value y, uint32_t key) {
    return hlo_with(h, "xor", hlo_binary(h, "xor", x, y), key);
}

static words philox(hlo_text *h, words w, uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        const hlo_value *c = w.c;
        const hlo_value high0 = product_half(h, c[0], 0xD2511F53u, true),
                        low0 = product_half(h, c[0], 0xD2511F53u, false),
                        high1 = product_half(h, c[2], 0xCD9E8D57u, true),
                        low1 = product_half(h, c[2], 0xCD9E8D57u, false);
        w = (words){{xor_key(h, high1, c[1], k0), low1, xor_key(h, high0, c[3], k1), low0}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return w;
}

// Returns the words of a row's elements: element e has word e % GROUP / COUNTERS of counter e %
// COUNTERS of group e / GROUP. [rows, groups, 4, COUNTERS] in the order of elements.
static hlo_value row_words(lowering *l, const node *n, int64_t rows, int64_t groups) {
    enum { COUNTERS = DROPOUT_GROUP / 4 };
    hlo_text *h = &l->h;
    const int64_t dims[] = {rows, groups, COUNTERS};
    const uint64_t seed = (uint64_t)n->attrs.dropout.seed;
    const uint64_t site = (uint64_t)n->attrs.dropout.site
                          << 40; // dropout_block: above the counters
    const hlo_value group = hlo_iota(h, HLO_U32, 3, dims, 1),
                    in_group = hlo_iota(h, HLO_U32, 3, dims, 2);
    // The origin of each row's first token: rows are whole here.
    const hlo_value origin = hlo_reshape(h, lower_in(l, n, 1),
                            HLO_DIMS(rows, 3 * n->attrs.dropout.seq)),
                    number = hlo_convert(h, hlo_slice(h, origin, 1, 0, 2), HLO_U32);
    const hlo_value low = hlo_reshape(h, hlo_slice(h, number, 1, 0, 1), HLO_DIMS(rows)),
                    high = hlo_reshape(h, hlo_slice(h, number, 1, 1, 1), HLO_DIMS(rows));
    const hlo_value counter = hlo_binary(h, "add", hlo_scale(h, group, COUNTERS), in_group);
    const words start = {{counter, hlo_spread(h, hlo_whole(h, HLO_U32, site >> 32), &counter),
            hlo_along(h, low, &counter, 0), hlo_along(h, high, &counter, 0)}};
    const words w =
            philox(h, start, (uint32_t)seed, (uint32_t)(seed >> 32) ^ (RNG_DROPOUT * 0x85EBCA6Bu));
    hlo_value part[4];
    for (int i = 0; i < 4; i++)
        part[i] = hlo_reshape(h, w.c[i], HLO_DIMS(rows, groups, 1, COUNTERS));
    return hlo_concat(h, part, 4, 2);
}

static void dropout(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value x = lower_in_acc(l, n, 0, 0);
    const int64_t rows = x.dim[0] / n->attrs.dropout.seq, width = n->attrs.dropout.seq * x.dim[1],
                  groups = div_up(width, DROPOUT_GROUP);
    DRV_ASSERT(groups * (DROPOUT_GROUP / 4) < (int64_t)1 << 32, "rows of %lld elements",
            (long long)width);
    hlo_value w = row_words(l, n, rows, groups);
    w = hlo_slice(h, hlo_reshape(h, w, HLO_DIMS(rows, groups * DROPOUT_GROUP)), 1, 0, width);
    w = hlo_reshape(h, w, x.n_dims, x.dim);
    const dropout_args args = {.rate = n->attrs.dropout.rate};
    const hlo_value least = hlo_whole(h, HLO_U32, dropout_threshold(&args));
    const hlo_value kept = hlo_compare(h, "GE", w, hlo_spread(h, least, &w));
    const hlo_value scaled = hlo_binary(h, "divide", x, hlo_fill(h, 1 - n->attrs.dropout.rate, &x));
    lower_round(l, n, 0, hlo_select(h, kept, scaled, hlo_scale(h, x, 0)));
}

const lower_op lower_op_dropout = {.lower = dropout};
