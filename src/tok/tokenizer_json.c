// tokenizer.json -> tokenizer.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_cursor.h"
#include "base/parallel.h"
#include "tok/tokenizer.h"
#include "tok/unicode.h"

typedef struct loader {
    arena *a;
    const char *path;
    tokenizer *t;
    json_cursor vocab, merges; // the two large values: not part of the tree
    bool merges_bytes;         // a merge has a byte-fallback token in it
} loader;

static drv_status refuse(const loader *l, const char *what, const char *value) {
    return drv_fail(
            DRV_E_DATA, "%s: %s \"%s\" is not supported", l->path, what, value ? value : "?");
}

static const char *type_of(const json_t *o) {
    const char *s = json_string_value(json_object_get(o, "type"));
    return s ? s : "?";
}

static int32_t find_word(const tokenizer *t, const void *p, size_t n) {
    for (uint64_t h = XXH3_64bits(p, n);; h++) {
        int32_t id = t->word_slots[h & t->word_mask];
        if (id < 0) return -1;
        if ((size_t)t->n_bytes[id] == n && memcmp(t->bytes[id], p, n) == 0) return id;
    }
}

int32_t tokenizer_word(const tokenizer *t, const void *p, size_t n) {
    return find_word(t, p, n);
}

int32_t tokenizer_id(const tokenizer *t, const char *text) {
    for (int i = 0; i < t->n_added; i++)
        if (strcmp(t->added[i].name, text) == 0) return t->added[i].id;
    return find_word(t, text, strlen(text));
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

static drv_status fill_vocab(
        loader *l, const vocab_entry *list, int64_t n, const str *pool, const json_t *added) {
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

static drv_status load_vocab(loader *l, const json_t *added) {
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

static drv_status load_bytes(loader *l) {
    tokenizer *t = l->t;
    for (int b = 0; b < 256; b++) {
        char name[8];
        unsigned char byte = (unsigned char)b;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->byte_id[b] = t->byte_level ? find_word(t, &byte, 1) : find_word(t, name, strlen(name));
        if (b < 128) t->ascii_id[b] = find_word(t, &byte, 1);
    }
    return DRV_OK;
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
        m->left = find_word(l->t, x, m->nx);
        m->right = find_word(l->t, x + m->nx, m->ny);
        m->merged = find_word(l->t, x, m->nx + m->ny);
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
        list->p[list->n++] = (merge_entry){
                .at = list->pool.n, .nx = (uint32_t)side[0].n, .ny = (uint32_t)side[1].n};
        str_add(&list->pool, side[0].p, side[0].n);
        str_add(&list->pool, side[1].p, side[1].n);
    }
    str_free(&side[0]);
    str_free(&side[1]);
    return s;
}

static drv_status load_merges(loader *l) {
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
        par_for((list.n + LOOK_UP_AT_ONCE - 1) / LOOK_UP_AT_ONCE, look_up_merges, &list);
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

static drv_status load_added(loader *l, const json_t *list) {
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
            if (json_is_true(json_object_get(v, flags[f]))) return refuse(l, flags[f], text);
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

// Where no entry of the vocabulary reaches across, no merge does: the text may be cut there. Only
// if every byte has an id: what has none goes away or is fused, and brings others together.
static void load_joins(loader *l) {
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

static drv_status load_normalizer(loader *l, const json_t *o) {
    if (!o || json_is_null(o)) return DRV_OK;
    const char *type = type_of(o);
    if (strcmp(type, "Sequence") == 0) {
        size_t i;
        json_t *v;
        json_array_foreach(json_object_get(o, "normalizers"), i, v) DRV_TRY(load_normalizer(l, v));
        return DRV_OK;
    }
    if (strcmp(type, "NFC") == 0) {
        l->t->nfc = true;
        return DRV_OK;
    }
    if (strcmp(type, "Prepend") == 0) {
        const char *p = json_string_value(json_object_get(o, "prepend"));
        if (!p || strcmp(p, SPACE_MARK) != 0) return refuse(l, "prepend", p);
        l->t->prefix = PREFIX_ALWAYS;
        return DRV_OK;
    }
    if (strcmp(type, "Replace") == 0) {
        const char *from =
                json_string_value(json_object_get(json_object_get(o, "pattern"), "String"));
        const char *to = json_string_value(json_object_get(o, "content"));
        if (!from || !to || strcmp(from, " ") != 0 || strcmp(to, SPACE_MARK) != 0)
            return refuse(l, "normalizer Replace of", from);
        l->t->space_mark = true;
        return DRV_OK;
    }
    return refuse(l, "normalizer", type);
}

static drv_status add_rule(loader *l, split_rule r) {
    if (l->t->n_rules == MAX_RULES) return refuse(l, "pre_tokenizer", "a sequence of more than 4");
    split_rule *last = l->t->n_rules ? &l->t->rule[l->t->n_rules - 1] : NULL;
    if (last && last->kind == SPLIT_DIGITS && r.kind == SPLIT_GPT2)
        last->kind = SPLIT_DIGITS_GPT2;
    else
        l->t->rule[l->t->n_rules++] = r;
    return DRV_OK;
}

static drv_status load_metaspace(loader *l, const json_t *o) {
    const char *mark = json_string_value(json_object_get(o, "replacement"));
    const char *scheme = json_string_value(json_object_get(o, "prepend_scheme"));
    if (!mark || strcmp(mark, SPACE_MARK) != 0) return refuse(l, "Metaspace replacement", mark);
    if (l->t->n_rules) return refuse(l, "pre_tokenizer", "Metaspace behind another");
    if (!scheme) // older files
        scheme = json_is_false(json_object_get(o, "add_prefix_space")) ? "never" : "always";
    if (strcmp(scheme, "always") == 0)
        l->t->prefix = PREFIX_UNLESS;
    else if (strcmp(scheme, "first") == 0)
        l->t->prefix = PREFIX_FIRST;
    else if (strcmp(scheme, "never") != 0)
        return refuse(l, "Metaspace prepend_scheme", scheme);
    l->t->space_mark = l->t->metaspace = true;
    if (json_is_false(json_object_get(o, "split"))) return DRV_OK;
    return add_rule(l, (split_rule){.kind = SPLIT_SPACES});
}

static drv_status load_pre_tokenizer(loader *l, const json_t *o) {
    if (!o || json_is_null(o)) return DRV_OK;
    const char *type = type_of(o);
    if (strcmp(type, "Sequence") == 0) {
        size_t i;
        json_t *v;
        json_array_foreach(json_object_get(o, "pretokenizers"), i, v)
                DRV_TRY(load_pre_tokenizer(l, v));
        return DRV_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        l->t->byte_level = true;
        if (json_is_true(json_object_get(o, "add_prefix_space")))
            return refuse(l, "ByteLevel option", "add_prefix_space");
        if (json_is_false(json_object_get(o, "use_regex"))) return DRV_OK;
        return add_rule(l, (split_rule){.kind = SPLIT_GPT2});
    }
    if (strcmp(type, "Digits") == 0) {
        if (!json_is_true(json_object_get(o, "individual_digits")))
            return refuse(l, "pre_tokenizer Digits without", "individual_digits");
        return add_rule(l, (split_rule){.kind = SPLIT_DIGITS});
    }
    if (strcmp(type, "Split") == 0) {
        const json_t *p = json_object_get(o, "pattern");
        const char *re = json_string_value(json_object_get(p, "Regex"));
        const char *how = json_string_value(json_object_get(o, "behavior"));
        if (!re) return refuse(l, "pre_tokenizer Split with", "a String pattern");
        if (!how || strcmp(how, "Isolated") != 0 || json_is_true(json_object_get(o, "invert")))
            return refuse(l, "Split behavior", how);
        split_rule r;
        DRV_TRY(split_rule_for(l->path, re, &r));
        return add_rule(l, r);
    }
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(l, o);
    return refuse(l, "pre_tokenizer", type);
}

static drv_status load_template(loader *l, const json_t *o) {
    tokenizer *t = l->t;
    bool seen = false;
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(o, "single"), i, v) {
        const json_t *special = json_object_get(v, "SpecialToken");
        if (!special) {
            seen = true;
            continue;
        }
        const char *name = json_string_value(json_object_get(special, "id"));
        const json_t *entry =
                json_object_get(json_object_get(o, "special_tokens"), name ? name : "");
        const json_t *ids = json_object_get(entry, "ids");
        for (size_t k = 0; k < json_array_size(ids); k++) {
            int64_t id = json_integer_value(json_array_get(ids, k));
            int *n = seen ? &t->n_after : &t->n_before;
            if (id < 0 || id >= t->n_vocab || *n == MAX_TEMPLATE)
                return drv_fail(
                        DRV_E_DATA, "%s: post_processor: bad special token \"%s\"", l->path, name);
            (seen ? t->after : t->before)[(*n)++] = (int32_t)id;
        }
    }
    return DRV_OK;
}

static drv_status load_post_processor(loader *l, const json_t *o) {
    if (!o || json_is_null(o)) return DRV_OK;
    const char *type = type_of(o);
    if (strcmp(type, "ByteLevel") == 0) return DRV_OK; // only moves offsets
    if (strcmp(type, "TemplateProcessing") == 0) return load_template(l, o);
    if (strcmp(type, "Sequence") == 0) {
        size_t i;
        json_t *v;
        json_array_foreach(json_object_get(o, "processors"), i, v)
                DRV_TRY(load_post_processor(l, v));
        return DRV_OK;
    }
    return refuse(l, "post_processor", type);
}

static drv_status load_decoder(loader *l, const json_t *o) {
    if (!o || json_is_null(o)) return DRV_OK;
    const char *type = type_of(o);
    if (strcmp(type, "Sequence") == 0) {
        size_t i;
        json_t *v;
        json_array_foreach(json_object_get(o, "decoders"), i, v) DRV_TRY(load_decoder(l, v));
        return DRV_OK;
    }
    if (strcmp(type, "ByteLevel") == 0 || strcmp(type, "ByteFallback") == 0 ||
            strcmp(type, "Fuse") == 0)
        return DRV_OK; // what decode.c does
    if (strcmp(type, "Metaspace") == 0) {
        l->t->strip_space = l->t->prefix != PREFIX_NONE;
        return DRV_OK;
    }
    const char *what = json_string_value(json_object_get(o, "content"));
    if (strcmp(type, "Replace") == 0) {
        const char *from =
                json_string_value(json_object_get(json_object_get(o, "pattern"), "String"));
        if (l->t->space_mark && from && strcmp(from, SPACE_MARK) == 0 && what &&
                strcmp(what, " ") == 0)
            return DRV_OK;
        return refuse(l, "decoder Replace of", from);
    }
    if (strcmp(type, "Strip") == 0) {
        const bool one = json_integer_value(json_object_get(o, "start")) == 1 &&
                         json_integer_value(json_object_get(o, "stop")) == 0;
        if (!one || !what || strcmp(what, " ") != 0) return refuse(l, "decoder Strip of", what);
        l->t->strip_space = true;
        return DRV_OK;
    }
    return refuse(l, "decoder", type);
}

static drv_status check_model(loader *l, const json_t *m) {
    const char *type = json_string_value(json_object_get(m, "type"));
    if (!json_is_object(m) || (type && strcmp(type, "BPE") != 0)) return refuse(l, "model", type);
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *s = json_string_value(json_object_get(m, affixes[i]));
        if (s && *s) return refuse(l, affixes[i], s);
    }
    if (json_number_value(json_object_get(m, "dropout")) > 0)
        return refuse(l, "model option", "dropout");
    l->t->ignore_merges = json_is_true(json_object_get(m, "ignore_merges"));
    return DRV_OK;
}

static drv_status load(loader *l, const json_t *root) {
    tokenizer *t = l->t;
    if (!json_is_object(root)) return drv_fail(DRV_E_DATA, "%s: expected a JSON object", l->path);
    const json_t *m = json_object_get(root, "model"),
                 *added = json_object_get(root, "added_tokens");
    DRV_TRY(check_model(l, m));
    DRV_TRY(load_normalizer(l, json_object_get(root, "normalizer")));
    DRV_TRY(load_pre_tokenizer(l, json_object_get(root, "pre_tokenizer")));
    t->can_cut = t->n_rules == 0;        // then load_joins decides
    for (int i = 0; i < t->n_rules; i++) // digits alone do not part a letter from a space
        t->can_cut |= t->rule[i].kind != SPLIT_DIGITS;
    for (int i = 0; i < t->n_rules; i++)
        t->can_cut &= t->rule[i].kind != SPLIT_REGEX;
    DRV_TRY(load_vocab(l, added));
    DRV_TRY(load_bytes(l));
    DRV_TRY(load_merges(l));
    const char *unk = json_string_value(json_object_get(m, "unk_token"));
    t->unknown = unk ? find_word(t, unk, strlen(unk)) : -1;
    t->fuse_unknown = json_is_true(json_object_get(m, "fuse_unk"));
    if (t->n_rules == 0) load_joins(l);
    if (t->n_rules == 0) t->can_cut = false; // one word
    DRV_TRY(load_added(l, added));
    DRV_TRY(load_post_processor(l, json_object_get(root, "post_processor")));
    DRV_TRY(load_decoder(l, json_object_get(root, "decoder")));
    static const char *const bos[] = {"<s>", "<|begin_of_text|>", "<|endoftext|>"};
    static const char *const eos[] = {"</s>", "<|end_of_text|>", "<|endoftext|>"};
    t->bos = t->n_before ? t->before[0] : -1;
    t->eos = -1;
    for (int i = 0; i < 3; i++) {
        if (t->bos < 0) t->bos = tokenizer_id(t, bos[i]);
        if (t->eos < 0) t->eos = tokenizer_id(t, eos[i]);
    }
    return DRV_OK;
}

// The tree of the file without model.vocab and model.merges, which are megabytes: they are read
// where they lie.
static drv_status read_tree(loader *l, const file_map *f, json_t **root) {
    json_cursor c = {.p = (const char *)f->p, .end = (const char *)f->p + f->n};
    const char *cut[4] = {c.end, c.end, c.end, c.end}; // both values, in the order of the file
    int n_cut = 0;
    str key = {0};
    for (bool first = true; jc_peek(&c) && jc_next(&c, '{', &first, &key);) {
        const bool model = str_is(&key, "model") && jc_peek(&c) == '{';
        for (bool inner = true; model && jc_next(&c, '{', &inner, &key);) {
            const bool vocab = str_is(&key, "vocab"), merges = str_is(&key, "merges");
            jc_peek(&c);
            const char *begin = c.p;
            jc_skip(&c);
            if (!(vocab || merges) || n_cut == 4) continue;
            *(vocab ? &l->vocab : &l->merges) = (json_cursor){.p = begin, .end = c.p};
            cut[n_cut++] = begin;
            cut[n_cut++] = c.p;
        }
        if (!model) jc_skip(&c);
    }
    str_clear(&key);
    const char *p = (const char *)f->p;
    str_add(&key, p, (size_t)(cut[0] - p));
    if (n_cut > 0) str_puts(&key, "0");
    str_add(&key, cut[1], (size_t)(cut[2] - cut[1]));
    if (n_cut > 2) str_puts(&key, "0");
    str_add(&key, cut[3], (size_t)(c.end - cut[3]));
    drv_status s = json_read_bytes(l->path, key.p, key.n, root);
    str_free(&key);
    return s;
}

drv_status tokenizer_open(arena *a, const char *path, tokenizer **out) {
    if (file_is_dir(path)) path = path_join(a, path, "tokenizer.json");
    loader l = {.a = a, .path = path, .t = ARENA_NEW(a, tokenizer)};
    l.t->path = path;
    file_map f;
    json_t *root = NULL;
    DRV_TRY(file_map_open(path, &f));
    l.t->words = ARENA_NEW(a, word_table);
    DRV_ASSERT(word_table_open(l.t->words), "out of memory");
    drv_status s = read_tree(&l, &f, &root);
    if (s == DRV_OK) s = load(&l, root);
    json_decref(root);
    file_map_close(&f);
    if (s != DRV_OK)
        tokenizer_close(l.t);
    else
        *out = l.t;
    return s;
}

void tokenizer_close(tokenizer *t) {
    if (t && t->words) word_table_close(t->words);
    for (int i = 0; t && i < t->n_rules; i++)
        split_rule_free(&t->rule[i]);
}
