// Arenas: blocks that are filled from the front and freed together; also malloc that cannot
// fail, and pages.
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

enum { BLOCK = 1 << 16, ALIGN = 64, HUGE_PAGE = 2 << 20 };

typedef struct block {
    struct block *next;
    size_t used, size;
    _Alignas(ALIGN) unsigned char data[];
} block;

struct arena {
    const char *name;
    block *head;
};

arena *arena_new(const char *name) {
    arena *a = mem_alloc(sizeof *a);
    *a = (arena){.name = name};
    return a;
}

void arena_free(arena *a) {
    if (!a) return;
    for (block *b = a->head; b;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(a);
}

void *arena_alloc(arena *a, size_t bytes) {
    DRV_MEMORY(bytes <= PTRDIFF_MAX, "%zu bytes wanted (%s)", bytes, a->name);
    size_t need = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (need == 0) need = ALIGN;
#ifdef __SANITIZE_ADDRESS__
    size_t size = need; // one block each, so that an overrun is seen
    int fresh = 1;
#else
    size_t size = need > BLOCK ? need : BLOCK;
    int fresh = !a->head || a->head->size - a->head->used < need;
#endif
    if (fresh) {
        block *b = aligned_alloc(ALIGN, sizeof *b + size);
        DRV_MEMORY(b, "%zu bytes wanted (%s)", bytes, a->name);
        b->used = 0;
        b->size = size;
        if (a->head && need > BLOCK) { // keep filling the current small block
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
        b->used = need;
        return memset(b->data, 0, need);
    }
    void *p = a->head->data + a->head->used;
    a->head->used += need;
    return memset(p, 0, need);
}

char *arena_strndup(arena *a, const char *s, size_t n) {
    char *p = arena_alloc(a, n + 1);
    if (n) memcpy(p, s, n); // of no bytes s may be NULL
    return p;
}

void *arena_grow(arena *a, const void *old, size_t used, size_t bytes) {
    void *room = arena_alloc(a, bytes);
    if (used) memcpy(room, old, used);
    return room;
}

char *arena_strdup(arena *a, const char *s) {
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(arena *a, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    DRV_ASSERT(n >= 0, "format \"%s\" failed", fmt);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

void *mem_zeroed(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    DRV_MEMORY(p, "%zu bytes wanted", bytes);
    return p;
}

void *mem_alloc(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    DRV_MEMORY(p, "%zu bytes wanted", bytes);
    return p;
}

void *mem_alloc_lines(size_t bytes) {
    void *p = bytes <= PTRDIFF_MAX ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    DRV_MEMORY(p, "%zu bytes wanted", bytes);
    return p;
}

void *mem_realloc(void *old, size_t bytes) {
    void *p = realloc(old, bytes ? bytes : 1);
    DRV_MEMORY(p, "%zu bytes wanted", bytes);
    return p;
}

static size_t page_round(size_t bytes, size_t page) {
    return (bytes + page - 1) & ~(page - 1);
}

static size_t small_page(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

// The end is one of a small page: a huge one that reaches beyond it would be held whole (up to 2
// MiB for each of a dozen blocks), where the plan counts what is in it.
void *pages_alloc(size_t bytes) {
    if (bytes > PTRDIFF_MAX) return NULL;
    size_t want = page_round(bytes, small_page());
    // Map one huge page more than wanted, then give back what lies outside the aligned part.
    unsigned char *raw = mmap(NULL, want + HUGE_PAGE, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    size_t skip = page_round((size_t)raw, HUGE_PAGE) - (size_t)raw;
    if (skip) munmap(raw, skip);
    if (HUGE_PAGE - skip) munmap(raw + skip + want, HUGE_PAGE - skip);
    if (bytes >= HUGE_PAGE) madvise(raw + skip, want, MADV_HUGEPAGE);
    return raw + skip;
}

void pages_free(void *p, size_t bytes) {
    if (p) munmap(p, page_round(bytes, small_page()));
}
