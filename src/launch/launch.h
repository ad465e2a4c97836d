// Starting a job on nodes where some launcher has started one `drover launch node` each. Node 0
// runs mpirun, whose launch agent is drover too: it hands the command line of each daemon to the
// launcher of node 0, which sends it to the node that it is for, over a connection that both have
// proven the secret on. That node runs the daemon as its child. Ranks, output and messages are
// mpirun's (docs/adr/0028).
#pragma once
#include "comm/handshake.h"
#include "launch/nodes.h"
#include "launch/supervisor.h"

// The layout of an attempt of some of the nodes.
typedef struct attempt_layout {
    int n_nodes;             // at most as many as there are
    const char *const *sets; // [n_sets], "KEY=VALUE": what changes in the config
    int n_sets;
    bool same_bits;    // as the whole job would have
    const char *words; // of a line that tells of it
} attempt_layout;

// Functions of the caller, who knows the config and the model. Texts live in `a`.
typedef struct launch_planner {
    void *ctx;
    // Finds the best layout for min_nodes to n_nodes nodes. DRV_E_USAGE: there is none.
    drv_status (*choose)(void *ctx, arena *a, int n_nodes, int min_nodes, attempt_layout *out);
    // Names the rows of the global batch of a step; NULL: they cannot be read.
    const char *(*rows)(void *ctx, arena *a, int64_t step);
    // Says what a rank was planned to hold in that layout, beside what it was seen to hold.
    const char *(*memory)(void *ctx, arena *a, const attempt_layout *layout, int n_ranks);
} launch_planner;

typedef struct launch_job {
    node_placement placement;
    int node, n_nodes, ranks; // ranks: of each node
    int n_spares;             // nodes beyond the layout, which wait for a failure
    supervisor_rules rules;   // max_restarts 0: the first attempt is the last
    double grow_after_s;      // that nodes have waited, before they are taken
    double check_s; // how long nodes are measured before an attempt with new ones; 0: never
    bool prefers;   // nodes that stand out are the last to be taken
    const launch_planner *planner;
    const char *run_dir;
    uint32_t address; // of node 0, network order; 0: to be found
    int port;
    job_secret secret;
    bool has_secret;
    double wait_s;            // for other nodes
    const char *program;      // this one
    const char *backend;      // of the config
    const char *const *train; // what follows `drover train`
    int n_train;
} launch_job;

#define LAUNCH_SOCKET  "DROVER_LAUNCH_SOCKET" // for agents of mpirun, in the launcher's folder
#define LAUNCH_NODE    "DROVER_LAUNCH_NODE"   // "NODE NODES RANKS ADDRESS", for ranks
#define LAUNCH_PURPOSE "drover launch node"
#define LAUNCH_CHECK   "check" // to a rank, in the place of a back end: to measure its node

// Runs node 0, or a job of one node. Returns the status of the first rank that failed.
DRV_CHECKED drv_status launch_head(arena *a, const launch_job *job);
// Runs any other node, and returns the status that node 0 tells.
DRV_CHECKED drv_status launch_member(arena *a, const launch_job *job);
// Runs in the place of the daemon of a host, for mpirun, until that daemon has ended.
DRV_CHECKED drv_status launch_agent(const char *const *words, int n_words);
// Runs as a rank of mpirun: takes its cores and devices, and becomes `drover train`; or the one
// rank of a node that is measured, whose words are LAUNCH_CHECK, the run directory and seconds.
DRV_CHECKED drv_status launch_rank(arena *a, const char *const *words, int n_words);
// Reads the secret of DROVER_JOB_SECRET_FILE. *found: the variable is set. DRV_E_USAGE: others may
// read the file, or it holds less than 16 bytes.
DRV_CHECKED drv_status launch_read_secret(job_secret *out, bool *found);
// Draws a secret for a job whose nodes are all on this machine and that has no such file: node 0
// leaves it in a folder of its own, where the same user's processes find it by the address and port
// at which node 0 listens; `held` is open for as long as it is this job's.
DRV_CHECKED drv_status launch_leave_secret(arena *a, const char *address, int port, job_secret *out,
        const char **folder, int *held);
bool launch_find_secret(arena *a, const char *address, int port, job_secret *out);

// Lists what Open MPI's programs get into their environment, and what must not reach them of the
// launcher that started this process: "NAME=VALUE" or "NAME", NULL at the end.
const char **launch_variables(arena *a, const launch_job *job, const char *dir,
        const char *address);
