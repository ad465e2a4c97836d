// Starts a job on nodes on each of which some launcher has started a `drover launch node`. Node 0
// runs mpirun with drover as its launch agent: an agent passes the command line of a daemon to the
// launcher of node 0, which sends it to the daemon's node, over a connection whose two ends have
// proved that they know the secret. That node runs the daemon as its child. Ranks, output and
// messages are mpirun's (docs/adr/0028).
#pragma once
#include "comm/handshake.h"
#include "launch/nodes.h"
#include "launch/supervisor.h"

// The layout of an attempt on some of the nodes.
typedef struct attempt_layout {
    int n_nodes;             // at most the nodes of the job
    const char *const *sets; // [n_sets], "KEY=VALUE": changes to the config
    int n_sets;
    bool same_bits;    // the bits are those of the whole job
    const char *words; // describes it in a log line
} attempt_layout;

// Functions of the caller, which knows the config and the model. Texts live in `a`.
typedef struct launch_planner {
    void *ctx;
    // Finds the best layout for min_nodes to n_nodes nodes. DRV_E_USAGE: there is none.
    drv_status (*choose)(void *ctx, arena *a, int n_nodes, int min_nodes, attempt_layout *out);
    // Names the rows of the global batch of a step; NULL: they cannot be read.
    const char *(*rows)(void *ctx, arena *a, int64_t step);
    // Describes the planned memory of a rank in that layout, beside what ranks have held.
    const char *(*memory)(void *ctx, arena *a, const attempt_layout *layout, int n_ranks);
} launch_planner;

typedef struct launch_job {
    node_placement placement;
    int node, n_nodes, ranks; // ranks: per node
    supervisor_rules rules;
    double check_s; // how long new nodes are measured before an attempt; 0: they are not
    bool prefers;   // outliers are chosen last
    const launch_planner *planner;
    const char *run_dir;
    uint32_t address; // of node 0, network order; 0: not found yet
    int port;
    job_secret secret;
    bool has_secret;
    double wait_s;            // for other nodes
    const char *program;      // path of this program
    const char *backend;      // of the config
    const char *const *train; // the arguments of `drover train`
    int n_train;
} launch_job;

#define LAUNCH_SOCKET  "DROVER_LAUNCH_SOCKET" // of mpirun's agents, in the launcher's folder
#define LAUNCH_NODE    "DROVER_LAUNCH_NODE"   // "NODE NODES RANKS ADDRESS", for ranks
#define LAUNCH_PURPOSE "drover launch node"
#define LAUNCH_CHECK   "check" // to a rank, instead of a back end: it measures its node

// Runs node 0, or a job of one node. Returns the status of the first rank that failed.
DRV_CHECKED drv_status launch_head(arena *a, const launch_job *job);
// Runs any other node, and returns the status that node 0 sends.
DRV_CHECKED drv_status launch_member(arena *a, const launch_job *job);
// Runs instead of a host's daemon, as a child of mpirun, until that daemon has ended.
DRV_CHECKED drv_status launch_agent(const char *const *words, int n_words);
// Runs as a rank of mpirun: takes its share of cores and devices, and becomes `drover train`; or it
// measures its node, with the words LAUNCH_CHECK, the run directory and seconds.
DRV_CHECKED drv_status launch_rank(arena *a, const char *const *words, int n_words);
// Returns whether the master's name says that all nodes are on this machine: "localhost" or 127.x.
bool launch_is_local(const char *master);
// Returns the IPv4 address of the master in network order; 0: the name has none, or not yet. Many
// systems give their own name a loopback address in /etc/hosts (Debian: 127.0.1.1), which no other
// host reaches; then it is the first address of this host that others may reach.
uint32_t launch_resolve(const char *master);
// Reads the secret of DROVER_JOB_SECRET_FILE. *found: the variable is set. DRV_E_USAGE: other users
// may read the file, or it holds less than 16 bytes.
DRV_CHECKED drv_status launch_read_secret(job_secret *out, bool *found);
// Draws a secret for a job whose nodes are all on this machine, if there is no such file. Node 0
// leaves it in a folder of its own, where processes of the same user find it by the address and
// port at which node 0 listens. The job owns it while `held` is open.
DRV_CHECKED drv_status launch_leave_secret(arena *a, const char *address, int port, job_secret *out,
        const char **folder, int *held);
bool launch_find_secret(arena *a, const char *address, int port, job_secret *out);

// Lists changes to the environment of Open MPI's programs: "NAME=VALUE" to set, "NAME" to unset
// (variables of the launcher that started this process), NULL at the end.
const char **launch_variables(arena *a, const launch_job *job, const char *dir,
        const char *address);
