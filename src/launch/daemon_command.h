// The command line that mpirun gives to a launch agent, for a shell on the other host: one daemon
// of Open MPI 4 (orted) or of PRRTE in Open MPI 5 (prted), with paths put before it where Open MPI
// was built or called with a prefix. No shell runs it here: it is taken apart, and what is not such
// a command is refused.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct daemon_command {
    const char **argv; // [n_args], and NULL
    int n_args;
    const char *
            *variables; // [n_variables], "NAME=VALUE": of a name that ends in PATH, what is to go
    int n_variables;    // before the value that it has
} daemon_command;

// words: as the agent got them, after the host. Strings live in `a`. DRV_E_DATA: something else.
DRV_CHECKED drv_status daemon_command_parse(arena *a, const char *const *words, int n_words,
        daemon_command *out);
// The program alone, and one of those variables, as they come from another node.
DRV_CHECKED drv_status daemon_command_check(const char *program);
DRV_CHECKED drv_status daemon_variable_check(const char *variable);
