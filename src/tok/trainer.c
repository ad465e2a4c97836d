// Training a byte-level BPE tokenizer: words are counted, then merged, then written as the files
// that Hugging Face loads.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "tok/bpe_train.h"
#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

enum { BESIDE_BYTES = 48 << 20 }; // the program itself, and the batches of text that are counted

struct trainer {
    tokenizer_train_opts o;
    split_rule rule;
    word_counter *counter;
};

trainer *trainer_new(const tokenizer_train_opts *o) {
    trainer *t = mem_alloc(sizeof *t);
    *t = (trainer){.o = *o};
    if (!t->o.pattern) t->o.pattern = split_pattern_gpt2;
    if (!t->o.memory) t->o.memory = TRAINER_MEMORY;
    DRV_ASSERT(split_rule_for("pattern", t->o.pattern, &t->rule) == DRV_OK, "%s", drv_message());
    t->counter = word_counter_new(t->o.memory - BESIDE_BYTES, BPE_BYTES_A_WORD, BPE_BYTES_A_BYTE);
    return t;
}

void trainer_free(trainer *t) {
    if (!t) return;
    word_counter_free(t->counter);
    split_rule_free(&t->rule);
    free(t);
}

typedef struct count_job {
    word_counter *counter;
    int thread;
} count_job;

static void count_words(void *ctx, const text_word *w, int n) {
    const count_job *j = ctx;
    word_counter_add(j->counter, j->thread, w, n);
}

void trainer_add(trainer *t, const text_piece *p, int thread) {
    count_job j = {t->counter, thread};
    split_text(&t->rule, 1, (const unsigned char *)p->p, p->n, count_words, &j);
}

drv_status trainer_relieve(trainer *t) {
    return word_counter_relieve(t->counter);
}

// --- the files
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

static drv_status write_files(const trainer *t, const char *dir, char **names,
        const bpe_merges *m) {
    json_t *vocab = json_object(), *merges = json_array(), *added = json_array();
    for (int64_t i = 0; i < m->n_symbols; i++)
        json_object_set_new(vocab, names[i], json_integer(i));
    for (int64_t i = 0; i < m->n_merges; i++)
        json_array_append_new(merges,
                json_pack("[s,s]", names[m->merges[i][0]], names[m->merges[i][1]]));
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

// The symbols' texts in the alphabet of byte-level vocabularies.
static char **symbol_names(arena *a, const trainer *t, const bpe_merges *m) {
    char **names = ARENA_ARRAY(a, char *, m->n_symbols);
    str name = {0};
    for (int64_t i = 0; i < m->n_symbols; i++) {
        const bpe_symbol *s = &m->symbols[i];
        str_clear(&name);
        for (size_t k = 0; k < s->n; k++) {
            unsigned char c[4];
            const int n = utf8_put(byte_char((unsigned char)m->text.p[s->at + k]), c);
            str_add(&name, c, (size_t)n);
        }
        names[i] = i < t->o.n_specials ? arena_strdup(a, t->o.specials[i])
                                       : arena_strndup(a, name.p, name.n);
    }
    str_free(&name);
    return names;
}

// Specials, then the bytes in the order of their stand-ins.
static void first_symbols(const trainer *t, bpe_merges *m, int32_t byte_symbol[256]) {
    m->symbols = mem_alloc(sizeof *m->symbols * (size_t)t->o.vocab_size);
    for (int i = 0; i < t->o.n_specials; i++) {
        const char *s = t->o.specials[i];
        bool same = true; // as bytes and as a text of stand-ins
        for (const char *p = s; *p; p++)
            same &= *p >= '!' && *p <= '~';
        m->symbols[m->n_symbols++] = (bpe_symbol){m->text.n, same ? strlen(s) : 0};
        if (same) str_puts(&m->text, s);
    }
    int bytes[256];
    for (int b = 0; b < 256; b++)
        bytes[b] = b;
    qsort(bytes, 256, sizeof *bytes, by_char);
    for (int i = 0; i < 256; i++) {
        byte_symbol[bytes[i]] = (int32_t)m->n_symbols;
        m->symbols[m->n_symbols++] = (bpe_symbol){m->text.n, 1};
        str_add(&m->text, &(char){(char)bytes[i]}, 1);
    }
}

drv_status trainer_finish(trainer *t, const char *dir, int64_t *n_vocab) {
    const int64_t first = t->o.n_specials + 256;
    if (t->o.vocab_size < first)
        return drv_fail(DRV_E_USAGE,
                "vocab size is %lld, expected at least %lld: 256 bytes and %d specials",
                (long long)t->o.vocab_size, (long long)first, t->o.n_specials);
    word_counts counts;
    drv_status s = word_counter_finish(t->counter, &counts);
    if (s == DRV_OK && counts.n == 0) s = drv_fail(DRV_E_DATA, "no text to train a tokenizer on");
    if (s != DRV_OK) {
        word_counts_free(&counts);
        return s;
    }
    if (counts.left_out)
        log_warn("%lld of %lld distinct words are left out: those that occur less than %lld times "
                 "do not fit into %s",
                (long long)counts.left_out, (long long)(counts.n + counts.left_out),
                (long long)counts.least, str_bytes((double)t->o.memory));
    bpe_merges m = {0};
    int32_t byte_symbol[256];
    first_symbols(t, &m, byte_symbol);
    bpe_merge(&counts, byte_symbol, t->o.vocab_size, t->o.min_frequency, &m);
    arena *a = arena_new("tokenizer files");
    *n_vocab = m.n_symbols;
    s = dir_make(dir);
    if (s == DRV_OK) s = write_files(t, dir, symbol_names(a, t, &m), &m);
    arena_free(a);
    bpe_merges_free(&m);
    return s;
}
