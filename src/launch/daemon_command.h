// The command line that mpirun gives to a launch agent, meant for a shell on the other host: one
// daemon of Open MPI 4 (orted) or of PRRTE in Open MPI 5 (prted), after assignments of paths if
// Open MPI was built or called with a prefix. drover runs no shell: it parses the command line, and
// refuses anything else.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct daemon_command {
    const char **argv; // [n_args], and NULL
    int n_args;
    const char **variables; // [n_variables], "NAME=VALUE": if NAME ends in PATH, VALUE is
    int n_variables;        // prepended to its present value
} daemon_command;

// words: as the agent got them, after the host. Strings live in `a`. DRV_E_DATA: another command.
DRV_CHECKED drv_status daemon_command_parse(arena *a, const char *const *words, int n_words,
        daemon_command *out);
// The same as node 0 sends it: fields of a CONTROL_COMMAND, valid as long as that message.
typedef struct daemon_order {
    int place, n_nodes; // place of the node in the attempt; nodes of the attempt
    const char *const *variables, *const *argv;
    int n_variables, n_args;
} daemon_order;
enum { DAEMON_ORDER_NUMBERS = 3 }; // place, nodes and number of variables come first

// DRV_E_DATA: not a complete order, a place that is not another node's, another program.
DRV_CHECKED drv_status daemon_order_parse(const char *const *fields, int n_fields,
        daemon_order *out);
// Check only the program, and one such variable, since they come from another node.
DRV_CHECKED drv_status daemon_command_check(const char *program);
DRV_CHECKED drv_status daemon_variable_check(const char *variable);
