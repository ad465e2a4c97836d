// Reads the text of a shell script: assignments and commands. Nothing is run: what only a shell can
// know (the output of a command, a variable from outside, a branch that depends on either) is
// unknown, and says so where it is used. Sums and conditions on what the script itself sets are
// worked out.
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

typedef struct shell_command { // without what its input and output are sent to
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
    const char *file;        // where it was set; NULL: by the caller
    bool unset;              // only a branch that does not run would set it
    const shell_word *items; // of a list
    int n_items;
} shell_variable;

typedef struct shell_arguments { // of a script
    const shell_word *words;
    int n;
    bool known;         // false: what it is started with is not known before a run
    bool used;          // something asked for one
    int option, letter; // where getopts is
} shell_arguments;

typedef struct shell_script shell_script;
struct shell_script {
    shell_variable *variables;
    int n_variables, cap_variables;
    shell_command *commands;
    int n_commands, cap_commands;
    shell_arguments arguments;
    budget *left; // NULL: nothing is counted but the words of each script
    // NULL, or called at each command in its place, so that a script that it starts or sources can
    // be read there.
    drv_status (*on_command)(void *arg, shell_script *script, const shell_command *command);
    void *on_command_arg;
};

// Adds what stands in a script to `script`, zero but for on_command at first, whose variables are
// known from its beginning; freed by shell_clear. All else lives in `a`. DRV_E_USAGE, with file and
// line: a quote or a block is not closed, or something is too long.
DRV_CHECKED drv_status shell_read(arena *a, const char *file, const char *text, size_t n,
        shell_script *script);
void shell_clear(shell_script *script);

// Returns the variable of this name; NULL: none was set.
const shell_variable *shell_find(const shell_script *script, const char *name);
// Sets a variable of the environment, which a script may set anew.
void shell_export(shell_script *script, const char *name, const char *value);
// Says with which arguments what is read next is started.
void shell_set_arguments(shell_script *script, const shell_word *words, int n);
// Sets a variable from outside; assignments of a script do not change it.
void shell_set(shell_script *script, const char *name, const char *value);
