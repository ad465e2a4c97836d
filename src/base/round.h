// Whole numbers divided and rounded upward. n >= 0, unit > 0; both must leave room for n + unit.
#pragma once
#include <stdint.h>

static inline int64_t div_up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit;
}

static inline int64_t round_up(int64_t n, int64_t unit) {
    return div_up(n, unit) * unit;
}
