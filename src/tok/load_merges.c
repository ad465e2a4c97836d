// Loads model.merges of tokenizer.json into a table of pairs of ids, and for byte-level
// vocabularies one of pairs of bytes.
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/round.h"
#include "tok/loader.h"

typedef struct merge_entry {
    size_t at;                // offset in the pool of both sides, one after the other
    uint32_t n_left, n_right; // their bytes
    int32_t left, right, merged;
    int32_t rank; // its index in the file
} merge_entry;

typedef struct merge_list {
    const tokenizer *t;
    merge_entry *p;
    int64_t n, cap;
    int32_t n_read; // including merges that no text can reach
    str pool;
} merge_list;

enum { LOOK_UP_AT_ONCE = 2048 };

static void look_up_merges(void *arg, int64_t chunk) {
    const merge_list *l = arg;
    const int64_t end = (chunk + 1) * LOOK_UP_AT_ONCE < l->n ? (chunk + 1) * LOOK_UP_AT_ONCE : l->n;
    for (int64_t i = chunk * LOOK_UP_AT_ONCE; i < end; i++) {
        merge_entry *m = &l->p[i];
        const char *x = l->pool.p + m->at;
        m->left = tokenizer_word(l->t, x, m->n_left);
        m->right = tokenizer_word(l->t, x + m->n_left, m->n_right);
        m->merged = tokenizer_word(l->t, x, m->n_left + m->n_right);
    }
}

static drv_status no_such_token(const loader *l, int32_t rank, const char *x, size_t n_left,
        const char *y, size_t n_right) {
    return drv_fail(DRV_E_DATA,
            "%s: merge %d (\"%.*s\" \"%.*s\") names a token that is not in the vocabulary", l->path,
            rank, n_left > 20 ? 20 : (int)n_left, x, n_right > 20 ? 20 : (int)n_right, y);
}

static drv_status add_merges(loader *load, const merge_list *list) {
    tokenizer *tok = load->t;
    for (int64_t i = 0; i < list->n; i++) {
        const merge_entry *merge = &list->p[i];
        const char *sides = list->pool.p + merge->at;
        if (i + 8 < list->n) {
            const uint64_t ahead =
                    (uint64_t)(uint32_t)merge[8].left << 32 | (uint32_t)merge[8].right;
            __builtin_prefetch(&tok->merges[pair_hash(ahead) & tok->merge_mask]);
        }
        if (merge->left < 0 || merge->right < 0 || merge->merged < 0)
            return no_such_token(load, merge->rank, sides, merge->n_left, sides + merge->n_left,
                    merge->n_right);
        for (int b = 0; b < 256 && !tok->byte_level; b++)
            load->merges_bytes |=
                    tok->fallback_id[b] >= 0 &&
                    (tok->fallback_id[b] == merge->left || tok->fallback_id[b] == merge->right);
        const uint64_t pair = (uint64_t)(uint32_t)merge->left << 32 | (uint32_t)merge->right;
        uint64_t h = pair_hash(pair);
        merge_line *line = &tok->merges[h & tok->merge_mask];
        int at = 0;
        while (line->pair[at] != NO_PAIR && line->pair[at] != pair)
            if (++at == LINE_MERGES) at = 0, line = &tok->merges[++h & tok->merge_mask];
        // If two ids have several merges (a repeated merge, or keys that share an id), the last one
        // counts, with its rank.
        line->pair[at] = pair;
        line->to[at] =
                (merge_to){load->ranks ? load->ranks[merge->rank] : merge->rank, merge->merged};
    }
    return DRV_OK;
}

// Reads a merge, "a b" or ["a", "b"].
static drv_status read_merge(loader *load, int32_t rank, str side[2]) {
    json_cursor *cursor = &load->merges;
    bool ok = true, first = true;
    int n = 0;
    str_clear(&side[0]);
    str_clear(&side[1]);
    if (jc_peek(cursor) == '"') {
        ok = jc_string(cursor, &side[0]);
        char *space = ok && side[0].n ? memchr(side[0].p, ' ', side[0].n) : NULL;
        if (space) {
            n = 2;
            str_add(&side[1], space + 1, (size_t)(side[0].p + side[0].n - space - 1));
            side[0].n = (size_t)(space - side[0].p);
        }
    } else if (jc_peek(cursor) == '[') {
        for (; jc_next(cursor, '[', &first, NULL); n++)
            ok = ok && jc_peek(cursor) == '"' ? jc_string(cursor, &side[n ? 1 : 0])
                                              : jc_skip(cursor) && false;
    }
    if (!ok || n != 2 || side[0].n == 0 || side[1].n == 0)
        return drv_fail(DRV_E_DATA, "%s: merge %d is not a pair", load->path, rank);
    DRV_TRY(loader_check_utf8(load, &side[0]));
    return loader_check_utf8(load, &side[1]);
}

// Checks a merge of entries that stand for themselves: no text needs it, but its tokens must exist.
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

static drv_status list_merge(loader *load, merge_list *list, const str side[2]) {
    const int32_t rank = list->n_read++;
    const size_t at = list->pool.n;
    size_t n[2];
    bool reachable = true;
    for (int i = 0; i < 2; i++) {
        bool as_written;
        str_reserve(&list->pool, side[i].n);
        n[i] = entry_to_bytes(load->t, side[i].p, side[i].n,
                (unsigned char *)list->pool.p + list->pool.n, &as_written);
        list->pool.n += n[i];
        reachable &= !as_written;
    }
    if (!reachable) {
        list->pool.n = at;
        return check_as_written(load, rank, side);
    }
    MEM_GROW(list->p, list->n, list->cap);
    list->p[list->n++] = (merge_entry){.at = at,
            .n_left = (uint32_t)n[0],
            .n_right = (uint32_t)n[1],
            .rank = rank};
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

// Fills the table of pairs of bytes from that of ids, once complete: two bytes may share an id.
static void fill_byte_merges(loader *load) {
    tokenizer *t = load->t;
    t->byte_merges = ARENA_ARRAY(load->a, merge_to, 256 * 256);
    for (int left = 0; left < 256; left++)
        for (int right = 0; right < 256; right++)
            t->byte_merges[256 * left + right] =
                    tokenizer_merge_of(t, t->byte_id[left], t->byte_id[right]);
}

drv_status load_merges(loader *load) {
    tokenizer *tok = load->t;
    merge_list list = {.t = tok};
    if (jc_peek(&load->merges) != '[')
        return drv_fail(DRV_E_DATA, "%s: model.merges is not a list", load->path);
    drv_status status = read_merges(load, &list);
    tok->merge_mask = 64;
    while (2 * LINE_MERGES * tok->merge_mask < 3 * (uint64_t)list.n)
        tok->merge_mask *= 2;
    tok->merges = ARENA_ARRAY(load->a, merge_line, tok->merge_mask);
    memset(tok->merges, 0xFF, sizeof *tok->merges * tok->merge_mask);
    tok->merge_mask--;
    if (status == DRV_OK) {
        par_for(div_up(list.n, LOOK_UP_AT_ONCE), look_up_merges, &list);
        status = add_merges(load, &list);
    }
    if (status == DRV_OK && tok->byte_level && tok->all_bytes) fill_byte_merges(load);
    free(list.p);
    str_free(&list.pool);
    return status;
}
