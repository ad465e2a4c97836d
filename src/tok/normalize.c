// What a tokenizer does to a text before it looks for words.
#include <stdlib.h>

#include <utf8proc.h>

#include "tok/tokenizer.h"

void tokenizer_normalize(const tokenizer *t, const void *text, size_t n, str *out) {
    const char *s = text, *space = "\xE2\x96\x81"; // U+2581 stands for a space
    utf8proc_uint8_t *composed = NULL;
    if (t->nfc) {
        utf8proc_ssize_t k = utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n,
                &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (k >= 0) s = (const char *)composed, n = (size_t)k;
    }
    if (t->byte_level) {
        str_add(out, s, n);
    } else { // sentencepiece style
        if (t->prepend_space) str_puts(out, space);
        for (size_t i = 0, from = 0; i <= n; i++)
            if (i == n || s[i] == ' ') {
                str_add(out, s + from, i - from);
                if (i < n) str_puts(out, space);
                from = i + 1;
            }
    }
    free(composed);
}
