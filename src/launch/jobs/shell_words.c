// Quotes words for a shell.
#include "launch/jobs/shell_words.h"

#include <string.h>

void shell_word(str *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._-/+:,@%=";
    // A first word NAME=VALUE would be an assignment, but we always write the first word ourselves.
    if (*word && word[strspn(word, plain)] == 0) {
        str_puts(out, word);
        return;
    }
    str_puts(out, "'");
    str_replace(out, word, strlen(word), "'", "'\\''");
    str_puts(out, "'");
}

void shell_words(str *out, const char *const *words, int n) {
    for (int i = 0; i < n; i++) {
        if (i > 0) str_puts(out, " ");
        shell_word(out, words[i]);
    }
}
