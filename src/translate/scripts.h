// Scripts of a translation: they are read with what they call, and never run.
#pragma once
#include "translate/shell.h"
#include "translate/translation.h"

typedef struct script_reader {
    translation *self;
    int depth; // of scripts that start each other
} script_reader;

// Adds the variables that the caller gives and those of the environment that count.
DRV_CHECKED drv_status script_set_variables(translation *self, shell_script *script);
// Takes NAME=VALUE before a command, behind "env" or not, into the environment of the scripts that
// are read next; returns the index of the command's first word.
int script_take_environment(translation *self, shell_script *script, const shell_word *words,
        int n_words);
DRV_CHECKED drv_status script_read(script_reader *reader, const char *path, shell_script *script);
// Translates the variables of a script, or of its environment alone; returns how many of them are
// known, or would be if they had a value.
int script_translate_variables(translation *self, const shell_script *script, bool all);
