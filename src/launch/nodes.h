// Finds which node of a job this process stands for, as launchers say it in the environment: Slurm,
// torchrun and the operators that set its variables (PyTorchJob, TrainJob, Volcano), JAX, indexed
// Jobs, our own. Pure: reads no environment but the one it is given, opens nothing.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

enum { MAX_NODES = 1 << 16, MAX_RANKS_PER_NODE = 1 << 12 };

// A number, and what said it: the name of a variable or an option. NULL: nothing said it.
typedef struct said_number {
    int value;
    const char *by;
} said_number;
typedef struct said_text {
    const char *value; // "" when nothing said it
    const char *by;
} said_text;

typedef struct node_placement {
    said_number node_rank, nodes, ranks_per_node;
    said_text master; // the host of node 0
    said_number port; // on it; 0: any that is free there
    // Processes per node that a launcher has started, each of which sees these variables: torchrun,
    // or srun with several tasks a node. 1 where it is one, as `drover launch node` needs.
    said_number tasks_per_node;
    said_text job;        // the scheduler's name of the job
    said_number restarts; // how often it was started again
    bool is_rank;         // mpirun or srun has started this process as a rank of MPI
} node_placement;

// environment: "NAME=VALUE", NULL at the end, as environ. `out` may hold what options say, which
// goes before all else; what is not said is zero. Strings live in `a`. DRV_E_USAGE: variables
// contradict each other or themselves, or ask for what drover has not (elastic sizes); the message
// names them.
DRV_CHECKED drv_status nodes_discover(arena *a, const char *const *environment,
        node_placement *out);
// Returns the number of nodes: 1 where nothing says otherwise.
int nodes_count(const node_placement *found);
// Says in words "16 nodes x 32 ranks, by PET_NODE_RANK"; ranks: of a node, 0: not known.
const char *nodes_words(arena *a, const node_placement *found, int ranks);
// Splits "HOST:PORT" or "HOST" (port -1); "[::1]:5" is refused, since ranks meet by IPv4.
DRV_CHECKED drv_status nodes_split_address(arena *a, const char *text, const char *by,
        const char **host, int *port);
// Returns the first host of a Slurm host list: "n[03-10,12],m1" is n03. NULL: it is not a host list.
const char *nodes_first_host(arena *a, const char *list);
// Refuses a process that would train alone where it is one of several nodes.
DRV_CHECKED drv_status nodes_check_alone(const char *const *environment, const char *config);
