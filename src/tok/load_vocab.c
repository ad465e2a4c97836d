// Loads model.vocab of tokenizer.json: a hash table of the bytes for which entries stand.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tok/loader.h"
#include "tok/unicode.h"

// Returns the id of an entry by its bytes; -1: none. `as_written`: of one that stands for itself.
static int32_t find_entry(const tokenizer *t, const void *p, size_t n, bool as_written) {
    uint64_t h = XXH3_64bits(p, n);
    for (const uint32_t tag = (uint32_t)(h >> 32);; h++) {
        const entry_slot slot = t->word_slots[h & t->word_mask];
        const int32_t id = slot.entry;
        if (id < 0) return -1;
        if (slot.tag != tag) continue;
        const token_bytes *e = &t->entries[id];
        if ((size_t)e->n == n && e->as_written == as_written && memcmp(e->p, p, n) == 0)
            return id < t->n_ids ? id : t->alias_id[id - t->n_ids];
    }
}

int32_t tokenizer_word(const tokenizer *t, const void *p, size_t n) {
    return find_entry(t, p, n, false);
}

size_t entry_to_bytes(const tokenizer *tok, const char *key, size_t n_key, unsigned char *out,
        bool *as_written) {
    size_t n_out = 0;
    *as_written = false;
    if (!tok->byte_level) {
        for (size_t i = 0; i < n_key; n_out++) {
            const bool mark =
                    tok->space_mark && n_key - i >= 3 && memcmp(key + i, SPACE_MARK, 3) == 0;
            *as_written |= tok->space_mark && key[i] == ' '; // no text has one after the normalizer
            out[n_out] = mark ? ' ' : (unsigned char)key[i];
            i += mark ? 3 : 1;
        }
        return n_out;
    }
    for (const unsigned char *p = (const unsigned char *)key, *end = p + n_key; p < end;)
        if (char_byte(utf8_next(&p)) < 0) {
            memmove(out, key, n_key);
            *as_written = true;
            return n_key;
        }
    for (const unsigned char *p = (const unsigned char *)key, *end = p + n_key; p < end;)
        out[n_out++] = (unsigned char)char_byte(utf8_next(&p));
    return n_out;
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
    const added_token *added = added_with_name(t, text);
    if (added) return added->id;
    return utf8_valid(text, strlen(text)) ? tokenizer_entry(t, text, strlen(text)) : -1;
}

bool tokenizer_added_at(const tokenizer *t, int i, tokenizer_added *out) {
    if (i >= t->n_added) return false;
    const added_token *token = &t->added[i];
    *out = (tokenizer_added){.id = token->id,
            .text = token->name,
            .special = token->special,
            .normalized = token->normalized,
            .single_word = token->single_word,
            .lstrip = token->lstrip,
            .rstrip = token->rstrip};
    return true;
}

bool tokenizer_is_added(const tokenizer *t, int32_t id) {
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].id == id) return true;
    return false;
}

drv_status loader_check_utf8(const loader *l, const str *s) {
    if (s->n == 0 || utf8_valid_prefix((const unsigned char *)s->p, s->n) == s->n) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: \"%.40s\" is not UTF-8", l->path, s->p);
}

static drv_status check_id(const loader *l, const char *key, bool is_number, int64_t id) {
    if (!is_number)
        return drv_fail(DRV_E_DATA, "%s: id of \"%.40s\" is not a number", l->path, key);
    if (id < 0 || id >= 1 << 24)
        return drv_fail(DRV_E_DATA, "%s: id of \"%.40s\" is %lld, expected 0 to 16777215", l->path,
                key, (long long)id);
    return DRV_OK;
}

typedef struct vocab_entry {
    size_t at, key_at; // offsets in the pool of its bytes, and of its key if that is kept
    int n, n_key;
    int32_t id;
    bool as_written, again; // again: a later entry with the same key replaces it
} vocab_entry;

typedef struct vocab_list {
    vocab_entry *p;
    int64_t n, cap;
    str pool;
} vocab_list;

static drv_status read_vocab(loader *l, vocab_list *list, str *key) {
    json_cursor *c = &l->vocab;
    int64_t id;
    if (jc_peek(c) != '{') return drv_fail(DRV_E_DATA, "%s: model.vocab is not an object", l->path);
    for (bool first = true; jc_next(c, '{', &first, key);) {
        const bool is_number = jc_i64(c, &id);
        DRV_TRY(check_id(l, key->p ? key->p : "", is_number, id));
        MEM_GROW(list->p, list->n, list->cap);
        vocab_entry *v = &list->p[list->n++];
        *v = (vocab_entry){.id = (int32_t)id, .key_at = list->pool.n, .n_key = (int)key->n};
        DRV_TRY(loader_check_utf8(l, key));
        if (l->t->decodes_keys) str_add(&list->pool, key->p, key->n);
        v->at = list->pool.n;
        if (key->n)
            v->n = (int)entry_to_bytes(l->t, key->p, key->n, (unsigned char *)key->p,
                    &v->as_written);
        str_add(&list->pool, key->p, (size_t)v->n);
    }
    return DRV_OK;
}

// Makes the hash table of the entries' indices. Of entries with the same key the last counts, as in
// Hugging Face.
static void make_slots(loader *load, vocab_list *list) {
    tokenizer *tok = load->t;
    tok->word_mask = 64;
    while (tok->word_mask < 2 * (uint64_t)list->n)
        tok->word_mask *= 2;
    tok->word_slots = ARENA_ARRAY(load->a, entry_slot, tok->word_mask);
    memset(tok->word_slots, 0xFF, sizeof *tok->word_slots * tok->word_mask);
    tok->word_mask--;
    tok->n_entries = (int32_t)list->n;
    for (int64_t i = 0; i < list->n; i++) {
        const vocab_entry *v = &list->p[i];
        const char *bytes = list->pool.p + v->at;
        uint64_t h = XXH3_64bits(bytes, (size_t)v->n);
        const uint32_t tag = (uint32_t)(h >> 32);
        for (;; h++) {
            const int32_t before = tok->word_slots[h & tok->word_mask].entry;
            if (before < 0) break;
            if (tok->word_slots[h & tok->word_mask].tag != tag) continue;
            vocab_entry *w = &list->p[before];
            w->again = w->n == v->n && w->as_written == v->as_written &&
                       memcmp(list->pool.p + w->at, bytes, (size_t)v->n) == 0;
            if (!w->again) continue;
            tok->n_entries--;
            break;
        }
        tok->word_slots[h & tok->word_mask] = (entry_slot){tag, (int32_t)i};
    }
}

// Fills the entries. An id may have several keys: all match texts, and it decodes to the first.
static void fill_vocab(loader *load, const vocab_list *list) {
    tokenizer *tok = load->t;
    int32_t max_id = -1;
    for (int64_t i = 0; i < list->n; i++)
        if (!list->p[i].again && list->p[i].id > max_id) max_id = list->p[i].id;
    tok->n_vocab = tok->n_ids = max_id + 1;
    tok->entries = ARENA_ARRAY(load->a, token_bytes, tok->n_ids + list->n);
    tok->alias_id = ARENA_ARRAY(load->a, int32_t, list->n + 1);
    load->keys = ARENA_ARRAY(load->a, token_bytes, tok->n_ids + 1);
    int32_t *entry = ARENA_ARRAY(load->a, int32_t, list->n + 1); // in entries
    unsigned char *all = arena_alloc(load->a, list->pool.n + 1);
    if (list->pool.n) memcpy(all, list->pool.p, list->pool.n);
    for (int64_t i = 0; i < list->n; i++) {
        const vocab_entry *v = &list->p[i];
        if (v->again) continue;
        entry[i] = v->id;
        if (tok->entries[v->id].p) {
            tok->alias_id[tok->n_aliases] = v->id;
            entry[i] = tok->n_ids + tok->n_aliases++;
        } else {
            load->keys[v->id] = (token_bytes){all + v->key_at, v->n_key, true};
        }
        tok->entries[entry[i]] = (token_bytes){all + v->at, v->n, v->as_written};
    }
    for (uint64_t h = 0; h <= tok->word_mask; h++)
        if (tok->word_slots[h].entry >= 0)
            tok->word_slots[h].entry = entry[tok->word_slots[h].entry];
}

drv_status load_vocab(loader *l) {
    vocab_list list = {0};
    str key = {0};
    const drv_status status = read_vocab(l, &list, &key);
    if (status == DRV_OK) {
        make_slots(l, &list);
        fill_vocab(l, &list);
    }
    str_free(&key);
    str_free(&list.pool);
    free(list.p);
    return status;
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
