// Greedy by size (arXiv:2001.03288, section 5.2): the largest item first, each in the lowest gap
// between those placed before it whose lifetimes overlap its own.
//
// The gap is found without examining those items. A segment tree over time keeps two sets of bytes
// in each node, as sorted intervals that neither overlap nor touch:
//   whole  bytes of items that live through all the node's time and do not do so in its parent
//   some   bytes of items that live at any of its time
// The memory that is taken in first .. last is then the union of `some` of the O(log n) nodes that
// make up first .. last and `whole` of the nodes above them. Items fill the arena from below, so
// the intervals merge and the sets stay short: n items take about n log n steps, whereas comparing
// with all live items takes n^2 when activations wait for the backward pass.
#include "plan/place.h"

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

enum { MAX_SETS = 128 }; // of one range: at most two nodes per level, and two above them

typedef struct placer {
    time_node *nodes; // a heap: the children of i are 2 i and 2 i + 1
    int n_blocks;     // power of two
    const byte_set *taken[MAX_SETS];
    int n_taken;
    int64_t probes;
} placer;

// The first interval that ends after `offset`.
static int search(placer *p, const byte_set *set, int64_t offset) {
    int low = 0, high = set->n;
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
    const int first = search(p, set, x.begin - 1);
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

static void insert(placer *p, int node, int begin, int end, const place_item *item) {
    const interval bytes = {item->offset, item->offset + item->bytes};
    time_node *t = &p->nodes[node];
    add(p, &t->some, bytes);
    if (item->first <= begin && end - 1 <= item->last) {
        add(p, &t->whole, bytes);
        return;
    }
    const int middle = (begin + end) / 2;
    if (item->first < middle) insert(p, 2 * node, begin, middle, item);
    if (item->last >= middle) insert(p, 2 * node + 1, middle, end, item);
}

static void take(placer *p, const byte_set *set) {
    DRV_ASSERT(p->n_taken < MAX_SETS, "%d sets of bytes", p->n_taken);
    if (set->n) p->taken[p->n_taken++] = set;
}

// Collects the sets whose union is the memory in use during the item's lifetime.
static void collect(placer *p, int node, int begin, int end, const place_item *item) {
    const time_node *t = &p->nodes[node];
    if (item->first <= begin && end - 1 <= item->last) {
        take(p, &t->some);
        return;
    }
    const int middle = (begin + end) / 2;
    take(p, &t->whole);
    if (item->first < middle) collect(p, 2 * node, begin, middle, item);
    if (item->last >= middle) collect(p, 2 * node + 1, middle, end, item);
}

// Finds the lowest offset at which `bytes` bytes are free in all sets: each overlapping interval
// raises it, until a whole round finds none.
static int64_t lowest_gap(placer *p, int64_t bytes) {
    int64_t offset = 0;
    for (int quiet = 0, i = 0; quiet < p->n_taken; i = (i + 1) % p->n_taken) {
        const byte_set *set = p->taken[i];
        quiet++;
        for (int k = search(p, set, offset); k < set->n && set->p[k].begin - offset < bytes; k++) {
            offset = set->p[k].end;
            quiet = 1;
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
        p.n_taken = 0;
        collect(&p, 1, 0, p.n_blocks, &items[i]);
        items[i].offset = lowest_gap(&p, items[i].bytes);
        insert(&p, 1, 0, p.n_blocks, &items[i]);
        if (items[i].offset + items[i].bytes > top) top = items[i].offset + items[i].bytes;
    }
    if (probes) *probes = p.probes;
    close_placer(&p);
    return top;
}
