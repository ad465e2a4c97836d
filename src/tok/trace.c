// Finds where ids begin in the text as it was before normalising. Lengths come from the entries of
// the vocabulary, so they are exact to the byte except in a word with an unknown token.
#include "tok/trace.h"

#include <stdlib.h>
#include <string.h>

void offset_list_add(offset_list *l, int64_t offset) {
    MEM_GROW(l->p, l->n, l->cap);
    l->p[l->n++] = offset;
}

void offset_list_free(offset_list *l) {
    free(l->p);
    *l = (offset_list){0};
}

void trace_free(trace *tr) {
    offset_list_free(&tr->normal.origins);
    offset_list_free(&tr->spaced.origins);
}

// --- bytes of the buffers
static int64_t origin_of(const trace *tr, const unsigned char *s) {
    const trace_buffer *list[] = {&tr->spaced, &tr->normal};
    for (int i = 0; i < 2; i++)
        if (list[i]->p && s >= list[i]->p && s <= list[i]->p + list[i]->n)
            return list[i]->origins.p[s - list[i]->p];
    return s - tr->text;
}

static void begin_buffer(trace_buffer *b) {
    b->p = NULL;
    b->origins.n = 0;
}

static void put(trace_buffer *b, int64_t origin) {
    offset_list_add(&b->origins, origin);
}

static void end_buffer(trace_buffer *b, const str *p, int64_t origin) {
    b->n = p->n;
    while ((size_t)b->origins.n <= b->n)
        put(b, origin);
    b->p = (const unsigned char *)p->p;
}

static size_t mark_at(const unsigned char *s, size_t n) {
    return n >= 3 && memcmp(s, SPACE_MARK, 3) == 0 ? 3 : 1;
}

// Records bytes that were copied from s.
static void put_same(trace *tr, trace_buffer *b, const unsigned char *s, size_t n, bool marks) {
    for (size_t i = 0; i < n; i += marks ? mark_at(s + i, n - i) : 1)
        put(b, origin_of(tr, s + i));
}

// Records bytes that composing has changed: what lies between the common prefix and the common
// suffix comes from where the change begins.
static void put_composed(trace *tr, trace_buffer *b, const unsigned char *s, size_t n,
        const str *composed, bool marks) {
    const unsigned char *p = (const unsigned char *)composed->p;
    const size_t least = n < composed->n ? n : composed->n;
    size_t head = 0, tail = 0;
    while (head < least && s[head] == p[head])
        head++;
    while (tail < least - head && s[n - 1 - tail] == p[composed->n - 1 - tail])
        tail++;
    put_same(tr, b, s, head, marks);
    for (size_t i = head; i < composed->n - tail; i++)
        put(b, origin_of(tr, s + head));
    put_same(tr, b, s + n - tail, tail, marks);
}

// Records bytes that the steps have made, which are never combined with NFC.
static void put_stepped(trace *tr, trace_buffer *b, const unsigned char *part, size_t n_part) {
    const tokenizer *tok = tr->t;
    const bool marks = tok->space_mark && !tok->metaspace;
    str text = {0};
    offset_list origins = {0};
    text_steps_apply(&tok->steps, part, n_part, &text, &origins);
    const unsigned char *s = (const unsigned char *)text.p;
    if (tok->prefix == PREFIX_ALWAYS && text.n) put(b, origin_of(tr, part));
    for (size_t i = 0; i < text.n; i += marks ? mark_at(s + i, text.n - i) : 1)
        put(b, origin_of(tr, part + origins.p[i]));
    str_free(&text);
    offset_list_free(&origins);
}

// No character composes with an ASCII one after it, so the text is composed in parts that each
// begin with one.
void trace_normal(trace *tr, const unsigned char *part, size_t n_part, const str *normal) {
    const tokenizer *tok = tr->t;
    trace_buffer *buffer = &tr->normal;
    tr->normal.p = tr->spaced.p = NULL;
    if (!normal) return;
    begin_buffer(buffer);
    str composed = {0};
    size_t n_composed = n_part; // bytes whose origins are to be found by composing
    if (tok->rules) {
        offset_list origins = {0};
        piece_rules_apply(tok->rules, part, n_part, &composed, &origins);
        for (int64_t i = 0; i < origins.n; i++)
            put(buffer, origin_of(tr, part + origins.p[i]));
        offset_list_free(&origins);
        n_composed = 0;
    }
    if (tok->steps.n) {
        put_stepped(tr, buffer, part, n_part);
        n_composed = 0;
    }
    if (tok->prefix == PREFIX_ALWAYS && n_composed) put(buffer, origin_of(tr, part));
    for (size_t i = 0, end; i < n_composed; i = end) {
        for (end = i + 1; end < n_composed && part[end] >= 0x80;)
            end++;
        str_clear(&composed);
        tokenizer_compose(tok, part + i, end - i, &composed);
        put_composed(tr, buffer, part + i, end - i, &composed, tok->space_mark && !tok->metaspace);
    }
    str_free(&composed);
    end_buffer(buffer, normal, origin_of(tr, part + n_part));
}

void trace_spaced_begin(trace *tr) {
    begin_buffer(&tr->spaced);
}

void trace_spaced_put(trace *tr, const unsigned char *s, size_t n, bool prefixed) {
    if (prefixed) put(&tr->spaced, origin_of(tr, s));
    put_same(tr, &tr->spaced, s, n, true);
}

void trace_spaced_end(trace *tr, const unsigned char *end, const str *p) {
    end_buffer(&tr->spaced, p, origin_of(tr, end));
}

// --- ids
void trace_id(trace *tr, const unsigned char *s) {
    offset_list_add(tr->begins, origin_of(tr, s));
}

// Returns the number of bytes for which an id stands at s, or before s if `backward`; 0: unknown.
static size_t bytes_of(const tokenizer *t, int32_t id, const unsigned char *s, size_t room,
        bool backward) {
    const token_bytes *entry = id >= 0 && id < t->n_vocab ? &t->entries[id] : NULL;
    const unsigned char byte = room ? (backward ? s[-1] : *s) : 0;
    if (room && (t->fallback_id[byte] == id || t->byte_id[byte] == id)) return 1;
    if (!entry || !entry->p || entry->as_written || entry->n < 1 || (size_t)entry->n > room)
        return 0;
    return memcmp(backward ? s - entry->n : s, entry->p, (size_t)entry->n) == 0 ? (size_t)entry->n
                                                                                : 0;
}

// Goes forward from the front, and backward from the end for the ids after the last unknown token.
void trace_word(trace *tr, const unsigned char *word, const unsigned char *word_end,
        const int32_t *ids, int64_t n) {
    const unsigned char *front = word, *back = word_end;
    const int64_t first = tr->begins->n;
    int64_t i = 0;
    for (size_t k; i < n && (k = bytes_of(tr->t, ids[i], front, (size_t)(back - front), false));
            i++) {
        offset_list_add(tr->begins, origin_of(tr, front));
        front += k;
    }
    const int64_t unknown = i;
    for (; i < n; i++)
        offset_list_add(tr->begins, origin_of(tr, front));
    for (i = n - 1; i > unknown; i--) {
        back -= bytes_of(tr->t, ids[i], back, (size_t)(back - front), true);
        tr->begins->p[first + i] = origin_of(tr, back);
    }
}
