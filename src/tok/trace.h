// Traces where in a text its ids begin, while encode.c encodes it. Normalised and spaced texts lie
// in buffers of the encoder; a trace maps each byte of these buffers to its offset in the text.
#pragma once
#include "tok/split.h"
#include "tok/tokenizer_internal.h"

typedef struct trace_buffer { // bytes derived from a part of the text
    const unsigned char *p;   // NULL: unused, since the text itself is encoded
    offset_list origins;      // [n + 1] offset in the text from which each byte comes
    size_t n;
} trace_buffer;

typedef struct trace { // single owner; begins as {t, text, begins}, ends with trace_free
    const tokenizer *t;
    const unsigned char *text;
    offset_list *begins; // of the ids so far; owned by the caller
    trace_buffer normal, spaced;
} trace;

void trace_free(trace *tr);
// Records that a part of the text was normalised; `normal` NULL: it is encoded unchanged.
void trace_normal(trace *tr, const unsigned char *part, size_t n_part, const str *normal);
// Record that words are copied to a buffer in which a space stands for U+2581: begin, put for each
// word s[0, n) (`prefixed`: after a space that is not in the text), then end with the buffer `p`
// and the end of the text that was copied.
void trace_spaced_begin(trace *tr);
void trace_spaced_put(trace *tr, const unsigned char *s, size_t n, bool prefixed);
void trace_spaced_end(trace *tr, const unsigned char *end, const str *p);
// Records one id that begins at s.
void trace_id(trace *tr, const unsigned char *s);
// Records the ids of one word, its bytes word .. word_end.
void trace_word(trace *tr, const unsigned char *word, const unsigned char *word_end,
        const int32_t *ids, int64_t n);
