// Greedy by size (arXiv:2001.03288, section 5.2): the largest item first, each in the lowest gap
// between those placed before it whose lifetimes overlap its own.
//
// A segment tree over time finds the gap without a look at each of those items. Each node stands
// for a period, and has two sets of memory as sorted intervals that neither overlap nor touch:
//   whole  of items that live during the whole period, but not during that of its parent
//   some   of items that live during any part of the period
// The memory in use in first .. last is the union of `some` of the O(log n) nodes whose periods
// make up first .. last, and of `whole` of the nodes above them. Items fill the arena from below,
// so intervals merge and the sets stay short: n items take about n log n steps. Comparing each item
// with all live ones would take n^2 steps, since activations live until the backward pass.
#include "plan/place.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct interval {
    int64_t begin, end;
} interval;

typedef struct byte_set {
    interval *p;
    int n, cap;
} byte_set;

typedef struct time_node {
    byte_set whole, some;
} time_node;

// A node whose period is part of an item's lifetime, or a node above such a node.
typedef struct touched_node {
    time_node *node;
    bool is_part;
    int next; // the first interval that may overlap with the gap
} touched_node;

enum { MAX_TOUCHED = 128 }; // at most four in a level

typedef struct placer {
    time_node *nodes;                  // a heap: the children of i are 2 i and 2 i + 1
    int n_blocks;                      // power of two
    touched_node touched[MAX_TOUCHED]; // of the item that is being placed, the longest period first
    int n_touched;
    int64_t probes;
} placer;

// Returns the first interval from `low` on that ends after `offset`.
static int search(placer *p, const byte_set *set, int low, int64_t offset) {
    int high = set->n;
    p->probes++;
    if (low < high && set->p[low].end > offset) return low;
    while (low < high) {
        const int middle = (low + high) / 2;
        p->probes++;
        if (set->p[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Adds an interval and merges it with those that it overlaps or touches.
static void add(placer *p, byte_set *set, interval x) {
    const int first = search(p, set, 0, x.begin - 1);
    int last = first;
    for (; last < set->n && set->p[last].begin <= x.end; last++) {
        if (set->p[last].begin < x.begin) x.begin = set->p[last].begin;
        if (set->p[last].end > x.end) x.end = set->p[last].end;
        p->probes++;
    }
    MEM_GROW(set->p, set->n, set->cap);
    memmove(set->p + first + 1, set->p + last, sizeof *set->p * (size_t)(set->n - last));
    set->p[first] = x;
    set->n += first + 1 - last;
}

// Finds the nodes that make up the item's lifetime and those above them, level by level.
static void touch(placer *p, const place_item *item) {
    int waiting[MAX_TOUCHED] = {1}, n = 1;
    p->n_touched = 0;
    for (int i = 0, length = p->n_blocks, level_end = 2; i < n; i++) {
        const int node = waiting[i];
        if (node >= level_end) level_end *= 2, length /= 2;
        const int begin = node * length - p->n_blocks, middle = begin + length / 2;
        const bool is_part = item->first <= begin && begin + length - 1 <= item->last;
        p->touched[p->n_touched++] = (touched_node){&p->nodes[node], is_part, 0};
        if (is_part) continue;
        DRV_ASSERT(n + 2 <= MAX_TOUCHED, "a lifetime of %d nodes", n);
        if (item->first < middle) waiting[n++] = 2 * node;
        if (item->last >= middle) waiting[n++] = 2 * node + 1;
    }
}

static void insert(placer *p, const place_item *item) {
    const interval bytes = {item->offset, item->offset + item->bytes};
    for (int i = 0; i < p->n_touched; i++) {
        add(p, &p->touched[i].node->some, bytes);
        if (p->touched[i].is_part) add(p, &p->touched[i].node->whole, bytes);
    }
}

// Finds the lowest offset at which `bytes` bytes are free in all touched nodes. Each time that the
// offset rises, the search begins again with the nodes of the longest periods, because these have
// the longest intervals.
static int64_t lowest_gap(placer *p, int64_t bytes) {
    int64_t offset = 0;
    for (int i = 0; i < p->n_touched;) {
        touched_node *t = &p->touched[i++];
        const byte_set *set = t->is_part ? &t->node->some : &t->node->whole;
        t->next = search(p, set, t->next, offset);
        while (t->next < set->n && set->p[t->next].begin - offset < bytes) {
            offset = set->p[t->next++].end;
            i = 0;
        }
    }
    return offset;
}

static int by_size(const void *x, const void *y) {
    const place_item *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->first != b->first ? a->first - b->first : a->id - b->id;
}

static void open_placer(placer *p, int n_times) {
    *p = (placer){.n_blocks = 1};
    while (p->n_blocks < n_times)
        p->n_blocks *= 2;
    const size_t bytes = sizeof *p->nodes * 2 * (size_t)p->n_blocks;
    p->nodes = mem_alloc(bytes);
    memset(p->nodes, 0, bytes);
}

static void close_placer(placer *p) {
    for (int i = 0; i < 2 * p->n_blocks; i++) {
        free(p->nodes[i].whole.p);
        free(p->nodes[i].some.p);
    }
    free(p->nodes);
}

int64_t place_items(place_item *items, int n, int n_times, int64_t *probes) {
    placer p;
    int64_t top = 0;
    open_placer(&p, n_times);
    qsort(items, (size_t)n, sizeof *items, by_size);
    for (int i = 0; i < n; i++) {
        touch(&p, &items[i]);
        items[i].offset = lowest_gap(&p, items[i].bytes);
        insert(&p, &items[i]);
        if (items[i].offset + items[i].bytes > top) top = items[i].offset + items[i].bytes;
    }
    if (probes) *probes = p.probes;
    close_placer(&p);
    return top;
}
