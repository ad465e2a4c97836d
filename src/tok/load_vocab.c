// model.vocab of tokenizer.json: entries as the bytes that they stand for, looked up by hash.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tok/loader.h"
#include "tok/unicode.h"

// The entry of these bytes; as_written: among those that stand for themselves.
static int32_t find_entry(const tokenizer *t, const void *p, size_t n, bool as_written) {
    for (uint64_t h = XXH3_64bits(p, n);; h++) {
        const int32_t id = t->word_slots[h & t->word_mask];
        if (id < 0) return -1;
        const token_bytes *e = &t->entries[id];
        if ((size_t)e->n == n && e->as_written == as_written && memcmp(e->p, p, n) == 0) return id;
    }
}

int32_t tokenizer_word(const tokenizer *t, const void *p, size_t n) {
    return find_entry(t, p, n, false);
}

size_t entry_to_bytes(const tokenizer *t, const char *key, size_t n, unsigned char *out,
        bool *as_written) {
    size_t m = 0;
    *as_written = false;
    if (!t->byte_level) {
        for (size_t i = 0; i < n; m++) {
            const bool mark = t->space_mark && n - i >= 3 && memcmp(key + i, SPACE_MARK, 3) == 0;
            *as_written |= t->space_mark && key[i] == ' '; // no text has one behind the normalizer
            out[m] = mark ? ' ' : (unsigned char)key[i];
            i += mark ? 3 : 1;
        }
        return m;
    }
    for (const unsigned char *p = (const unsigned char *)key, *end = p + n; p < end;)
        if (char_byte(utf8_next(&p)) < 0) {
            memmove(out, key, n);
            *as_written = true;
            return n;
        }
    for (const unsigned char *p = (const unsigned char *)key, *end = p + n; p < end;)
        out[m++] = (unsigned char)char_byte(utf8_next(&p));
    return m;
}

int32_t tokenizer_entry(const tokenizer *t, const char *key, size_t n) {
    unsigned char small[256], *bytes = n <= sizeof small ? small : mem_alloc(n);
    bool as_written;
    const size_t k = entry_to_bytes(t, key, n, bytes, &as_written);
    const int32_t id = find_entry(t, bytes, k, as_written);
    if (bytes != small) free(bytes);
    return id;
}

int32_t tokenizer_id(const tokenizer *t, const char *text) {
    for (int i = 0; i < t->n_added; i++)
        if (strcmp(t->added[i].name, text) == 0) return t->added[i].id;
    return utf8_valid(text, strlen(text)) ? tokenizer_entry(t, text, strlen(text)) : -1;
}

drv_status loader_check_utf8(const loader *l, const str *s) {
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
    bool as_written;
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
        DRV_TRY(loader_check_utf8(l, key));
        v->at = pool->n;
        if (key->n)
            v->n = (int)entry_to_bytes(l->t, key->p, key->n, (unsigned char *)key->p,
                    &v->as_written);
        str_add(pool, key->p, (size_t)v->n);
    }
    return DRV_OK;
}

static void make_slots(loader *l) {
    tokenizer *t = l->t;
    t->word_mask = 64;
    while (t->word_mask < 2 * (uint64_t)t->n_vocab)
        t->word_mask *= 2;
    t->word_slots = ARENA_ARRAY(l->a, int32_t, t->word_mask);
    memset(t->word_slots, 0xFF, sizeof *t->word_slots * t->word_mask);
    t->word_mask--;
}

static drv_status fill_vocab(loader *l, const vocab_entry *list, int64_t n, const str *pool) {
    tokenizer *t = l->t;
    int64_t max_id = -1;
    for (int64_t i = 0; i < n; i++)
        if (list[i].id > max_id) max_id = list[i].id;
    t->n_vocab = l->n_ids = (int32_t)(max_id + 1);
    t->n_entries = (int32_t)n;
    t->entries = ARENA_ARRAY(l->a, token_bytes, t->n_vocab);
    unsigned char *all = arena_alloc(l->a, pool->n + 1);
    if (pool->n) memcpy(all, pool->p, pool->n);
    make_slots(l);
    for (int64_t k = 0; k < n; k++) {
        const vocab_entry *v = &list[k];
        token_bytes *e = &t->entries[v->id];
        if (e->p)
            return drv_fail(DRV_E_DATA, "%s: \"%.*s\" has an id that another entry has too: %d",
                    l->path, v->n > 40 ? 40 : v->n, (const char *)all + v->at, v->id);
        *e = (token_bytes){all + v->at, v->n, v->as_written};
        uint64_t h = XXH3_64bits(e->p, (size_t)e->n);
        while (t->word_slots[h & t->word_mask] >= 0)
            h++;
        t->word_slots[h & t->word_mask] = v->id;
    }
    return DRV_OK;
}

drv_status load_vocab(loader *l) {
    vocab_entry *list = NULL;
    int64_t n = 0;
    str key = {0}, pool = {0};
    drv_status s = read_vocab(l, &list, &n, &key, &pool);
    if (s == DRV_OK) s = fill_vocab(l, list, n, &pool);
    str_free(&key);
    str_free(&pool);
    free(list);
    return s;
}

void load_bytes(loader *l, bool byte_fallback) {
    tokenizer *t = l->t;
    t->all_bytes = true;
    for (int b = 0; b < 256; b++) {
        char name[8];
        const unsigned char byte = (unsigned char)b;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->byte_id[b] = t->byte_level ? tokenizer_word(t, &byte, 1) : -1;
        t->fallback_id[b] = byte_fallback ? tokenizer_entry(t, name, strlen(name)) : -1;
        t->all_bytes &= (t->byte_level ? t->byte_id[b] : t->fallback_id[b]) >= 0;
        if (b < 128) t->ascii_id[b] = tokenizer_word(t, &byte, 1);
    }
}
