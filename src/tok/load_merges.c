// model.merges of tokenizer.json: a table of pairs of ids, and for byte-level vocabularies one of
// pairs of bytes.
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/round.h"
#include "tok/loader.h"

typedef struct merge_entry {
    size_t at;       // of both sides in the pool, one after the other
    uint32_t nx, ny; // their bytes
    int32_t left, right, merged;
    int32_t rank; // its place in the file
} merge_entry;

typedef struct merge_list {
    const tokenizer *t;
    merge_entry *p;
    int64_t n, cap;
    int32_t n_read; // with those that no text can reach
    str pool;
} merge_list;

enum { LOOK_UP_AT_ONCE = 2048 };

static void look_up_merges(void *arg, int64_t chunk, int thread) {
    (void)thread;
    const merge_list *l = arg;
    const int64_t end = (chunk + 1) * LOOK_UP_AT_ONCE < l->n ? (chunk + 1) * LOOK_UP_AT_ONCE : l->n;
    for (int64_t i = chunk * LOOK_UP_AT_ONCE; i < end; i++) {
        merge_entry *m = &l->p[i];
        const char *x = l->pool.p + m->at;
        m->left = tokenizer_word(l->t, x, m->nx);
        m->right = tokenizer_word(l->t, x + m->nx, m->ny);
        m->merged = tokenizer_word(l->t, x, m->nx + m->ny);
    }
}

static drv_status no_such_token(const loader *l, int32_t rank, const char *x, size_t nx,
        const char *y, size_t ny) {
    return drv_fail(DRV_E_DATA,
            "%s: merge %d (\"%.*s\" \"%.*s\") names a token that is not in the vocabulary", l->path,
            rank, nx > 20 ? 20 : (int)nx, x, ny > 20 ? 20 : (int)ny, y);
}

static drv_status add_merges(loader *l, const merge_list *list) {
    tokenizer *t = l->t;
    for (int64_t i = 0; i < list->n; i++) {
        const merge_entry *m = &list->p[i];
        const char *x = list->pool.p + m->at;
        if (i + 8 < list->n) {
            const uint64_t ahead = (uint64_t)(uint32_t)m[8].left << 32 | (uint32_t)m[8].right;
            __builtin_prefetch(&t->merges[pair_hash(ahead) & t->merge_mask]);
        }
        if (m->left < 0 || m->right < 0 || m->merged < 0)
            return no_such_token(l, m->rank, x, m->nx, x + m->nx, m->ny);
        for (int b = 0; b < 256 && !t->byte_level; b++)
            l->merges_bytes |= t->fallback_id[b] >= 0 &&
                               (t->fallback_id[b] == m->left || t->fallback_id[b] == m->right);
        const uint64_t pair = (uint64_t)(uint32_t)m->left << 32 | (uint32_t)m->right;
        uint64_t h = pair_hash(pair);
        while (t->merges[h & t->merge_mask].pair != UINT64_MAX &&
                t->merges[h & t->merge_mask].pair != pair)
            h++;
        if (t->merges[h & t->merge_mask].pair != UINT64_MAX) continue; // the first one counts
        t->merges[h & t->merge_mask] = (pair_rank){pair, m->rank, m->merged};
        if (t->byte_level && m->nx == 1 && m->ny == 1)
            t->byte_merges[256 * (unsigned char)x[0] + (unsigned char)x[1]] =
                    (merge_to){m->rank, m->merged};
    }
    return DRV_OK;
}

// "a b" or ["a", "b"], as bytes of entries.
static drv_status read_merge(loader *l, int32_t rank, str side[2]) {
    json_cursor *c = &l->merges;
    bool ok = true, first = true;
    int n = 0;
    str_clear(&side[0]);
    str_clear(&side[1]);
    if (jc_peek(c) == '"') {
        ok = jc_string(c, &side[0]);
        char *space = ok && side[0].n ? memchr(side[0].p, ' ', side[0].n) : NULL;
        if (space) {
            n = 2;
            str_add(&side[1], space + 1, (size_t)(side[0].p + side[0].n - space - 1));
            side[0].n = (size_t)(space - side[0].p);
        }
    } else if (jc_peek(c) == '[') {
        for (; jc_next(c, '[', &first, NULL); n++)
            ok = ok && jc_peek(c) == '"' ? jc_string(c, &side[n ? 1 : 0]) : jc_skip(c) && false;
    }
    if (!ok || n != 2 || side[0].n == 0 || side[1].n == 0)
        return drv_fail(DRV_E_DATA, "%s: merge %d is not a pair", l->path, rank);
    DRV_TRY(loader_check_utf8(l, &side[0]));
    return loader_check_utf8(l, &side[1]);
}

// A merge of entries that stand for themselves: no text reaches it, but its tokens must be there.
static drv_status check_as_written(const loader *l, int32_t rank, const str side[2]) {
    str both = {0};
    str_add(&both, side[0].p, side[0].n);
    str_add(&both, side[1].p, side[1].n);
    const bool known = tokenizer_entry(l->t, side[0].p, side[0].n) >= 0 &&
                       tokenizer_entry(l->t, side[1].p, side[1].n) >= 0 &&
                       tokenizer_entry(l->t, both.p, both.n) >= 0;
    str_free(&both);
    if (known) return DRV_OK;
    return no_such_token(l, rank, side[0].p, side[0].n, side[1].p, side[1].n);
}

static drv_status list_merge(loader *l, merge_list *list, const str side[2]) {
    const int32_t rank = list->n_read++;
    const size_t at = list->pool.n;
    size_t n[2];
    bool reachable = true;
    for (int i = 0; i < 2; i++) {
        bool as_written;
        str_reserve(&list->pool, side[i].n);
        n[i] = entry_to_bytes(l->t, side[i].p, side[i].n,
                (unsigned char *)list->pool.p + list->pool.n, &as_written);
        list->pool.n += n[i];
        reachable &= !as_written;
    }
    if (!reachable) {
        list->pool.n = at;
        return check_as_written(l, rank, side);
    }
    MEM_GROW(list->p, list->n, list->cap);
    list->p[list->n++] =
            (merge_entry){.at = at, .nx = (uint32_t)n[0], .ny = (uint32_t)n[1], .rank = rank};
    return DRV_OK;
}

static drv_status read_merges(loader *l, merge_list *list) {
    str side[2] = {{0}, {0}};
    drv_status status = DRV_OK;
    for (bool first = true; status == DRV_OK && jc_next(&l->merges, '[', &first, NULL);) {
        status = read_merge(l, list->n_read, side);
        if (status == DRV_OK) status = list_merge(l, list, side);
    }
    str_free(&side[0]);
    str_free(&side[1]);
    return status;
}

drv_status load_merges(loader *l) {
    tokenizer *t = l->t;
    merge_list list = {.t = t};
    if (jc_peek(&l->merges) != '[')
        return drv_fail(DRV_E_DATA, "%s: model.merges is no list", l->path);
    drv_status status = read_merges(l, &list);
    t->merge_mask = 64;
    while (2 * t->merge_mask < 3 * (uint64_t)list.n)
        t->merge_mask *= 2;
    t->merges = ARENA_ARRAY(l->a, pair_rank, t->merge_mask);
    memset(t->merges, 0xFF, sizeof *t->merges * t->merge_mask);
    t->merge_mask--;
    if (t->byte_level) t->byte_merges = ARENA_ARRAY(l->a, merge_to, 256 * 256);
    for (int i = 0; t->byte_level && i < 256 * 256; i++)
        t->byte_merges[i].rank = INT32_MAX;
    if (status == DRV_OK) {
        par_for(div_up(list.n, LOOK_UP_AT_ONCE), look_up_merges, &list);
        status = add_merges(l, &list);
    }
    free(list.p);
    str_free(&list.pool);
    return status;
}
