// Reads the text of a shell script: assignments and commands. Nothing is run: what only a shell can
// know (the output of a command, a variable from outside, a branch that depends on either) is
// unknown, and is reported where it is used. Sums and conditions on variables that the script
// itself sets are computed.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "translate/budget.h"

typedef struct shell_word {
    const char *text; // without quotes, variables replaced
    const char *
            unknown; // why it is not known, as "NTASKS is set by a command in line 22"; NULL: it is
    int line;
} shell_word;

typedef struct shell_command { // without its redirections
    const char *file;
    int line;
    const shell_word *words;
    int n;
} shell_command;

// Returns "train.sh:12", or "command line". Lives in `a`.
const char *command_place(arena *a, const shell_command *command);

typedef struct shell_variable {
    const char *name;
    shell_word value;
    const char *file;        // where it was set; NULL: from outside
    bool unset;              // it is set only in a branch that does not run
    const shell_word *items; // elements, if it is a list
    int n_items;
} shell_variable;

typedef struct shell_arguments { // with which a script is started
    const shell_word *words;
    int n;
    bool known;         // false: they are not known before a run
    bool used;          // the script uses one
    int option, letter; // the position of getopts
} shell_arguments;

typedef struct shell_script shell_script;
struct shell_script {
    shell_variable *variables;
    int n_variables, cap_variables;
    shell_command *commands;
    int n_commands, cap_commands;
    shell_arguments arguments;
    budget *left; // NULL: only the words of each script are counted
    // Called at each command, in order, so that a script that it starts or sources can be read at
    // that point. NULL: not called.
    drv_status (*on_command)(void *arg, shell_script *script, const shell_command *command);
    void *on_command_arg;
};

// Adds the variables and commands of a script to `script`, which is zero at first, except for
// on_command and variables from outside; shell_clear frees it. All else lives in `a`. DRV_E_USAGE,
// with file and line: a quote or a block is not closed, or something is too long.
DRV_CHECKED drv_status shell_read(arena *a, const char *file, const char *text, size_t n,
        shell_script *script);
void shell_clear(shell_script *script);

// Returns the variable of this name; NULL: it was not set.
const shell_variable *shell_find(const shell_script *script, const char *name);
// Sets a variable of the environment, which a script may change.
void shell_export(shell_script *script, const char *name, const char *value);
// Sets the arguments of the script that is read next.
void shell_set_arguments(shell_script *script, const shell_word *words, int n);
// Sets a variable that assignments of a script do not change.
void shell_set(shell_script *script, const char *name, const char *value);
