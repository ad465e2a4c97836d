// Loads the added tokens of tokenizer.json, indexed by where to search for them, and finds where
// texts without a pre-tokenizer may be cut.
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/log.h"
#include "tok/loader.h"

static int by_length(const void *x, const void *y) {
    const added_token *a = x, *b = y;
    return a->text[0] != b->text[0] ? a->text[0] - b->text[0]
           : a->n != b->n           ? b->n - a->n
                                    : a->id - b->id;
}

static uint64_t text_hash(const void *text, size_t n) {
    return XXH3_64bits(text, n);
}

static uint64_t table_mask(int64_t n) {
    uint64_t size = 16;
    while (size < 2 * (uint64_t)n)
        size *= 2;
    return size - 1;
}

const added_token *added_with_text(const added_index *x, const void *text, size_t n) {
    if (!x->slots) return NULL;
    uint64_t at = text_hash(text, n) & x->mask;
    for (; x->slots[at]; at = (at + 1) & x->mask)
        if ((size_t)x->slots[at]->n == n && memcmp(x->slots[at]->text, text, n) == 0) break;
    return x->slots[at];
}

const added_token *added_with_name(const tokenizer *t, const char *name) {
    if (!t->added_slots) return NULL;
    uint64_t at = text_hash(name, strlen(name)) & t->added_mask;
    while (t->added_slots[at] && strcmp(t->added_slots[at]->name, name) != 0)
        at = (at + 1) & t->added_mask;
    return t->added_slots[at];
}

// Indexes the texts of added tokens; of equal texts the first is found.
static void index_texts(loader *load, added_token *list, int n, added_index *out) {
    out->mask = table_mask(n);
    out->slots = ARENA_ARRAY(load->a, added_token *, out->mask + 1);
    for (int i = 0; i < n; i++) {
        added_group *g = &out->by_byte[list[i].text[0]];
        if (g->n_lengths == 0) g->lengths = ARENA_ARRAY(load->a, int, g->n);
        if (g->n_lengths == 0 || g->lengths[g->n_lengths - 1] != list[i].n)
            g->lengths[g->n_lengths++] = list[i].n;
        if (added_with_text(out, list[i].text, (size_t)list[i].n)) continue;
        uint64_t at = text_hash(list[i].text, (size_t)list[i].n) & out->mask;
        while (out->slots[at])
            at = (at + 1) & out->mask;
        out->slots[at] = &list[i];
    }
}

static void index_added(loader *load, bool normalized, added_index *out) {
    const tokenizer *tok = load->t;
    added_token *list = ARENA_ARRAY(load->a, added_token, tok->n_added + 1);
    int n_text = 0;
    for (int i = 0; i < tok->n_added; i++)
        if (tok->added[i].normalized == normalized) list[n_text++] = tok->added[i];
    qsort(list, (size_t)n_text, sizeof *list, by_length);
    for (int i = 0; i < n_text; i++) {
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
    index_texts(load, list, n_text, out);
    for (int i = 0; i < n_text; i++) // a cut may remove the text on which these depend
        if (list[i].single_word || list[i].lstrip || list[i].rstrip) load->t->can_cut = false;
    for (int i = 0; i < n_text; i++)
        for (int k = 0; k + 1 < list[i].n; k++) {
            const unsigned char fold = list[i].text[k] | 0x20;
            if (fold >= 'a' && fold <= 'z' && list[i].text[k + 1] == ' ') load->t->can_cut = false;
        }
}

// Returns the id of an added token, whatever the file says: the id that its text already has, or
// else the next one after the vocabulary, as in Hugging Face (0.23.3;
// tools/compare_random_tokenizers.py has such files).
static int32_t next_added_id(loader *l, const char *text) {
    const added_token *added = added_with_name(l->t, text);
    const int32_t known = added && added->n
                                  ? added->id
                                  : tokenizer_entry(l->t, text, strlen(text)); // n 0: dropped
    return known >= 0 ? known : l->t->n_entries + l->n_new++;
}

// Checks the id that the file gives, and warns if it is not that of Hugging Face. Tokens from
// beside tokenizer.json need not have one.
static drv_status check_id(loader *load, const json_t *token, bool beside, const added_token *out) {
    const json_t *id = json_object_get(token, "id");
    if (beside && !id) return DRV_OK;
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > UINT32_MAX)
        return drv_fail(DRV_E_DATA, "%s: added token \"%.60s\": its id is not a number from 0",
                load->path, out->name);
    if (out->n && json_integer_value(id) != out->id && load->n_other_ids++ == 0)
        log_warn("%s: added token \"%s\" has id %lld, but it is %d for Hugging Face and here",
                beside ? loader_beside(load, "tokenizer_config.json") : load->path, out->name,
                (long long)json_integer_value(id), out->id);
    return DRV_OK;
}

static drv_status read_added(loader *load, size_t i, const json_t *token, bool beside,
        added_token *out) {
    const char *text = json_string_value(json_object_get(token, "content"));
    if (!text) return drv_fail(DRV_E_DATA, "%s: added token %zu has no content", load->path, i);
    const bool given = load->keeps_ids && !beside; // a model file decides its own ids
    *out = (added_token){.name = arena_strdup(load->a, text),
            .n = (int)strlen(text),
            .id = !*text  ? -1
                  : given ? (int32_t)json_integer_value(json_object_get(token, "id"))
                          : next_added_id(load, text),
            .special = json_is_true(json_object_get(token, "special")),
            .normalized = json_is_true(json_object_get(token, "normalized")),
            .single_word = json_is_true(json_object_get(token, "single_word")),
            .lstrip = json_is_true(json_object_get(token, "lstrip")),
            .rstrip = json_is_true(json_object_get(token, "rstrip"))};
    out->text = (const unsigned char *)out->name;
    DRV_TRY(check_id(load, token, beside, out));
    if (out->normalized && tokenizer_normalizes(load->t)) {
        str normal = {0};
        if (given)
            str_replace(&normal, text, strlen(text), SPACE_MARK,
                    load->t->space_mark ? " " : SPACE_MARK);
        else
            tokenizer_normalize(load->t, text, strlen(text), &normal);
        out->text = (const unsigned char *)arena_strndup(load->a, normal.p, normal.n);
        out->n = (int)normal.n;
        str_free(&normal);
    }
    return DRV_OK;
}

// Returns the bytes to which an added token decodes; in Hugging Face too that is the normalised
// text.
static token_bytes decoded_added(const loader *l, const added_token *token) {
    const tokenizer *t = l->t;
    if (t->decodes_keys) { // in normalised text a space is U+2581, which `text` does not show
        const bool marked = token->normalized && t->space_mark && !t->metaspace;
        str key = {0};
        str_replace(&key, token->text, (size_t)token->n, " ", marked ? SPACE_MARK : " ");
        const token_bytes out = {(unsigned char *)arena_strndup(l->a, key.p, key.n), (int)key.n,
                true};
        str_free(&key);
        return out;
    }
    unsigned char *bytes = arena_alloc(l->a, (size_t)token->n + 1);
    token_bytes out = {.p = bytes};
    out.n = (int)entry_to_bytes(t, (const char *)token->text, (size_t)token->n, bytes,
            &out.as_written);
    return out;
}

// Drops the earlier ones of the added tokens that share an id, as Hugging Face does, unless they
// have the same name: they had the id from the vocabulary, whose ids may go beyond its size.
// `same_id` has, by id, the index + 1 of the last added token that is kept.
static void drop_same_id(tokenizer *t, int32_t *same_id, const added_token *later) {
    const int before = same_id[later->id] - 1;
    if (before < 0 || strcmp(t->added[before].name, later->name) == 0) return;
    for (int i = before; i >= 0; i = t->added[i].same - 1)
        t->added[i].n = 0; // keep_added removes it
    same_id[later->id] = 0;
}

// Indexes a token by its name, in place of a token of that name that was dropped.
static void add_name(tokenizer *t, added_token *token) {
    uint64_t at = text_hash(token->name, strlen(token->name)) & t->added_mask;
    while (t->added_slots[at] && strcmp(t->added_slots[at]->name, token->name) != 0)
        at = (at + 1) & t->added_mask;
    if (!t->added_slots[at] || t->added_slots[at]->n == 0) t->added_slots[at] = token;
}

// Replaces the added token of the same name, as Hugging Face does. False: there is none.
static bool replace_added(tokenizer *t, const added_token *later) {
    added_token *one = (added_token *)(uintptr_t)added_with_name(t, later->name);
    if (!one || one->n == 0 || one->id != later->id) return false;
    const int32_t same = one->same;
    const bool special = one->special || later->special; // once special, always
    *one = *later;
    one->same = same;
    one->special = special;
    return true;
}

static drv_status read_all_added(loader *load, const json_t *list, const json_t *beside,
        int32_t *same_id) {
    tokenizer *tok = load->t;
    const size_t n_own = json_array_size(list), n = n_own + json_array_size(beside);
    for (size_t i = 0; i < n; i++) {
        added_token token;
        const bool own = i < n_own;
        DRV_TRY(read_added(load, i,
                own ? json_array_get(list, i) : json_array_get(beside, i - n_own), !own, &token));
        if (!token.n) continue; // as in Hugging Face
        drop_same_id(tok, same_id, &token);
        if (replace_added(tok, &token)) continue;
        token.same = same_id[token.id];
        tok->added[tok->n_added] = token;
        add_name(tok, &tok->added[tok->n_added]);
        same_id[token.id] = ++tok->n_added;
        if (token.id < tok->n_vocab) continue;
        tok->n_vocab = token.id + 1;
        if (!own && load->n_beside++ == 0) load->first_beside = token.name;
    }
    return DRV_OK;
}

// Logs the tokens that tokenizer.json does not have: a model must have rows for them.
static void tell_beside(const loader *load) {
    if (load->n_beside == 0) return;
    log_info("%s: the files beside it add %d token%s that it does not have, as in transformers: \"%s\" has id %d%s",
            load->path, load->n_beside, str_plural(load->n_beside), load->first_beside,
            tokenizer_id(load->t, load->first_beside), load->n_beside > 1 ? ", and so on" : "");
}

// Removes the tokens that were dropped, and indexes the names of the others.
static void keep_added(tokenizer *t) {
    int n = 0;
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].n) t->added[n++] = t->added[i];
    t->n_added = n;
    memset(t->added_slots, 0, sizeof *t->added_slots * (t->added_mask + 1));
    for (int i = 0; i < n; i++)
        add_name(t, &t->added[i]);
}

drv_status load_added(loader *load, const json_t *list, const json_t *beside) {
    tokenizer *tok = load->t;
    const size_t n_listed = json_array_size(list) + json_array_size(beside);
    tok->added = ARENA_ARRAY(load->a, added_token, n_listed + 1);
    tok->added_mask = table_mask((int64_t)n_listed);
    tok->added_slots = ARENA_ARRAY(load->a, added_token *, tok->added_mask + 1);
    int32_t *same_id = ARENA_ARRAY(load->a, int32_t,
            (size_t)tok->n_vocab + (size_t)tok->n_entries + n_listed + 1);
    DRV_TRY(read_all_added(load, list, beside, same_id));
    keep_added(tok);
    if (load->n_other_ids > 1)
        log_warn("%s: %d more added tokens have other ids than in the file", load->path,
                load->n_other_ids - 1);
    tok->is_special = ARENA_ARRAY(load->a, bool, tok->n_vocab + 1);
    tok->decoded = ARENA_ARRAY(load->a, token_bytes, tok->n_vocab + 1);
    const token_bytes *from = tok->decodes_keys ? load->keys : tok->entries;
    memcpy(tok->decoded, from, sizeof *tok->decoded * (size_t)tok->n_ids);
    for (int k = 0; k < tok->n_added; k++) {
        const added_token *token = &tok->added[k];
        tok->is_special[token->id] |= token->special;
        tok->decoded[token->id] = decoded_added(load, token);
    }
    index_added(load, false, &tok->raw);
    index_added(load, true, &tok->normalized);
    tell_beside(load);
    return DRV_OK;
}

void load_joins(loader *l) {
    tokenizer *t = l->t;
    if (!t->all_bytes || l->merges_bytes || t->ignore_merges) return;
    byte_joins *j = ARENA_NEW(l->a, byte_joins);
    for (int x = 0; x < 256; x++)
        j->row[x][2] = UINT64_MAX; // do not cut inside a character
    for (int32_t entry = 0; entry < t->n_ids + t->n_aliases; entry++)
        for (int i = 0; i + 1 < t->entries[entry].n; i++) {
            const unsigned char x = t->entries[entry].p[i], y = t->entries[entry].p[i + 1];
            j->row[x][y >> 6] |= 1ull << (y & 63);
        }
    t->rule[t->n_rules++] = (split_rule){.kind = SPLIT_JOINS, .joins = j};
    for (int x = 'A'; x <= 'z'; x++) // see split_cut
        if ((x <= 'Z' || x >= 'a') && (j->row[x][0] >> ' ' & 1)) t->can_cut = false;
}
