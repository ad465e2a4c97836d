// Splits each token of a vocabulary at every offset. The hashes of the parts come from those of
// prefixes, so that a token costs time in its length, not in the square of it.
#include "tok/score_merges.h"

#include <stdlib.h>
#include <string.h>

#include "tok/bpe_files.h"

// The hash of bytes c is the sum of (c + 1) * BASE^place.
static const uint64_t BASE = 0x9E3779B97F4A7C15ull;

static uint64_t hash_bytes(const char *p, size_t n) {
    uint64_t hash = 0;
    for (size_t i = 0; i < n; i++)
        hash = hash * BASE + (unsigned char)p[i] + 1;
    return hash;
}

static uint64_t first_slot(const token_index *index, uint64_t hash) {
    return (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9ull >> 20 & index->mask;
}

static int32_t find_hashed(const token_index *index, const char *p, size_t n, uint64_t hash) {
    for (uint64_t i = first_slot(index, hash);; i = (i + 1) & index->mask) {
        const int32_t id = index->slots[i];
        if (id < 0) return -1;
        if (index->hashes[id] == hash && index->tokens[id].n == n &&
                memcmp(index->tokens[id].p, p, n) == 0)
            return id;
    }
}

int32_t token_index_find(const token_index *index, const char *p, size_t n) {
    return find_hashed(index, p, n, hash_bytes(p, n));
}

void token_index_build(arena *a, const str_view *tokens, int64_t n, token_index *out) {
    uint64_t size = 64;
    while (size < 2 * (uint64_t)n)
        size *= 2;
    *out = (token_index){tokens, ARENA_ARRAY(a, uint64_t, n + 1), ARENA_ARRAY(a, int32_t, size),
            size - 1};
    memset(out->slots, 0xFF, sizeof *out->slots * size);
    for (int64_t id = 0; id < n; id++) {
        const uint64_t hash = hash_bytes(tokens[id].p, tokens[id].n);
        out->hashes[id] = hash;
        if (find_hashed(out, tokens[id].p, tokens[id].n, hash) >= 0) continue;
        uint64_t i = first_slot(out, hash);
        while (out->slots[i] >= 0)
            i = (i + 1) & out->mask;
        out->slots[i] = (int32_t)id;
    }
}

// --- the merges
typedef struct merge_list {
    score_merge *p;
    int64_t n, cap;
} merge_list;

static int by_parts(const void *x, const void *y) {
    const score_merge *a = x, *b = y;
    if (a->left != b->left) return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

static bool begins_character(char c) {
    return ((unsigned char)c & 0xC0) != 0x80;
}

// Lists the merges that make one token. `left`, `power`: room for its length + 1.
static void cut(const token_index *index, int32_t whole, uint64_t *left, uint64_t *power,
        merge_list *list) {
    const str_view token = index->tokens[whole];
    const int64_t begin = list->n;
    int32_t characters = 0, n_left = 0;
    left[0] = 0;
    power[0] = 1;
    for (size_t i = 0; i < token.n; i++) {
        left[i + 1] = left[i] * BASE + (unsigned char)token.p[i] + 1;
        power[i + 1] = power[i] * BASE;
        characters += begins_character(token.p[i]);
    }
    for (size_t i = 1; i < token.n; i++) {
        n_left += begins_character(token.p[i - 1]);
        if (!begins_character(token.p[i])) continue;
        const int32_t l = find_hashed(index, token.p, i, left[i]);
        if (l < 0) continue;
        const uint64_t right = left[token.n] - left[i] * power[token.n - i];
        const int32_t r = find_hashed(index, token.p + i, token.n - i, right);
        if (r < 0) continue;
        MEM_GROW(list->p, list->n, list->cap);
        list->p[list->n++] = (score_merge){.left = l,
                .right = r,
                .whole = whole,
                .n_left = n_left,
                .n_right = characters - n_left};
    }
    if (list->n > begin + 1)
        qsort(list->p + begin, (size_t)(list->n - begin), sizeof *list->p, by_parts);
}

typedef struct ranked { // a merge with the keys by which it is sorted
    score_merge merge;
    float score;
    int64_t order; // makes the sort stable
} ranked;

static int by_score(const void *x, const void *y) {
    const ranked *a = x, *b = y;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->merge.n_left != b->merge.n_left) return a->merge.n_left > b->merge.n_left ? -1 : 1;
    if (a->merge.n_right != b->merge.n_right) return a->merge.n_right > b->merge.n_right ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

void score_merges(arena *a, const str_view *tokens, const float *scores, const uint8_t *types,
        int64_t n_tokens, score_merge **out, int64_t *n_out) {
    token_index index;
    merge_list list = {0};
    size_t longest = 0;
    token_index_build(a, tokens, n_tokens, &index);
    for (int64_t i = 0; i < n_tokens; i++)
        if (tokens[i].n > longest) longest = tokens[i].n;
    uint64_t *left = mem_alloc(sizeof *left * (longest + 1)),
             *power = mem_alloc(sizeof *power * (longest + 1));
    for (int64_t i = 0; i < n_tokens; i++)
        if (!types || types[i] == PIECE_NORMAL) cut(&index, (int32_t)i, left, power, &list);
    ranked *order = mem_alloc(sizeof *order * (size_t)(list.n + 1));
    for (int64_t i = 0; i < list.n; i++)
        order[i] = (ranked){list.p[i], scores[list.p[i].whole], i};
    qsort(order, (size_t)list.n, sizeof *order, by_score);
    *out = ARENA_ARRAY(a, score_merge, list.n + 1);
    for (int64_t i = 0; i < list.n; i++)
        (*out)[i] = order[i].merge;
    *n_out = list.n;
    free(order);
    free(left);
    free(power);
    free(list.p);
}
