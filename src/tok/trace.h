// Traces where in a text its ids begin, noted while it is encoded (encode.c). What is normalised or
// spaced on the way lies in buffers of the encoder; a trace knows the place in the text of each of
// their bytes.
#pragma once
#include "tok/split.h"
#include "tok/tokenizer_internal.h"

typedef struct trace_buffer { // bytes made of a part of the text
    const unsigned char *p;   // NULL: none; the text itself is at hand
    int64_t *origin;          // [n + 1] where in the text each byte comes from
    size_t n, filled, cap;
} trace_buffer;

typedef struct trace { // single owner; begins as {t, text, begins}, ends with trace_free
    const tokenizer *t;
    const unsigned char *text;
    offset_list *begins; // of the ids so far, the caller's
    trace_buffer normal, spaced;
} trace;

void trace_free(trace *tr);
// Notes that a part of the text was normalised; `normal` NULL: it is encoded unchanged.
void trace_normal(trace *tr, const unsigned char *part, size_t n_part, const str *normal);
// Notes that words come to lie in a buffer `p`, where a space stands for U+2581: each of them, the
// bytes s[0, n) (`prefixed`: one more in front stands for nothing in the text), and at last the
// buffer, whose text ended at `end`.
void trace_spaced_begin(trace *tr);
void trace_spaced_put(trace *tr, const unsigned char *s, size_t n, bool prefixed);
void trace_spaced_end(trace *tr, const unsigned char *end, const str *p);
// Notes one id that begins at s.
void trace_id(trace *tr, const unsigned char *s);
// Notes the ids of one word, its bytes word .. word_end.
void trace_word(trace *tr, const unsigned char *word, const unsigned char *word_end,
        const int32_t *ids, int64_t n);
