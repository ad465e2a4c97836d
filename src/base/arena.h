// Memory by lifetime: everything allocated from an arena goes away with it. The arena argument of a
// function *is* the lifetime of its result. Where memory runs out, the process ends with one line
// that names the arena (DRV_MEMORY); a size that overflows counts as more than there is.
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct arena arena; // single owner; not thread-safe

arena *arena_new(const char *name); // for that line; it must outlive the arena
void arena_free(arena *a);          // NULL is allowed

// Returns zeroed memory, 64-byte aligned.
void *arena_alloc(arena *a, size_t bytes);
// Copies the first `used` bytes of `old` (NULL: none) to new memory of `bytes` bytes, and returns
// that. The memory of `old` stays allocated.
void *arena_grow(arena *a, const void *old, size_t used, size_t bytes);
char *arena_strdup(arena *a, const char *s);
char *arena_strndup(arena *a, const char *s, size_t n);
char *arena_printf(arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Returns n * unit; SIZE_MAX, which no allocation takes: it overflows, or n was negative.
static inline size_t array_bytes(size_t n, size_t unit) {
    size_t bytes;
    return __builtin_mul_overflow(n, unit, &bytes) ? SIZE_MAX : bytes;
}

#define ARENA_NEW(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), array_bytes((size_t)(n), sizeof(type))))

// malloc, realloc and calloc that end the process when memory runs out (DRV_MEMORY), for buffers
// that grow and are freed by hand.
void *mem_alloc(size_t bytes);
void *mem_realloc(void *old, size_t bytes);
void *mem_zeroed(size_t bytes);
// Allocates whole cache lines of 64 bytes, for data that one thread writes often.
void *mem_alloc_lines(size_t bytes);

// Zeroed pages straight from the system, 2 MiB aligned so that huge pages can back them.
// NULL when the system refuses. pages_free(NULL, 0) is allowed.
void *pages_alloc(size_t bytes);
void pages_free(void *p, size_t bytes);

// Grows the array `ptr` of `cap` elements, from mem_realloc or NULL, so that it has an element with
// the index `n`. ARENA_GROW does so in an arena, for an array of which the first `n` are used.
#define MEM_GROW(ptr, n, cap)                                                                      \
    do {                                                                                           \
        if ((n) >= (cap)) {                                                                        \
            (cap) = (cap) ? (cap)*2 : 16;                                                          \
            while ((n) >= (cap))                                                                   \
                (cap) *= 2;                                                                        \
            (ptr) = mem_realloc((ptr), array_bytes((size_t)(cap), sizeof *(ptr)));                 \
        }                                                                                          \
    } while (0)

#define ARENA_GROW(a, ptr, n, cap)                                                                 \
    do {                                                                                           \
        if ((n) == (cap)) {                                                                        \
            (cap) = (cap) ? (cap)*2 : 16;                                                          \
            (ptr) = arena_grow((a), (ptr), sizeof *(ptr) * (size_t)(n),                            \
                    array_bytes((size_t)(cap), sizeof *(ptr)));                                    \
        }                                                                                          \
    } while (0)
