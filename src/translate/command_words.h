// Words of a command: flags and variables, of which each becomes a key of the translation, and the
// program that they start.
#pragma once
#include "translate/shell.h"
#include "translate/translation.h"

const char *word_base(const char *path); // without its folder
// Makes a value of a word; "None" and "null" are null.
const value *word_value(translation *self, const char *name, const char *where, const char *text);
// Translates what a word says of `name`; one that is not known is refused where it would be used.
void word_translate(translation *self, const char *name, const shell_command *from,
        const shell_word *word, const char *text);
bool is_flag(const shell_word *word);
// Returns "--a-b" as "a_b", which is how Python's argparse calls it.
const char *flag_name(arena *a, const char *word, size_t n);
// Translates the flags from words[first] to words[end - 1].
DRV_CHECKED drv_status flags_translate(translation *self, const shell_command *command, int first,
        int end);
// Returns whether a row says how many ranks there are.
bool counts_ranks(const foreign_key *row);
// Returns which word of the command names the program; -1: it starts none. `scripts`: a shell
// script with options counts as one.
int program_at(const shell_command *c, bool scripts);
// Reads the files and words of a command line (--from args).
DRV_CHECKED drv_status command_line_read(translation *self);
