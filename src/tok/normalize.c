// Normalises a text, as a tokenizer does before it looks for words.
#include <stdlib.h>

#include <utf8proc.h>

#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

// Returns whether NFC may change a text: whether it has a character outside these ranges, which
// have none that combines with one before it or decomposes (Latin, Cyrillic, kana, Chinese, marks).
static bool may_change(const unsigned char *s, size_t n) {
    static const uint32_t stable[][2] = {{0x3000, 0x3029}, {0x3030, 0x3098}, {0x309B, 0xA66E},
            {0xFF00, 0xFFEF}, {0x400, 0x482}, {0x2010, 0x20CF}};
    unsigned char all = 0;
    for (size_t i = 0; i < n; i++)
        all |= s[i];
    for (const unsigned char *p = s, *end = s + n; all >= 0x80 && p < end;) {
        const uint32_t cp = utf8_next(&p);
        bool found = cp < 0x300;
        for (size_t i = 0; i < sizeof stable / sizeof *stable && !found; i++)
            found = cp >= stable[i][0] && cp <= stable[i][1];
        if (!found) return true;
    }
    return false;
}

// Characters that libutf8proc reorders or composes and Hugging Face does not, whose NFC has the
// data of an older Unicode: to it they are plain characters, across which nothing composes.
static const struct {
    uint32_t first, last;
} inert[] = {
#include "tok/nfc_inert.inc"
};

static bool is_inert(uint32_t cp) {
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
    const unsigned char *part = text, *end = part + n_bytes, *p = part;
    if (!tok->nfc || !may_change(text, n_bytes)) {
        str_add(out, text, n_bytes);
        return;
    }
    while (p < end) {
        const unsigned char *begin = p;
        if (!is_inert(utf8_next(&p))) continue;
        compose_part(part, (size_t)(begin - part), out);
        str_add(out, begin, (size_t)(p - begin));
        part = p;
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
    if (tok->nfc && may_change(text, n_bytes)) {
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
