// Encodes text: cuts out added tokens, normalises the rest, splits it into words, and gets the ids
// of the words from the cache or by merging.
#include <stdlib.h>
#include <string.h>

#include "tok/tokenizer_internal.h"
#include "tok/trace.h"
#include "tok/unicode.h"
#include "tok/word_cache.h"

enum {
    ROOM_AT_END = 2 * WORD_MANY_IDS * SPLIT_BATCH, // ids of the last batch, and of the template
    MIN_MEASURED = 1 << 14, // bytes; a shorter text does not change ids_per_byte
};

struct encoder {
    const tokenizer *t;
    word_cache *cache;
    str normal, spaced; // a normalised part; what Metaspace makes of it
    // about the piece being encoded
    const unsigned char *first; // where its text begins; NULL: not in this piece
    const unsigned char *end;   // of the part being split into words
    bool continues;             // the part began in the piece before
    double ids_per_byte;        // a little more than what the last texts took
    trace *trace;               // NULL: the caller does not ask where ids begin
    id_list out;                // copy of the caller's list while it grows, against false sharing
};

void id_list_add(id_list *l, int32_t id) {
    MEM_GROW(l->p, l->n, l->cap);
    l->p[l->n++] = id;
}

void id_list_reserve(id_list *l, int64_t more) {
    if (l->n + more <= l->cap) return;
    const int64_t doubled = 2 * l->cap;
    l->cap = l->n + more > doubled ? l->n + more : doubled;
    l->p = mem_realloc(l->p, sizeof *l->p * (size_t)l->cap);
}

void id_list_append(id_list *l, const int32_t *ids, int64_t n) {
    id_list_reserve(l, n);
    if (n) memcpy(l->p + l->n, ids, sizeof *ids * (size_t)n);
    l->n += n;
}

void id_list_free(id_list *l) {
    free(l->p);
    *l = (id_list){0};
}

encoder *encoder_new(const tokenizer *t) {
    encoder *e = mem_alloc_lines(sizeof *e);
    *e = (encoder){.t = t, .cache = word_cache_new(t), .ids_per_byte = 0.25};
    return e;
}

void encoder_free(encoder *e) {
    if (!e) return;
    word_cache_free(e->cache);
    str_free(&e->normal);
    str_free(&e->spaced);
    free(e);
}

static const added_token *added_at(const added_index *x, const unsigned char *s, size_t n) {
    const added_group *g = &x->by_byte[*s];
    if (n < (size_t)g->n_common || memcmp(g->p->text, s, (size_t)g->n_common) != 0) return NULL;
    for (int i = 0; i < g->n_lengths; i++) {
        const added_token *found =
                (size_t)g->lengths[i] <= n ? added_with_text(x, s, (size_t)g->lengths[i]) : NULL;
        if (found) return found;
    }
    return NULL;
}

// Returns the next offset at which an added token may begin; n: none.
static size_t next_added(const added_index *x, const unsigned char *s, size_t i, size_t n) {
    if (x->n_groups == 0) return n;
    if (x->n_groups == 1) {
        const unsigned char *p = memchr(s + i, x->first, n - i);
        return p ? (size_t)(p - s) : n;
    }
    while (i < n && !x->by_byte[s[i]].n)
        i++;
    return i;
}

// --- what an added token takes of the text beside it
static uint32_t point_before(const unsigned char *s, size_t i, size_t *n) {
    *n = 1;
    while (*n < i && (s[i - *n] & 0xC0) == 0x80)
        (*n)++;
    const unsigned char *p = s + i - *n;
    return utf8_next(&p);
}

static uint32_t point_at(const unsigned char *s, size_t *n) {
    const unsigned char *p = s;
    const uint32_t cp = utf8_next(&p);
    *n = (size_t)(p - s);
    return cp;
}

// Extends a match in [from, n) of s by the white space that the token takes; a space in normalised
// text of the sentencepiece style is U+2581, which is none. False: the token does not match here.
static bool match_added(const encoder *e, const added_index *x, const added_token *found,
        const unsigned char *s, size_t from, size_t n, size_t *begin, size_t *end) {
    const tokenizer *t = e->t;
    const bool marks = x == &t->normalized && t->space_mark && !t->metaspace;
    const uint8_t *classes = cp_table();
    size_t k;
    uint32_t cp;
    if (t->splits_special && t->is_special[found->id]) return false;
    if (found->single_word && ((*begin > 0 && cp_is_word(point_before(s, *begin, &k))) ||
                                      (*end < n && cp_is_word(point_at(s + *end, &k)))))
        return false;
    while (found->lstrip && *begin > from && (cp = point_before(s, *begin, &k), 1) &&
            (classes[cp] & CP_SPACE) && !(marks && cp == ' '))
        *begin -= k;
    while (found->rstrip && *end < n && (cp = point_at(s + *end, &k), 1) &&
            (classes[cp] & CP_SPACE) && !(marks && cp == ' '))
        *end += k;
    return true;
}

// Cuts out the added tokens, leftmost and longest first; calls `part` for the text between them.
static void cut_added(encoder *e, const added_index *x, const unsigned char *s, size_t n,
        void (*part)(encoder *e, const unsigned char *s, size_t n)) {
    size_t from = 0;
    for (size_t i = 0; (i = next_added(x, s, i, n)) < n;) {
        const added_token *d = added_at(x, s + i, n - i);
        if (!d) {
            i++;
            continue;
        }
        size_t begin = i, end = i + (size_t)d->n;
        i = end;
        if (!match_added(e, x, d, s, from, n, &begin, &end)) continue;
        if (d->lstrip && end <= from) continue; // the token before took all of it as white space
        if (begin > from) part(e, s + from, begin - from);
        id_list_add(&e->out, d->id);
        if (e->trace) trace_id(e->trace, s + begin);
        e->continues = false;
        from = end; // a token that begins in the white space taken still counts
    }
    if (n > from) part(e, s + from, n - from);
}

static void encode_pieces(encoder *e, const unsigned char *s, size_t n) {
    offset_list begins = {0};
    if (e->t->unigram)
        unigram_encode(e->t->unigram, s, n, &e->out, e->trace ? &begins : NULL);
    else
        piece_bpe_encode(e->t->piece_bpe, s, n, &e->out, e->trace ? &begins : NULL);
    for (int64_t i = 0; i < begins.n; i++)
        trace_id(e->trace, s + begins.p[i]);
    offset_list_free(&begins);
}

static void encode_batch_of_words(void *ctx, const unsigned char *const *bounds, int n) {
    encoder *e = ctx;
    if (e->t->unigram || e->t->piece_bpe) {
        for (int i = 0; i < n; i++)
            encode_pieces(e, bounds[i], (size_t)(bounds[i + 1] - bounds[i]));
        return;
    }
    if (!e->trace) {
        word_cache_encode(e->cache, bounds, n, e->end, &e->out);
        return;
    }
    for (int i = 0; i < n; i++) {
        const int64_t first = e->out.n;
        word_cache_encode(e->cache, bounds + i, 1, e->end, &e->out);
        trace_word(e->trace, bounds[i], bounds[i + 1], e->out.p + first, e->out.n - first);
    }
}

// Appends a word to the text that Metaspace makes.
static void add_spaced(encoder *self, const unsigned char *text, size_t n_bytes) {
    const tokenizer *tok = self->t;
    const bool marked = *text == ' ' || (n_bytes >= 3 && memcmp(text, SPACE_MARK, 3) == 0);
    const bool wanted =
            tok->prefix == PREFIX_UNLESS || (tok->prefix == PREFIX_FIRST && self->first == text);
    const bool prefixed = wanted && !marked && !self->continues;
    if (prefixed) str_add(&self->spaced, " ", 1);
    str_replace(&self->spaced, text, n_bytes, SPACE_MARK, " ");
    if (self->trace) trace_spaced_put(self->trace, text, n_bytes, prefixed);
}

// Appends the words that white space separates.
static void add_parted(encoder *self, const unsigned char *text, size_t n_bytes) {
    const unsigned char *word = text, *end = text + n_bytes;
    for (const unsigned char *p = text, *next = text; p < end; p = next) {
        if (!(cp_table()[utf8_next(&next)] & CP_SPACE)) continue;
        if (p > word) add_spaced(self, word, (size_t)(p - word));
        word = next;
    }
    if (end > word) add_spaced(self, word, (size_t)(end - word));
}

static void encode_words(encoder *self, const unsigned char *text, size_t n_bytes) {
    const tokenizer *tok = self->t;
    if (tok->metaspace) {
        str_clear(&self->spaced);
        if (self->trace) trace_spaced_begin(self->trace);
        (tok->parts_spaces ? add_parted : add_spaced)(self, text, n_bytes);
        if (self->trace) trace_spaced_end(self->trace, text + n_bytes, &self->spaced);
        text = (const unsigned char *)self->spaced.p;
        n_bytes = self->spaced.n;
    }
    self->continues = false;
    self->first = NULL;
    if (n_bytes == 0) return;
    self->end = text + n_bytes;
    split_text(tok->rule, tok->n_rules, text, n_bytes, encode_batch_of_words, self);
}

static void encode_part(encoder *e, const unsigned char *s, size_t n) {
    if (!tokenizer_normalizes(e->t)) { // no copy
        if (e->trace) trace_normal(e->trace, s, n, NULL);
        cut_added(e, &e->t->normalized, s, n, encode_words);
        return;
    }
    str_clear(&e->normal);
    const bool first = e->first == s;
    tokenizer_normalize(e->t, s, n, &e->normal);
    if (e->trace) trace_normal(e->trace, s, n, &e->normal);
    const unsigned char *p = (const unsigned char *)e->normal.p;
    n = e->normal.n;
    if (e->continues && e->t->prefix == PREFIX_ALWAYS) p++, n--;
    if (first) e->first = p;
    if (n) cut_added(e, &e->t->normalized, p, n, encode_words);
    e->continues = false;
    e->first = NULL;
}

void encoder_piece(encoder *e, const text_piece *p, bool specials, id_list *out) {
    const tokenizer *t = e->t;
    e->out = *out;
    // Room for all ids at once: growing copies the list and returns its old pages to the system.
    const int64_t n_before = e->out.n;
    id_list_reserve(&e->out, (int64_t)((double)p->n * e->ids_per_byte) + ROOM_AT_END);
    e->first = p->begins ? (const unsigned char *)p->p : NULL;
    e->continues = !p->begins;
    for (int i = 0; specials && p->begins && i < t->n_before; i++)
        id_list_add(&e->out, t->before[i]);
    if (p->n) cut_added(e, &t->raw, (const unsigned char *)p->p, p->n, encode_part);
    for (int i = 0; specials && p->ends && i < t->n_after; i++)
        id_list_add(&e->out, t->after[i]);
    if (p->n >= MIN_MEASURED) {
        const double now = 1.06 * (double)(e->out.n - n_before) / (double)p->n;
        e->ids_per_byte = now > e->ids_per_byte ? now : 0.75 * e->ids_per_byte + 0.25 * now;
    }
    *out = e->out;
}

void encoder_piece_traced(encoder *e, const text_piece *p, bool specials, id_list *out,
        offset_list *begins) {
    const unsigned char *text = (const unsigned char *)p->p;
    const int64_t first = begins->n, n_ids = out->n;
    trace tr = {.t = e->t, .text = text, .begins = begins};
    for (int i = 0; specials && p->begins && i < e->t->n_before; i++)
        trace_id(&tr, text);
    e->trace = &tr;
    encoder_piece(e, p, specials, out);
    e->trace = NULL;
    trace_normal(&tr, text, p->n, NULL);
    for (int i = 0; specials && p->ends && i < e->t->n_after; i++)
        trace_id(&tr, text + p->n);
    DRV_ASSERT(begins->n - first == out->n - n_ids, "ids that begin nowhere");
    trace_free(&tr);
}

void encoder_run(encoder *e, const void *text, size_t n, bool specials, id_list *out) {
    encoder_piece(e, &(text_piece){text, n, true, true}, specials, out);
}

bool tokenizer_begin_once(const tokenizer *t, id_list *ids, int64_t first, offset_list *begins) {
    const int64_t n = t->n_before, n_ids = ids->n - first;
    if (n == 0 || n_ids < 2 * n) return false;
    int32_t *p = ids->p + first;
    if (memcmp(p, p + n, sizeof *p * (size_t)n) != 0) return false;
    memmove(p, p + n, sizeof *p * (size_t)(n_ids - n));
    ids->n -= n;
    if (!begins) return true;
    begins->n -= n;
    memmove(begins->p, begins->p + n, sizeof *begins->p * (size_t)begins->n);
    return true;
}

void tokenizer_tidy(const tokenizer *t) {
    if (word_table_is_full(t->words)) word_table_clear(t->words);
}
