// Reads scripts and the scripts that they call; none is ever run.
#pragma once
#include "translate/shell.h"
#include "translate/translation.h"

typedef struct script_reader {
    translation *self;
    int depth; // of scripts that call each other
} script_reader;

// Sets the variables that the user gives, and those of the environment that matter.
DRV_CHECKED drv_status script_set_variables(translation *self, shell_script *script);
// Sets the variables of NAME=VALUE before a command, after "env" or not, for the scripts that are
// read next; returns the index of the command's first word.
int script_take_environment(translation *self, shell_script *script, const shell_word *words,
        int n_words);
DRV_CHECKED drv_status script_read(script_reader *reader, const char *path, shell_script *script);
// Translates the variables of a script, or only those of its environment; returns how many of them
// have an effect, whether their value is known or not.
int script_translate_variables(translation *self, const shell_script *script, bool all);
