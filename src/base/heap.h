// Binary heaps: HEAP_DEFINE(name, type, before) makes two functions for an array of `type`, whose
// first element is the one that comes before all others. `before(const type *, const type *)` is
// a strict order; the caller keeps the array's room and its length.
#pragma once
#include <stdint.h>

#define HEAP_DEFINE(name, type, before)                                                            \
    /* Puts x into a heap of n elements; there is room for one more. */                            \
    static inline void name##_push(type *heap, int64_t n, type x) {                                \
        int64_t i = n;                                                                             \
        for (; i > 0 && before(&x, &heap[(i - 1) / 2]); i = (i - 1) / 2)                           \
            heap[i] = heap[(i - 1) / 2];                                                           \
        heap[i] = x;                                                                               \
    }                                                                                              \
    /* Puts x in place of the first of n > 0 elements. */                                          \
    static inline void name##_replace_first(type *heap, int64_t n, type x) {                       \
        int64_t i = 0;                                                                             \
        for (int64_t child; (child = 2 * i + 1) < n; i = child) {                                  \
            if (child + 1 < n && before(&heap[child + 1], &heap[child])) child++;                  \
            if (!before(&heap[child], &x)) break;                                                  \
            heap[i] = heap[child];                                                                 \
        }                                                                                          \
        heap[i] = x;                                                                               \
    }                                                                                              \
    /* Takes the first of n > 0 elements out; n - 1 are left. */                                   \
    static inline type name##_pop(type *heap, int64_t n) {                                         \
        const type first = heap[0];                                                                \
        if (n > 1) name##_replace_first(heap, n - 1, heap[n - 1]);                                 \
        return first;                                                                              \
    }
