// Counts words in tables that are spilled as sorted files.
#include "tok/train_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/heap.h"
#include "base/log.h"
#include "base/parallel.h"

typedef struct count_table { // open addressing: slots hold index + 1 in `words`
    counted_word *words;
    uint32_t *slots;
    int64_t n, cap;
    uint64_t n_slots;
    str text;
} count_table;

struct word_counter {
    count_table *tables; // by thread
    int n_tables;
    int64_t memory, bytes_per_word, bytes_per_byte;
    FILE **runs; // spilled files: words in bytewise order
    int n_runs, cap_runs;
};

enum { MIN_SLOTS = 1 << 12 };

static void table_init(count_table *t) {
    *t = (count_table){.n_slots = MIN_SLOTS};
    t->slots = mem_zeroed(sizeof *t->slots * (size_t)t->n_slots);
}

static void table_free(count_table *t) {
    free(t->words);
    free(t->slots);
    str_free(&t->text);
    *t = (count_table){0};
}

word_counter *word_counter_new(int64_t memory, int64_t bytes_per_word, int64_t bytes_per_byte) {
    word_counter *c = mem_alloc(sizeof *c);
    *c = (word_counter){.n_tables = par_threads(),
            .memory = memory,
            .bytes_per_word = bytes_per_word,
            .bytes_per_byte = bytes_per_byte};
    c->tables = mem_alloc(sizeof *c->tables * (size_t)c->n_tables);
    for (int i = 0; i < c->n_tables; i++)
        table_init(&c->tables[i]);
    return c;
}

void word_counter_free(word_counter *c) {
    if (!c) return;
    for (int i = 0; i < c->n_tables; i++)
        table_free(&c->tables[i]);
    for (int i = 0; i < c->n_runs; i++)
        fclose(c->runs[i]);
    free(c->tables);
    free(c->runs);
    free(c);
}

void word_counts_free(word_counts *w) {
    free(w->words);
    str_free(&w->text);
    *w = (word_counts){0};
}

// --- counting
static void grow_slots(count_table *t) {
    free(t->slots);
    t->n_slots *= 2;
    t->slots = mem_zeroed(sizeof *t->slots * (size_t)t->n_slots);
    for (int64_t i = 0; i < t->n; i++) {
        uint64_t at = t->words[i].hash;
        while (t->slots[at & (t->n_slots - 1)])
            at++;
        t->slots[at & (t->n_slots - 1)] = (uint32_t)i + 1;
    }
}

static void count(count_table *t, const unsigned char *s, uint32_t n, uint32_t hash, int64_t by) {
    uint64_t at = hash;
    for (uint32_t i; (i = t->slots[at & (t->n_slots - 1)]); at++) {
        counted_word *w = &t->words[i - 1];
        if (w->hash == hash && w->n == n && memcmp(t->text.p + w->at, s, n) == 0) {
            w->count += by;
            return;
        }
    }
    MEM_GROW(t->words, t->n, t->cap);
    t->words[t->n++] = (counted_word){t->text.n, by, n, hash};
    t->slots[at & (t->n_slots - 1)] = (uint32_t)t->n;
    str_add(&t->text, s, n);
    if (2 * (uint64_t)t->n > t->n_slots) grow_slots(t);
}

void word_counter_add(word_counter *c, int thread, const unsigned char *const *bounds, int n) {
    count_table *t = &c->tables[thread];
    uint32_t hashes[SPLIT_BATCH];
    for (int i = 0; i < n; i++) {
        hashes[i] = (uint32_t)XXH3_64bits(bounds[i], (size_t)(bounds[i + 1] - bounds[i]));
        __builtin_prefetch(&t->slots[hashes[i] & (t->n_slots - 1)]);
    }
    for (int i = 0; i < n; i++)
        count(t, bounds[i], (uint32_t)(bounds[i + 1] - bounds[i]), hashes[i], 1);
}

// --- spilling
static int by_bytes(const void *x, const void *y, void *text) {
    const counted_word *a = x, *b = y;
    const char *p = text;
    const uint32_t n = a->n < b->n ? a->n : b->n;
    const int c = memcmp(p + a->at, p + b->at, n);
    return c ? c : (a->n > b->n) - (a->n < b->n);
}

static void sort_table(void *arg, int64_t i) {
    count_table *t = &((word_counter *)arg)->tables[i];
    if (t->n) qsort_r(t->words, (size_t)t->n, sizeof *t->words, by_bytes, t->text.p);
}

static drv_status io_failed(void) {
    return drv_fail(DRV_E_IO, "could not write word counts to a temporary file in /tmp: %s",
            strerror(errno));
}

static drv_status spill(word_counter *c) {
    if (!c->n_runs) log_info("word counts fill their memory: sorted files of them go to /tmp");
    par_for(c->n_tables, sort_table, c);
    for (int i = 0; i < c->n_tables; i++) {
        count_table *t = &c->tables[i];
        if (t->n == 0) continue;
        FILE *f = tmpfile();
        if (!f) return io_failed();
        MEM_GROW(c->runs, c->n_runs, c->cap_runs);
        c->runs[c->n_runs++] = f;
        for (int64_t k = 0; k < t->n; k++) {
            fwrite(&t->words[k].n, sizeof t->words[k].n, 1, f);
            fwrite(&t->words[k].count, sizeof t->words[k].count, 1, f);
            fwrite(t->text.p + t->words[k].at, 1, t->words[k].n, f);
        }
        if (fflush(f) != 0 || ferror(f)) return io_failed();
        table_free(t);
        table_init(t);
    }
    return DRV_OK;
}

// Returns the bytes of all tables, which may double as they grow.
static int64_t tables_bytes(const word_counter *c) {
    int64_t sum = 0;
    for (int i = 0; i < c->n_tables; i++) {
        const count_table *t = &c->tables[i];
        sum += t->cap * (int64_t)sizeof *t->words + (int64_t)(t->n_slots * sizeof *t->slots) +
               (int64_t)t->text.cap;
    }
    return sum;
}

drv_status word_counter_relieve(word_counter *c) {
    return 2 * tables_bytes(c) > c->memory ? spill(c) : DRV_OK;
}

// --- the end
typedef struct run_head { // the next word of a spilled file
    FILE *f;
    str word;
    int64_t count;
} run_head;

static drv_status read_head(run_head *h, bool *more) {
    uint32_t n;
    str_clear(&h->word);
    *more = fread(&n, sizeof n, 1, h->f) == 1;
    if (!*more) return ferror(h->f) ? io_failed() : DRV_OK;
    bool ok = fread(&h->count, sizeof h->count, 1, h->f) == 1;
    char piece[4096];
    while (ok && n) {
        const size_t k = n < sizeof piece ? n : sizeof piece;
        ok = fread(piece, 1, k, h->f) == k;
        str_add(&h->word, piece, k);
        n -= (uint32_t)k;
    }
    return ok ? DRV_OK : io_failed();
}

typedef run_head *head_ref;

static inline bool head_before(const head_ref *x, const head_ref *y) {
    const str *a = &(*x)->word, *b = &(*y)->word;
    const int order = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    return order ? order < 0 : a->n < b->n;
}

HEAP_DEFINE(heads, head_ref, head_before)

typedef void (*each_word)(void *ctx, const str *word, int64_t count);

// Calls `each` once for each distinct word of the spilled files, with the sum of its counts.
static drv_status merge_runs(word_counter *counter, each_word each, void *ctx) {
    run_head *heads = mem_alloc((size_t)counter->n_runs * sizeof *heads);
    head_ref *heap = mem_alloc((size_t)counter->n_runs * sizeof *heap);
    memset(heads, 0, (size_t)counter->n_runs * sizeof *heads);
    int n_heads = 0;
    bool more;
    drv_status status = DRV_OK;
    for (int i = 0; status == DRV_OK && i < counter->n_runs; i++) {
        heads[i].f = counter->runs[i];
        rewind(heads[i].f);
        status = read_head(&heads[i], &more);
        if (more) heads_push(heap, n_heads++, &heads[i]);
    }
    str word = {0};
    int64_t sum = 0;
    while (status == DRV_OK && n_heads) {
        run_head *h = heap[0];
        if (sum && (h->word.n != word.n || memcmp(h->word.p, word.p, word.n) != 0)) {
            each(ctx, &word, sum);
            sum = 0;
        }
        if (!sum) {
            str_clear(&word);
            str_add(&word, h->word.p, h->word.n);
        }
        sum += h->count;
        status = read_head(h, &more);
        if (more)
            heads_replace_first(heap, n_heads, h);
        else
            heads_pop(heap, n_heads--);
    }
    if (status == DRV_OK && sum) each(ctx, &word, sum);
    for (int i = 0; i < counter->n_runs; i++)
        str_free(&heads[i].word);
    str_free(&word);
    free(heads);
    free(heap);
    return status;
}

enum { MAX_RARE = 1 << 16 }; // words that occur this often are never left out

typedef struct sizes { // memory that words need, by how often they occur
    const word_counter *c;
    int64_t words[MAX_RARE + 1], bytes[MAX_RARE + 1];
} sizes;

static void add_size(sizes *z, size_t n, int64_t times) {
    const int64_t i = times < MAX_RARE ? times : MAX_RARE;
    z->words[i]++;
    z->bytes[i] += z->c->bytes_per_word + (int64_t)n * z->c->bytes_per_byte;
}

static void size_word(void *ctx, const str *word, int64_t times) {
    add_size(ctx, word->n, times);
}

static void take_word(void *ctx, const str *word, int64_t times) {
    word_counts *out = ctx;
    if (times < out->least) return;
    if ((out->n & (out->n - 1)) == 0)
        out->words =
                mem_realloc(out->words, sizeof *out->words * (size_t)(out->n ? 2 * out->n : 1));
    out->words[out->n++] = (counted_word){out->text.n, times, (uint32_t)word->n, 0};
    str_add(&out->text, word->p, word->n);
}

// Chooses out->least so that the words that occur so often fit; counts those that occur less often.
static void choose(sizes *z, word_counts *out) {
    int64_t sum = 0;
    out->least = MAX_RARE;
    sum = z->bytes[MAX_RARE];
    while (out->least > 1 && sum + z->bytes[out->least - 1] <= z->c->memory)
        sum += z->bytes[--out->least];
    for (int64_t i = 1; i < out->least; i++)
        out->left_out += z->words[i];
}

// Reads the spilled files twice: to find what fits, and to take the words.
static drv_status finish_spilled(word_counter *c, sizes *z, word_counts *out) {
    DRV_TRY(spill(c));
    DRV_TRY(merge_runs(c, size_word, z));
    choose(z, out);
    return merge_runs(c, take_word, out);
}

// Uses the tables alone: all words go into the first one, which becomes the result.
static void finish_in_memory(word_counter *c, sizes *z, word_counts *out) {
    count_table *all = &c->tables[0];
    for (int i = 1; i < c->n_tables; i++) {
        count_table *t = &c->tables[i];
        for (int64_t k = 0; k < t->n; k++)
            count(all, (unsigned char *)t->text.p + t->words[k].at, t->words[k].n, t->words[k].hash,
                    t->words[k].count);
        table_free(t);
    }
    for (int64_t k = 0; k < all->n; k++)
        add_size(z, all->words[k].n, all->words[k].count);
    choose(z, out);
    for (int64_t k = 0; k < all->n; k++)
        if (all->words[k].count >= out->least) all->words[out->n++] = all->words[k];
    out->words = all->words;
    out->text = all->text;
    all->words = NULL;
    all->text = (str){0};
}

drv_status word_counter_finish(word_counter *c, word_counts *out) {
    *out = (word_counts){.least = 1};
    sizes *z = mem_zeroed(sizeof *z);
    z->c = c;
    drv_status status = DRV_OK;
    if (c->n_runs)
        status = finish_spilled(c, z, out);
    else
        finish_in_memory(c, z, out);
    free(z);
    return status;
}
