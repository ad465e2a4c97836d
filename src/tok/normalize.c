// Normalises a text, as a tokenizer does before it looks for words.
#include <stdlib.h>

#include <utf8proc.h>

#include "tok/tokenizer_internal.h"

static bool is_ascii(const unsigned char *s, size_t n) {
    unsigned char all = 0;
    for (size_t i = 0; i < n; i++)
        all |= s[i];
    return all < 0x80;
}

// Composes the text if the tokenizer uses NFC and the text may change: *text and *n then refer to
// the returned buffer, which the caller frees. NULL: they stay as they are.
static void *compose(const tokenizer *t, const void **text, size_t *n) {
    utf8proc_uint8_t *composed = NULL;
    if (!t->nfc || is_ascii(*text, *n)) return NULL;
    utf8proc_ssize_t k = utf8proc_map(*text, (utf8proc_ssize_t)*n, &composed,
            UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (k >= 0) *text = composed, *n = (size_t)k;
    return composed;
}

void tokenizer_compose(const tokenizer *t, const void *text, size_t n, str *out) {
    void *composed = compose(t, &text, &n);
    str_add(out, text, n);
    free(composed);
}

void tokenizer_normalize(const tokenizer *t, const void *text, size_t n, str *out) {
    if (t->rules) {
        piece_rules_apply(t->rules, text, n, out, NULL);
        return;
    }
    str stepped = {0};
    if (t->steps.n) {
        text_steps_apply(&t->steps, text, n, &stepped, NULL);
        text = stepped.p;
        n = stepped.n;
    }
    void *composed = compose(t, &text, &n);
    if (t->prefix == PREFIX_ALWAYS && n) str_add(out, " ", 1);
    if (t->space_mark && !t->metaspace)
        str_replace(out, text, n, SPACE_MARK, " ");
    else if (n)
        str_add(out, text, n);
    free(composed);
    str_free(&stepped);
}
