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
// The same as node 0 hands it on: fields of a message (CONTROL_COMMAND), which they outlive not.
typedef struct daemon_order {
    int place, n_nodes; // of the node in the attempt, and of the attempt
    const char *const *variables, *const *argv;
    int n_variables, n_args;
} daemon_order;
enum { DAEMON_ORDER_NUMBERS = 3 }; // place, nodes, how many variables: before those and the daemon

// DRV_E_DATA: no whole order, no place of a node other than node 0, another program.
DRV_CHECKED drv_status daemon_order_parse(const char *const *fields, int n_fields,
        daemon_order *out);
// Check the program alone, and one of those variables, as they come from another node.
DRV_CHECKED drv_status daemon_command_check(const char *program);
DRV_CHECKED drv_status daemon_variable_check(const char *variable);
