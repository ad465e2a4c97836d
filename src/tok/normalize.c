// Normalises a text, as a tokenizer does before it looks for words.
#include <stdlib.h>

#include <utf8proc.h>

#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

static bool is_ascii(const unsigned char *s, size_t n) {
    unsigned char all = 0;
    for (size_t i = 0; i < n; i++)
        all |= s[i];
    return all < 0x80;
}

// Characters that libutf8proc reorders or composes and Hugging Face does not, whose NFC has the
// data of an older Unicode: to it they are plain characters, across which nothing composes.
static const struct {
    uint32_t first, last;
} inert[] = {
#include "tok/nfc_inert.inc"
};

static bool is_inert(uint32_t cp) {
    if (cp >= 0x1E00 && cp < 0xA800) return false; // fast: has most letters beyond Latin ones
    size_t low = 0, high = sizeof inert / sizeof *inert;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (cp > inert[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof inert / sizeof *inert && cp >= inert[low].first;
}

static void compose_part(const unsigned char *s, size_t n, str *out) {
    utf8proc_uint8_t *composed = NULL;
    const utf8proc_ssize_t k =
            n ? utf8proc_map(s, (utf8proc_ssize_t)n, &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE)
              : 0;
    if (k > 0) str_add(out, composed, (size_t)k);
    free(composed);
}

void tokenizer_compose(const tokenizer *tok, const void *text, size_t n_bytes, str *out) {
    enum { FIRST_INERT = 0xD7 }; // the first byte of U+05C8, the first of them
    const unsigned char *part = text, *end = part + n_bytes, *p = part;
    if (!tok->nfc || is_ascii(text, n_bytes)) {
        str_add(out, text, n_bytes);
        return;
    }
    while (p < end) {
        const unsigned char *begin = p;
        if (*p < FIRST_INERT) {
            p++;
        } else if (is_inert(utf8_next(&p))) {
            compose_part(part, (size_t)(begin - part), out);
            str_add(out, begin, (size_t)(p - begin));
            part = p;
        }
    }
    compose_part(part, (size_t)(end - part), out);
}

void tokenizer_normalize(const tokenizer *tok, const void *text, size_t n_bytes, str *out) {
    if (tok->rules) {
        piece_rules_apply(tok->rules, text, n_bytes, out, NULL);
        return;
    }
    str stepped = {0};
    if (tok->steps.n) {
        text_steps_apply(&tok->steps, text, n_bytes, &stepped, NULL);
        text = stepped.p;
        n_bytes = stepped.n;
    }
    str composed = {0};
    if (tok->nfc && !is_ascii(text, n_bytes)) {
        tokenizer_compose(tok, text, n_bytes, &composed);
        text = composed.p;
        n_bytes = composed.n;
    }
    if (tok->prefix == PREFIX_ALWAYS && n_bytes) str_add(out, " ", 1);
    if (tok->space_mark && !tok->metaspace)
        str_replace(out, text, n_bytes, SPACE_MARK, " ");
    else if (n_bytes)
        str_add(out, text, n_bytes);
    str_free(&composed);
    str_free(&stepped);
}
