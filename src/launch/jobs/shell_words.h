// Quotes words for a POSIX shell. Every value from a user in a generated script is quoted here.
#pragma once
#include "base/str.h"

// Appends a word that the shell reads back byte for byte, in single quotes if it needs them.
void shell_word(str *out, const char *word);
// Appends several, separated by blanks.
void shell_words(str *out, const char *const *words, int n);
