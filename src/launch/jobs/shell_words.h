// Quotes words for a POSIX shell. Every value that a generated script takes from a user goes
// through here.
#pragma once
#include "base/str.h"

// Appends a word that a shell gives back byte for byte: as it is, or in single quotes.
void shell_word(str *out, const char *word);
// Several, with a blank between them.
void shell_words(str *out, const char *const *words, int n);
