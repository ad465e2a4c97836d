// Reads the words of a command: flags and variables, each of which becomes a key of the
// translation, and the program that it starts.
#pragma once
#include "translate/shell.h"
#include "translate/translation.h"

// Makes a value from a word; "None" and "null" are null.
const value *word_value(translation *self, const char *name, const char *where, const char *text);
// Translates the word as the value of `name`. A word that is not known is refused only if its value
// is needed.
void word_translate(translation *self, const char *name, const shell_command *from,
        const shell_word *word, const char *text);
bool is_flag(const shell_word *word);
// Returns "--a-b" as "a_b", as Python's argparse does.
const char *flag_name(arena *a, const char *word, size_t n);
// Translates the flags from words[first] to words[end - 1].
DRV_CHECKED drv_status flags_translate(translation *self, const shell_command *command, int first,
        int end);
// Returns whether a key sets the number of ranks.
bool counts_ranks(const foreign_key *row);
// Returns the index of the word that names the program; -1: there is none. `scripts`: a shell
// script with options counts.
int program_at(const shell_command *c, bool scripts);
// Reads the files and words of a command line (--from args).
DRV_CHECKED drv_status command_line_read(translation *self);
