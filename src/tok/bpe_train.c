// Training of byte-level BPE (arXiv:1508.07909, algorithm 1; byte-level as in GPT-2): words are
// counted, then the most frequent pair of symbols is merged again and again. Ties go to the smaller
// pair, as in Hugging Face's BpeTrainer, so the merges are the same.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "tok/tokenizer.h"
#include "tok/unicode.h"

typedef struct word { // symbols at symbols[first .. first + n)
    int64_t first, count;
    int32_t n;
} word;

typedef struct counted { // slot of the word table
    int64_t text, count; // offset in `text`
    int32_t n;           // 0: empty
} counted;

typedef struct pair_info {
    uint64_t pair; // UINT64_MAX: empty
    int64_t count;
    int32_t *words; // that may hold it
    int64_t n_words, cap_words;
} pair_info;

typedef struct queued {
    int64_t count;
    uint64_t pair;
} queued;

struct trainer {
    tokenizer_train_opts o;
    split_rule rule;
    counted *table;
    int64_t n_table, cap_table;
    str text;
    word *words;
    int64_t n_words;
    int32_t *symbols;
    pair_info *pairs;
    int64_t n_pairs, cap_pairs;
    queued *heap;
    int64_t n_heap, cap_heap;
    int32_t (*merges)[2];
    int64_t n_merges;
    int32_t byte_symbol[256]; // ids of the alphabet: by code point of the stand-in
};

trainer *trainer_new(const tokenizer_train_opts *o) {
    trainer *t = calloc(1, sizeof *t);
    DRV_ASSERT(t, "out of memory");
    t->o = *o;
    if (!t->o.pattern) t->o.pattern = split_pattern_gpt2;
    DRV_ASSERT(split_rule_for("pattern", t->o.pattern, &t->rule) == DRV_OK, "%s", drv_message());
    return t;
}

void trainer_free(trainer *t) {
    if (!t) return;
    for (int64_t i = 0; i < t->cap_pairs; i++)
        free(t->pairs[i].words);
    free(t->table);
    free(t->words);
    free(t->symbols);
    free(t->pairs);
    free(t->heap);
    free(t->merges);
    str_free(&t->text);
    split_rule_free(&t->rule);
    free(t);
}

// --- counting
// -----------------------------------------------------------------------------------------
static counted *count_slot(trainer *t, const unsigned char *s, size_t n) {
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ s[i]) * 0x100000001B3ull;
    for (h ^= h >> 32;; h++) {
        counted *c = &t->table[h & (uint64_t)(t->cap_table - 1)];
        if (!c->n || ((size_t)c->n == n && memcmp(t->text.p + c->text, s, n) == 0)) return c;
    }
}

static void grow_words(trainer *t) {
    if (2 * t->n_table < t->cap_table) return;
    counted *old = t->table;
    int64_t n = t->cap_table;
    t->cap_table = n ? 2 * n : 1 << 16;
    t->table = calloc((size_t)t->cap_table, sizeof *t->table);
    DRV_ASSERT(t->table, "out of memory");
    for (int64_t i = 0; i < n; i++)
        if (old[i].n)
            *count_slot(t, (unsigned char *)t->text.p + old[i].text, (size_t)old[i].n) = old[i];
    free(old);
}

static void count_words(void *ctx, const text_word *w, int n_words) {
    trainer *t = ctx;
    for (int i = 0; i < n_words; i++) {
        grow_words(t);
        counted *c = count_slot(t, w[i].s, w[i].n);
        if (!c->n) {
            *c = (counted){(int64_t)t->text.n, 0, (int32_t)w[i].n};
            str_add(&t->text, w[i].s, w[i].n);
            t->n_table++;
        }
        c->count++;
    }
}

void trainer_add(trainer *t, const void *text, size_t n) {
    split_text(&t->rule, 1, text, n, count_words, t);
}

// --- pairs
// --------------------------------------------------------------------------------------------
static pair_info *pair_slot(trainer *t, uint64_t pair) {
    uint64_t h = pair * 0x9E3779B97F4A7C15ull;
    for (h ^= h >> 32;; h++) {
        pair_info *p = &t->pairs[h & (uint64_t)(t->cap_pairs - 1)];
        if (p->pair == pair || p->pair == UINT64_MAX) return p;
    }
}

static pair_info *pair_of(trainer *t, int32_t a, int32_t b) {
    if (2 * t->n_pairs >= t->cap_pairs) {
        pair_info *old = t->pairs;
        int64_t n = t->cap_pairs;
        t->cap_pairs = n ? 2 * n : 1 << 16;
        t->pairs = mem_alloc(sizeof *t->pairs * (size_t)t->cap_pairs);
        for (int64_t i = 0; i < t->cap_pairs; i++)
            t->pairs[i] = (pair_info){.pair = UINT64_MAX};
        for (int64_t i = 0; i < n; i++)
            if (old[i].pair != UINT64_MAX) *pair_slot(t, old[i].pair) = old[i];
        free(old);
    }
    uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    pair_info *p = pair_slot(t, pair);
    if (p->pair == UINT64_MAX) {
        p->pair = pair;
        t->n_pairs++;
    }
    return p;
}

static bool better(const queued *x, const queued *y) {
    return x->count != y->count ? x->count > y->count : x->pair < y->pair;
}

static void push(trainer *t, queued q) {
    MEM_GROW(t->heap, t->n_heap, t->cap_heap);
    int64_t i = t->n_heap++;
    for (; i > 0 && better(&q, &t->heap[(i - 1) / 2]); i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = q;
}

static queued pop(trainer *t) {
    queued top = t->heap[0], q = t->heap[--t->n_heap];
    int64_t i = 0;
    for (int64_t k; (k = 2 * i + 1) < t->n_heap; i = k) {
        if (k + 1 < t->n_heap && better(&t->heap[k + 1], &t->heap[k])) k++;
        if (!better(&t->heap[k], &q)) break;
        t->heap[i] = t->heap[k];
    }
    t->heap[i] = q;
    return top;
}

// Adds to a pair's count; the word is noted when it gains the pair.
static void change(trainer *t, int32_t a, int32_t b, int64_t by, int32_t w) {
    pair_info *p = pair_of(t, a, b);
    p->count += by;
    if (by > 0) {
        if (!p->n_words || p->words[p->n_words - 1] != w) {
            MEM_GROW(p->words, p->n_words, p->cap_words);
            p->words[p->n_words++] = w;
        }
        push(t, (queued){p->count, p->pair});
    }
}

static int by_bytes(const void *x, const void *y, void *ctx) {
    const counted *a = x, *b = y;
    const trainer *t = ctx;
    int n = a->n < b->n ? a->n : b->n,
        c = memcmp(t->text.p + a->text, t->text.p + b->text, (size_t)n);
    return c ? c : a->n - b->n;
}

static void list_words(trainer *t) {
    counted *list = mem_alloc(sizeof *list * (size_t)(t->n_table + 1));
    int64_t n = 0, total = 0;
    for (int64_t i = 0; i < t->cap_table; i++)
        if (t->table[i].n) {
            list[n++] = t->table[i];
            total += t->table[i].n;
        }
    qsort_r(list, (size_t)n, sizeof *list, by_bytes, t); // an order that no hash decides
    t->words = mem_alloc(sizeof *t->words * (size_t)(n + 1));
    t->symbols = mem_alloc(sizeof *t->symbols * (size_t)(total + 1));
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        t->words[i] = (word){at, list[i].count, list[i].n};
        for (int32_t k = 0; k < list[i].n; k++)
            t->symbols[at++] = t->byte_symbol[(unsigned char)t->text.p[list[i].text + k]];
    }
    t->n_words = n;
    free(list);
}

static void merge_in_word(trainer *t, int32_t w, int32_t a, int32_t b, int32_t merged) {
    word *x = &t->words[w];
    int32_t *s = t->symbols + x->first, n = 0;
    for (int32_t i = 0; i < x->n; i++) {
        if (i + 1 < x->n && s[i] == a && s[i + 1] == b) {
            if (n > 0) {
                change(t, s[n - 1], a, -x->count, w);
                change(t, s[n - 1], merged, x->count, w);
            }
            if (i + 2 < x->n) {
                change(t, b, s[i + 2], -x->count, w);
                // A following "a b" will be merged too; its left neighbour is then `merged`.
                change(t, merged, s[i + 2], x->count, w);
            }
            s[n++] = merged;
            i++;
        } else {
            s[n++] = s[i];
        }
    }
    x->n = n;
}

static void train(trainer *t, int64_t first_id) {
    int64_t want = t->o.vocab_size - first_id;
    t->merges = mem_alloc(sizeof *t->merges * (size_t)(want > 0 ? want : 1));
    for (int64_t w = 0; w < t->n_words; w++)
        for (int32_t i = 0; i + 1 < t->words[w].n; i++) {
            const int32_t *s = t->symbols + t->words[w].first + i;
            change(t, s[0], s[1], t->words[w].count, (int32_t)w);
        }
    while (t->n_merges < want && t->n_heap) {
        queued q = pop(t);
        pair_info *p = pair_slot(t, q.pair);
        if (p->count != q.count) { // stale
            if (p->count > 0 && p->count < q.count) push(t, (queued){p->count, q.pair});
            continue;
        }
        if (p->count < t->o.min_frequency || p->count < 1) break;
        int32_t a = (int32_t)(q.pair >> 32), b = (int32_t)q.pair,
                merged = (int32_t)(first_id + t->n_merges);
        int32_t *words = p->words;
        int64_t n_words = p->n_words;
        p->words = NULL;
        p->n_words = p->cap_words = 0;
        for (int64_t i = 0; i < n_words; i++)
            merge_in_word(t, words[i], a, b, merged);
        free(words);
        pair_slot(t, q.pair)->count = 0;
        t->merges[t->n_merges][0] = a;
        t->merges[t->n_merges++][1] = b;
        progress("merges %lld of %lld", (long long)t->n_merges, (long long)want);
    }
    progress_end();
}

// --- the files
// ----------------------------------------------------------------------------------------
static json_t *added_token_json(int64_t id, const char *text) {
    return json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", text,
            "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1);
}

static json_t *byte_level_json(bool use_regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
            "trim_offsets", 1, "use_regex", use_regex);
}

static json_t *pre_tokenizer_json(const trainer *t) {
    if (t->rule.kind == SPLIT_GPT2) return byte_level_json(true);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers",
            "type", "Split", "pattern", "Regex", t->o.pattern, "behavior", "Isolated", "invert", 0,
            byte_level_json(false));
}

static drv_status write_files(trainer *t, const char *dir, char **names, int64_t n_names) {
    json_t *vocab = json_object(), *merges = json_array(), *added = json_array();
    for (int64_t i = 0; i < n_names; i++)
        json_object_set_new(vocab, names[i], json_integer(i));
    for (int64_t i = 0; i < t->n_merges; i++)
        json_array_append_new(
                merges, json_pack("[s,s]", names[t->merges[i][0]], names[t->merges[i][1]]));
    for (int i = 0; i < t->o.n_specials; i++)
        json_array_append_new(added, added_token_json(i, t->o.specials[i]));
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE",
            "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
            0, "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
    json_t *root = json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:n, s:o, s:o}", "version", "1.0",
            "truncation", "padding", "added_tokens", added, "normalizer", "pre_tokenizer",
            pre_tokenizer_json(t), "post_processor", "decoder", byte_level_json(true), "model",
            model);
    DRV_ASSERT(root, "tokenizer.json could not be built");
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    DRV_TRY(json_write_file(path, root));
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    json_t *config = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast");
    if (t->o.n_specials) {
        json_object_set_new(config, "bos_token", json_string(t->o.specials[0]));
        json_object_set_new(config, "eos_token", json_string(t->o.specials[0]));
    }
    return json_write_file(path, config);
}

static int by_char(const void *x, const void *y) {
    uint32_t a = byte_char(*(const int *)x), b = byte_char(*(const int *)y);
    return a < b ? -1 : a > b;
}

drv_status trainer_finish(trainer *t, const char *dir, int64_t *n_vocab) {
    const int64_t first = t->o.n_specials + 256;
    if (t->o.vocab_size < first)
        return drv_fail(DRV_E_USAGE,
                "vocab size is %lld, expected at least %lld: 256 bytes and %d specials",
                (long long)t->o.vocab_size, (long long)first, t->o.n_specials);
    if (t->n_table == 0) return drv_fail(DRV_E_DATA, "no text to train a tokenizer on");
    int bytes[256];
    for (int b = 0; b < 256; b++)
        bytes[b] = b;
    qsort(bytes, 256, sizeof *bytes, by_char);
    for (int i = 0; i < 256; i++)
        t->byte_symbol[bytes[i]] = t->o.n_specials + i;
    list_words(t);
    train(t, first);
    arena *a = arena_new("tokenizer files");
    *n_vocab = first + t->n_merges;
    char **names = ARENA_ARRAY(a, char *, *n_vocab);
    for (int i = 0; i < t->o.n_specials; i++)
        names[i] = arena_strdup(a, t->o.specials[i]);
    for (int i = 0; i < 256; i++) {
        unsigned char c[5] = {0};
        utf8_put(byte_char(bytes[i]), c);
        names[t->o.n_specials + i] = arena_strdup(a, (char *)c);
    }
    for (int64_t i = 0; i < t->n_merges; i++)
        names[first + i] = arena_printf(a, "%s%s", names[t->merges[i][0]], names[t->merges[i][1]]);
    drv_status s = dir_make(dir);
    if (s == DRV_OK) s = write_files(t, dir, names, *n_vocab);
    arena_free(a);
    return s;
}
