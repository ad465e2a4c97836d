// The large parts of tokenizer.json: vocabulary, merges, added tokens.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/parallel.h"
#include "base/round.h"
#include "tok/loader.h"
#include "tok/unicode.h"

int32_t tokenizer_word(const tokenizer *t, const void *p, size_t n) {
    for (uint64_t h = XXH3_64bits(p, n);; h++) {
        int32_t id = t->word_slots[h & t->word_mask];
        if (id < 0) return -1;
        if ((size_t)t->n_bytes[id] == n && memcmp(t->bytes[id], p, n) == 0) return id;
    }
}

int32_t tokenizer_id(const tokenizer *t, const char *text) {
    for (int i = 0; i < t->n_added; i++)
        if (strcmp(t->added[i].name, text) == 0) return t->added[i].id;
    return tokenizer_word(t, text, strlen(text));
}

// A vocabulary entry as the bytes that it stands for in a word: never longer, so out may be key.
static size_t entry_to_bytes(const tokenizer *t, const char *key, size_t n, unsigned char *out) {
    size_t m = 0;
    if (!t->byte_level) {
        for (size_t i = 0; i < n; m++) {
            const bool mark = t->space_mark && n - i >= 3 && memcmp(key + i, SPACE_MARK, 3) == 0;
            out[m] = mark ? ' ' : (unsigned char)key[i];
            i += mark ? 3 : 1;
        }
        return m;
    }
    for (const unsigned char *p = (const unsigned char *)key, *end = p + n; p < end;)
        if (char_byte(utf8_next(&p)) < 0) { // not byte-level text (an added token): as it is
            memmove(out, key, n);
            return n;
        }
    for (const unsigned char *p = (const unsigned char *)key, *end = p + n; p < end;)
        out[m++] = (unsigned char)char_byte(utf8_next(&p));
    return m;
}

static drv_status check_utf8(const loader *l, const str *s) {
    if (s->n == 0 || utf8_valid_prefix((const unsigned char *)s->p, s->n) == s->n) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: \"%.40s\" is not UTF-8", l->path, s->p);
}

static drv_status check_id(const loader *l, const char *key, bool is_number, int64_t id) {
    if (!is_number) return drv_fail(DRV_E_DATA, "%s: id of \"%.40s\" is no number", l->path, key);
    if (id < 0 || id >= 1 << 24)
        return drv_fail(DRV_E_DATA, "%s: id of \"%.40s\" is %lld, expected 0 to 16777215", l->path,
                key, (long long)id);
    return DRV_OK;
}

typedef struct vocab_entry {
    size_t at; // of its bytes in the pool
    int n;
    int32_t id;
    bool unreachable; // holds a space, and in the sentencepiece style no text has one
} vocab_entry;

static drv_status read_vocab(loader *l, vocab_entry **list, int64_t *n, str *key, str *pool) {
    json_cursor *c = &l->vocab;
    int64_t cap = 0, id;
    if (jc_peek(c) != '{') return drv_fail(DRV_E_DATA, "%s: model.vocab is no object", l->path);
    for (bool first = true; jc_next(c, '{', &first, key);) {
        const bool is_number = jc_i64(c, &id);
        DRV_TRY(check_id(l, key->p ? key->p : "", is_number, id));
        MEM_GROW(*list, *n, cap);
        vocab_entry *v = &(*list)[(*n)++];
        *v = (vocab_entry){.id = (int32_t)id};
        v->unreachable = l->t->space_mark && key->n && memchr(key->p, ' ', key->n);
        DRV_TRY(check_utf8(l, key));
        v->at = pool->n;
        if (key->n) v->n = (int)entry_to_bytes(l->t, key->p, key->n, (unsigned char *)key->p);
        str_add(pool, key->p, (size_t)v->n);
    }
    return DRV_OK;
}

static drv_status fill_vocab(loader *l, const vocab_entry *list, int64_t n, const str *pool,
        const json_t *added) {
    tokenizer *t = l->t;
    int64_t most = -1;
    for (int64_t i = 0; i < n; i++)
        if (list[i].id > most) most = list[i].id;
    size_t i;
    json_t *v;
    json_array_foreach(added, i, v) {
        const json_t *id = json_object_get(v, "id");
        DRV_TRY(check_id(l, "added_tokens", json_is_integer(id), json_integer_value(id)));
        if (json_integer_value(id) > most) most = json_integer_value(id);
    }
    t->n_vocab = (int32_t)(most + 1);
    t->bytes = ARENA_ARRAY(l->a, const unsigned char *, t->n_vocab);
    t->n_bytes = ARENA_ARRAY(l->a, int, t->n_vocab);
    t->is_special = ARENA_ARRAY(l->a, bool, t->n_vocab);
    unsigned char *all = arena_alloc(l->a, pool->n + 1);
    if (pool->n) memcpy(all, pool->p, pool->n);
    t->word_mask = 64;
    while (t->word_mask < 2 * (uint64_t)t->n_vocab)
        t->word_mask *= 2;
    t->word_mask--;
    t->word_slots = ARENA_ARRAY(l->a, int32_t, t->word_mask + 1);
    memset(t->word_slots, 0xFF, sizeof *t->word_slots * (t->word_mask + 1));
    for (int64_t k = 0; k < n; k++) {
        const vocab_entry *e = &list[k];
        if (t->bytes[e->id])
            return drv_fail(DRV_E_DATA, "%s: \"%.*s\" has an id that another entry has too: %d",
                    l->path, e->n > 40 ? 40 : e->n, (const char *)all + e->at, e->id);
        t->bytes[e->id] = all + e->at;
        t->n_bytes[e->id] = e->n;
        if (e->unreachable) continue;
        uint64_t h = XXH3_64bits(t->bytes[e->id], (size_t)e->n);
        while (t->word_slots[h & t->word_mask] >= 0)
            h++;
        t->word_slots[h & t->word_mask] = e->id;
    }
    return DRV_OK;
}

drv_status load_vocab(loader *l, const json_t *added) {
    vocab_entry *list = NULL;
    int64_t n = 0;
    str key = {0}, pool = {0};
    drv_status s = read_vocab(l, &list, &n, &key, &pool);
    if (s == DRV_OK) s = fill_vocab(l, list, n, &pool, added);
    str_free(&key);
    str_free(&pool);
    free(list);
    return s;
}

void load_bytes(loader *l) {
    tokenizer *t = l->t;
    for (int b = 0; b < 256; b++) {
        char name[8];
        unsigned char byte = (unsigned char)b;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->byte_id[b] =
                t->byte_level ? tokenizer_word(t, &byte, 1) : tokenizer_word(t, name, strlen(name));
        if (b < 128) t->ascii_id[b] = tokenizer_word(t, &byte, 1);
    }
}

typedef struct merge_entry {
    size_t at;       // of both sides in the pool, one behind the other
    uint32_t nx, ny; // their bytes
    int32_t left, right, merged;
} merge_entry;

typedef struct merge_list {
    const tokenizer *t;
    merge_entry *p;
    int64_t n, cap;
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
            return drv_fail(DRV_E_DATA,
                    "%s: merge %lld (\"%.*s\" \"%.*s\") names a token that is not in the "
                    "vocabulary",
                    l->path, (long long)i, m->nx > 20 ? 20 : (int)m->nx, x,
                    m->ny > 20 ? 20 : (int)m->ny, x + m->nx);
        for (int b = 0; b < 256 && !t->byte_level; b++)
            l->merges_bytes |=
                    t->byte_id[b] >= 0 && (t->byte_id[b] == m->left || t->byte_id[b] == m->right);
        const uint64_t pair = (uint64_t)(uint32_t)m->left << 32 | (uint32_t)m->right;
        uint64_t h = pair_hash(pair);
        while (t->merges[h & t->merge_mask].pair != UINT64_MAX &&
                t->merges[h & t->merge_mask].pair != pair)
            h++;
        if (t->merges[h & t->merge_mask].pair != UINT64_MAX) continue; // the first one counts
        t->merges[h & t->merge_mask] = (pair_rank){pair, (int32_t)i, m->merged};
        if (t->byte_level && m->nx == 1 && m->ny == 1)
            t->byte_merges[256 * (unsigned char)x[0] + (unsigned char)x[1]] =
                    (merge_to){(int32_t)i, m->merged};
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
    for (int i = 0; i < 2; i++) {
        DRV_TRY(check_utf8(l, &side[i]));
        const size_t k = entry_to_bytes(l->t, side[i].p, side[i].n, (unsigned char *)side[i].p);
        side[i].p[side[i].n = k] = 0;
    }
    return DRV_OK;
}

static drv_status read_merges(loader *l, merge_list *list) {
    str side[2] = {{0}, {0}};
    drv_status s = DRV_OK;
    for (bool first = true; s == DRV_OK && jc_next(&l->merges, '[', &first, NULL);) {
        s = read_merge(l, (int32_t)list->n, side);
        if (s != DRV_OK) break;
        MEM_GROW(list->p, list->n, list->cap);
        list->p[list->n++] = (merge_entry){.at = list->pool.n,
                .nx = (uint32_t)side[0].n,
                .ny = (uint32_t)side[1].n};
        str_add(&list->pool, side[0].p, side[0].n);
        str_add(&list->pool, side[1].p, side[1].n);
    }
    str_free(&side[0]);
    str_free(&side[1]);
    return s;
}

drv_status load_merges(loader *l) {
    tokenizer *t = l->t;
    merge_list list = {.t = t};
    if (jc_peek(&l->merges) != '[')
        return drv_fail(DRV_E_DATA, "%s: model.merges is no list", l->path);
    drv_status s = read_merges(l, &list);
    t->merge_mask = 64;
    while (2 * t->merge_mask < 3 * (uint64_t)list.n)
        t->merge_mask *= 2;
    t->merges = ARENA_ARRAY(l->a, pair_rank, t->merge_mask);
    memset(t->merges, 0xFF, sizeof *t->merges * t->merge_mask);
    t->merge_mask--;
    if (t->byte_level) t->byte_merges = ARENA_ARRAY(l->a, merge_to, 256 * 256);
    for (int i = 0; t->byte_level && i < 256 * 256; i++)
        t->byte_merges[i].rank = INT32_MAX;
    if (s == DRV_OK) {
        par_for(div_up(list.n, LOOK_UP_AT_ONCE), look_up_merges, &list);
        s = add_merges(l, &list);
    }
    free(list.p);
    str_free(&list.pool);
    return s;
}

static int by_length(const void *x, const void *y) {
    const added_token *a = x, *b = y;
    return a->text[0] != b->text[0] ? a->text[0] - b->text[0]
           : a->n != b->n           ? b->n - a->n
                                    : a->id - b->id;
}

static void index_added(loader *l, bool normalized, added_index *out) {
    const tokenizer *t = l->t;
    added_token *list = ARENA_ARRAY(l->a, added_token, t->n_added + 1);
    int n = 0;
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].normalized == normalized) list[n++] = t->added[i];
    qsort(list, (size_t)n, sizeof *list, by_length);
    for (int i = 0; i < n; i++) {
        added_group *g = &out->by_byte[list[i].text[0]];
        if (g->n++ == 0) {
            *g = (added_group){.p = &list[i], .n = 1, .n_common = list[i].n};
            out->first = list[i].text[0];
            out->n_groups++;
        }
        int k = 0;
        while (k < g->n_common && k < list[i].n && list[i].text[k] == g->p->text[k])
            k++;
        g->n_common = k;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k + 1 < list[i].n; k++) {
            const unsigned char fold = list[i].text[k] | 0x20;
            if (fold >= 'a' && fold <= 'z' && list[i].text[k + 1] == ' ') l->t->can_cut = false;
        }
}

drv_status load_added(loader *l, const json_t *list) {
    tokenizer *t = l->t;
    t->added = ARENA_ARRAY(l->a, added_token, json_array_size(list) + 1);
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) {
        const char *text = json_string_value(json_object_get(v, "content"));
        int64_t id = json_integer_value(json_object_get(v, "id"));
        if (!text || !*text)
            return drv_fail(DRV_E_DATA, "%s: added token %zu has no content", l->path, i);
        static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
        for (int f = 0; f < 3; f++)
            if (json_is_true(json_object_get(v, flags[f]))) return loader_refuse(l, flags[f], text);
        added_token *d = &t->added[t->n_added++];
        *d = (added_token){.name = arena_strdup(l->a, text),
                .n = (int)strlen(text),
                .id = (int32_t)id,
                .special = json_is_true(json_object_get(v, "special"))};
        d->text = (const unsigned char *)d->name;
        const bool normalizes = t->nfc || (t->space_mark && !t->metaspace);
        if (normalizes && json_is_true(json_object_get(v, "normalized"))) {
            str normal = {0};
            tokenizer_normalize(t, text, strlen(text), &normal);
            d->normalized = true;
            d->text = (const unsigned char *)arena_strndup(l->a, normal.p, normal.n);
            d->n = (int)normal.n;
            str_free(&normal);
        }
        t->is_special[id] |= d->special;
        // Hugging Face decodes to the normalised text too.
        unsigned char *decoded = arena_alloc(l->a, (size_t)d->n + 1);
        t->n_bytes[id] = (int)entry_to_bytes(t, (const char *)d->text, (size_t)d->n, decoded);
        t->bytes[id] = decoded;
    }
    index_added(l, false, &t->raw);
    index_added(l, true, &t->normalized);
    return DRV_OK;
}

void load_joins(loader *l) {
    tokenizer *t = l->t;
    for (int b = 0; b < 256; b++)
        if (t->byte_id[b] < 0) return;
    if (l->merges_bytes) return;
    byte_joins *j = ARENA_NEW(l->a, byte_joins);
    for (int x = 0; x < 256; x++)
        j->row[x][2] = UINT64_MAX; // a character stays whole
    for (int32_t id = 0; id < t->n_vocab; id++)
        for (int i = 0; i + 1 < t->n_bytes[id]; i++) {
            const unsigned char x = t->bytes[id][i], y = t->bytes[id][i + 1];
            j->row[x][y >> 6] |= 1ull << (y & 63);
        }
    t->rule[t->n_rules++] = (split_rule){.kind = SPLIT_JOINS, .joins = j};
    for (int x = 'A'; x <= 'z'; x++) // see split_cut
        if ((x <= 'Z' || x >= 'a') && (j->row[x][0] >> ' ' & 1)) t->can_cut = false;
}
