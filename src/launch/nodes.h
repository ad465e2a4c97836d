// Finds which node of a job this process is, from the variables of launchers: Slurm, torchrun and
// the operators that set its variables (PyTorchJob, TrainJob, Volcano), JAX, indexed Jobs, our own.
// Pure: reads only the environment that it is given, and opens nothing.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

enum { MAX_NODES = 1 << 16, MAX_RANKS_PER_NODE = 1 << 12 };

// A number, and its source: the name of a variable or an option. NULL: there is none.
typedef struct given_number {
    int value;
    const char *by;
} given_number;
typedef struct given_text {
    const char *value; // "" without a source
    const char *by;
} given_text;

typedef struct node_placement {
    given_number node_rank, nodes, ranks_per_node;
    given_text master; // the host of node 0
    given_number port; // on it; 0: any free one there
    // Processes per node that a launcher has started, each of which sees these variables: by
    // torchrun, or by srun with several tasks a node. `drover launch node` needs 1.
    given_number tasks_per_node;
    given_text job;        // the scheduler's name of the job
    given_number restarts; // how often it has been restarted
    bool is_rank;          // mpirun or srun has started this process as a rank of MPI
} node_placement;

// environment: "NAME=VALUE", NULL at the end, as environ. `out` may hold the values of options,
// which precede everything else; what is not set is zero. Strings live in `a`. DRV_E_USAGE:
// variables contradict each other, or ask for something that drover does not have (elastic sizes);
// the message names them.
DRV_CHECKED drv_status nodes_discover(arena *a, const char *const *environment,
        node_placement *out);
// Returns the number of nodes; 1 if nothing sets it.
int nodes_count(const node_placement *found);
// Describes it, as "16 nodes x 32 ranks, by PET_NODE_RANK"; ranks: per node, 0: not known.
const char *nodes_words(arena *a, const node_placement *found, int ranks);
// Splits "HOST:PORT" or "HOST" (port -1); refuses "[::1]:5", since ranks connect by IPv4.
DRV_CHECKED drv_status nodes_split_address(arena *a, const char *text, const char *by,
        const char **host, int *port);
// Returns the first host of a Slurm host list: "n[03-10,12],m1" is n03. NULL: it is not a host list.
const char *nodes_first_host(arena *a, const char *list);
// Refuses to train alone if this process is on one of several nodes.
DRV_CHECKED drv_status nodes_check_alone(const char *const *environment, const char *config);
