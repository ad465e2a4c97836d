// Training from texts to files: train_words.c counts, train_merges.c merges, and bpe_files.c writes
// the result.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "tok/bpe_files.h"
#include "tok/bpe_trainer.h"
#include "tok/train_merges.h"
#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

enum { BESIDE_BYTES = 48 << 20 }; // the program itself, and the batches of text being counted

struct bpe_trainer {
    bpe_trainer_opts o;
    split_rule rule;
    word_counter *counter;
};

bpe_trainer *bpe_trainer_new(const bpe_trainer_opts *o) {
    bpe_trainer *t = mem_alloc(sizeof *t);
    *t = (bpe_trainer){.o = *o};
    if (!t->o.pattern) t->o.pattern = split_pattern_gpt2;
    if (!t->o.memory) t->o.memory = BPE_TRAINER_MEMORY;
    DRV_ASSERT(split_rule_for("pattern", t->o.pattern, &t->rule) == DRV_OK, "%s", drv_message());
    split_rule_speed_up(&t->rule);
    t->counter =
            word_counter_new(t->o.memory - BESIDE_BYTES, BPE_BYTES_PER_WORD, BPE_BYTES_PER_BYTE);
    return t;
}

void bpe_trainer_free(bpe_trainer *t) {
    if (!t) return;
    word_counter_free(t->counter);
    split_rule_free(&t->rule);
    free(t);
}

typedef struct count_job {
    word_counter *counter;
    int thread;
} count_job;

static void count_words(void *ctx, const unsigned char *const *bounds, int n) {
    const count_job *j = ctx;
    word_counter_add(j->counter, j->thread, bounds, n);
}

void bpe_trainer_add(bpe_trainer *t, const text_piece *p, int thread) {
    count_job j = {t->counter, thread};
    split_text(&t->rule, 1, (const unsigned char *)p->p, p->n, count_words, &j);
}

drv_status bpe_trainer_relieve(bpe_trainer *t) {
    return word_counter_relieve(t->counter);
}

static int by_char(const void *x, const void *y) {
    uint32_t a = byte_char(*(const int *)x), b = byte_char(*(const int *)y);
    return a < b ? -1 : a > b;
}

// Adds a special token's symbol. If its name consists of stand-ins, it is also the symbol of those
// bytes, as in Hugging Face's trainer, whose symbols are texts. Merging never makes any other.
static void add_special(bpe_merges *m, const char *name, int32_t byte_symbol[256]) {
    bpe_symbol symbol = {m->text.n, 0};
    for (const unsigned char *p = (const unsigned char *)name; *p;) {
        const int byte = char_byte(utf8_next(&p));
        if (byte < 0) {
            m->text.n = symbol.at;
            break;
        }
        str_add(&m->text, &(char){(char)byte}, 1);
    }
    symbol.n = m->text.n - symbol.at;
    if (symbol.n == 1) byte_symbol[(unsigned char)m->text.p[symbol.at]] = (int32_t)m->n_symbols;
    m->symbols[m->n_symbols++] = symbol;
}

// Makes the first symbols: special tokens, then the bytes in the order of their stand-ins.
static void first_symbols(const bpe_trainer *t, bpe_merges *m, int32_t byte_symbol[256]) {
    int bytes[256];
    m->symbols = mem_alloc(sizeof *m->symbols * (size_t)t->o.vocab_size);
    for (int b = 0; b < 256; b++) {
        bytes[b] = b;
        byte_symbol[b] = -1;
    }
    for (int i = 0; i < t->o.n_specials; i++)
        add_special(m, t->o.specials[i], byte_symbol);
    qsort(bytes, 256, sizeof *bytes, by_char);
    for (int i = 0; i < 256; i++) {
        if (byte_symbol[bytes[i]] >= 0) continue;
        byte_symbol[bytes[i]] = (int32_t)m->n_symbols;
        m->symbols[m->n_symbols++] = (bpe_symbol){m->text.n, 1};
        str_add(&m->text, &(char){(char)bytes[i]}, 1);
    }
}

// --- the files
// Returns the symbols' texts in the alphabet of byte-level vocabularies.
static str_view *symbol_names(arena *a, const bpe_trainer_opts *o, const bpe_merges *m) {
    str_view *names = ARENA_ARRAY(a, str_view, m->n_symbols);
    for (int i = 0; i < o->n_specials; i++)
        names[i] = (str_view){o->specials[i], strlen(o->specials[i])};
    for (int64_t i = o->n_specials; i < m->n_symbols; i++)
        names[i] = byte_names(a, m->text.p + m->symbols[i].at, m->symbols[i].n);
    return names;
}

// Writes special_tokens_map.json, which older versions of transformers read.
static drv_status write_roles(arena *a, const bpe_trainer_opts *o, const char *dir) {
    json_t *map = json_object();
    for (token_role role = 0; role < N_TOKEN_ROLES; role++)
        if (o->role[role])
            json_object_set_new(map, token_role_key(role), json_string(o->role[role]));
    return json_write_file(path_join(a, dir, "special_tokens_map.json"), map);
}

static drv_status write_files(const bpe_trainer *trainer, const bpe_merges *merges,
        const char *dir) {
    const bpe_trainer_opts *opts = &trainer->o;
    arena *a = arena_new("tokenizer files");
    int64_t role[N_TOKEN_ROLES];
    for (token_role i = 0; i < N_TOKEN_ROLES; i++)
        role[i] = opts->role[i] ? str_index(opts->role[i], opts->specials, opts->n_specials) : -1;
    bpe_lists lists = {.words = {.pattern =
                                         trainer->rule.kind == SPLIT_GPT2 ? NULL : opts->pattern},
            .tokens = symbol_names(a, opts, merges),
            .types = ARENA_ARRAY(a, uint8_t, merges->n_symbols),
            .n = merges->n_symbols,
            .merges = merges->merges,
            .n_merges = merges->n_merges,
            .bos = role[ROLE_BOS],
            .eos = role[ROLE_EOS],
            .unk = role[ROLE_UNK],
            .pad = role[ROLE_PAD],
            .add_bos = opts->begin_with_bos};
    for (int64_t i = 0; i < merges->n_symbols; i++)
        lists.types[i] = i < opts->n_specials ? PIECE_CONTROL : PIECE_NORMAL;
    drv_status status = bpe_files_write(&lists, dir);
    if (status == DRV_OK) status = write_roles(a, opts, dir);
    arena_free(a);
    return status;
}

drv_status bpe_trainer_finish(bpe_trainer *trainer, const char *dir, int64_t *n_vocab) {
    const int64_t first = trainer->o.n_specials + 256;
    if (trainer->o.vocab_size < first)
        return drv_fail(DRV_E_USAGE,
                "vocab size is %lld, expected at least %lld: 256 bytes and %d specials",
                (long long)trainer->o.vocab_size, (long long)first, trainer->o.n_specials);
    word_counts counts;
    drv_status status = word_counter_finish(trainer->counter, &counts);
    if (status == DRV_OK && counts.n == 0)
        status = drv_fail(DRV_E_DATA, "no text to train a tokenizer on");
    if (status != DRV_OK) {
        word_counts_free(&counts);
        return status;
    }
    if (counts.left_out)
        log_warn("%lld of %lld distinct words are left out: words that occur fewer than %lld times do not fit into %s",
                (long long)counts.left_out, (long long)(counts.n + counts.left_out),
                (long long)counts.least, str_bytes((double)trainer->o.memory));
    bpe_merges m = {0};
    int32_t byte_symbol[256];
    first_symbols(trainer, &m, byte_symbol);
    bpe_merge(&counts, byte_symbol, trainer->o.vocab_size, trainer->o.min_frequency, &m);
    *n_vocab = m.n_symbols;
    status = write_files(trainer, &m, dir);
    bpe_merges_free(&m);
    return status;
}
