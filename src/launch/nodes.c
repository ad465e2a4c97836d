// One list of launchers' variables, read in the order of their reliability: options, our own
// variables, torchrun's (RANK), those that operators set for torchrun (PET_), JAX's, Volcano's, the
// index of a Job, and last Slurm's, which under another launcher describe that launcher's daemon.
#include "launch/nodes.h"

#include <string.h>

#include "base/file.h"
#include "base/str.h"

typedef struct reading {
    arena *a;
    const char *const *environment;
    node_placement *found;
} reading;

// --- variables
// Returns the value; NULL: the variable is not set or empty.
static const char *get(const reading *self, const char *name) {
    const size_t n = strlen(name);
    for (const char *const *v = self->environment; *v; v++)
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=') return (*v)[n + 1] ? *v + n + 1 : NULL;
    return NULL;
}

static bool has(const reading *self, const char *name) {
    return get(self, name) != NULL;
}

static drv_status get_number(const reading *self, const char *name, int min, int max, int *out) {
    int64_t x;
    const char *text = get(self, name);
    if (!str_to_i64(text, &x) || x < min || x > max)
        return drv_fail(DRV_E_USAGE, "%s is \"%s\", expected a number from %d to %d", name, text,
                min, max);
    *out = (int)x;
    return DRV_OK;
}

static bool is_option(const char *by) {
    return by && strncmp(by, "--", 2) == 0;
}

// --- one value, or several that agree
static drv_status take(const reading *self, given_number *s, int value, const char *name) {
    if (!s->by) *s = (given_number){value, arena_strdup(self->a, name)};
    if (s->value == value || is_option(s->by)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "the launcher contradicts itself: %s is %d, but %s gives %d; expected the same, or an option of drover launch node",
            s->by, s->value, name, value);
}

static drv_status take_variable(const reading *self, given_number *s, const char *name, int min,
        int max) {
    int value;
    if (!has(self, name)) return DRV_OK;
    DRV_TRY(get_number(self, name, min, max, &value));
    return take(self, s, value, name);
}

// The first one counts, since one host may have several names.
static void take_text(given_text *s, const char *value, const char *by) {
    if (!s->by && value && *value) *s = (given_text){value, by};
}

static drv_status take_master(const reading *self, const char *host, const char *port) {
    const bool ours = !self->found->master.by;
    take_text(&self->found->master, get(self, host), host);
    if (!ours || self->found->port.by) return DRV_OK;
    return take_variable(self, &self->found->port, port, 0, 65535);
}

drv_status nodes_split_address(arena *a, const char *text, const char *by, const char **host,
        int *port) {
    const char *colon = strchr(text, ':');
    const size_t n = colon ? (size_t)(colon - text) : strlen(text);
    int64_t number = -1;
    const bool wrong = n == 0 || n > 253 || strcspn(text, " \t/@[]'\"\\$`;|&<>()") < n;
    if (wrong || (colon && (!str_to_i64(colon + 1, &number) || number < 0 || number > 65535)))
        return drv_fail(DRV_E_USAGE, "%s is \"%s\", expected HOST:PORT, a name or an IPv4 address",
                by, text);
    *host = arena_strndup(a, text, n);
    *port = (int)number;
    return DRV_OK;
}

static drv_status take_address(const reading *self, const char *name) {
    const char *host;
    int port;
    if (!has(self, name) || self->found->master.by) return DRV_OK;
    DRV_TRY(nodes_split_address(self->a, get(self, name), name, &host, &port));
    self->found->master = (given_text){host, name};
    if (port >= 0 && !self->found->port.by) self->found->port = (given_number){port, name};
    return DRV_OK;
}

// --- launchers
static drv_status read_own(const reading *self) {
    node_placement *found = self->found;
    DRV_TRY(take_variable(self, &found->node_rank, "DROVER_NODE_RANK", 0, MAX_NODES - 1));
    DRV_TRY(take_variable(self, &found->nodes, "DROVER_NODES", 1, MAX_NODES));
    DRV_TRY(take_variable(self, &found->ranks_per_node, "DROVER_RANKS_PER_NODE", 1,
            MAX_RANKS_PER_NODE));
    return take_address(self, "DROVER_MASTER");
}

// Reads "4" or "4:4"; any other range is elastic and has no fixed number of nodes.
static drv_status read_pet_nodes(const reading *self) {
    const char *text = get(self, "PET_NNODES"), *colon = text ? strchr(text, ':') : NULL;
    if (!text) return DRV_OK;
    int64_t least, most;
    if (!colon) return take_variable(self, &self->found->nodes, "PET_NNODES", 1, MAX_NODES);
    const char *first = arena_strndup(self->a, text, (size_t)(colon - text));
    if (!str_to_i64(first, &least) || !str_to_i64(colon + 1, &most) || least != most || most < 1 ||
            most > MAX_NODES)
        return drv_fail(DRV_E_USAGE,
                "PET_NNODES is \"%s\": elastic jobs have no fixed ranks; expected one number of nodes (a PyTorchJob with Master and Worker, without elasticPolicy)",
                text);
    return take(self, &self->found->nodes, (int)most, "PET_NNODES");
}

static drv_status read_pet_ranks(const reading *self) {
    if (STR_ONE_OF(get(self, "PET_NPROC_PER_NODE"), "auto", "gpu", "cpu")) return DRV_OK;
    return take_variable(self, &self->found->ranks_per_node, "PET_NPROC_PER_NODE", 1,
            MAX_RANKS_PER_NODE);
}

static drv_status read_pet(const reading *self) {
    DRV_TRY(read_pet_nodes(self));
    DRV_TRY(take_variable(self, &self->found->node_rank, "PET_NODE_RANK", 0, MAX_NODES - 1));
    DRV_TRY(read_pet_ranks(self));
    return take_master(self, "PET_MASTER_ADDR", "PET_MASTER_PORT");
}

// RANK numbers processes under torchrun, but pods if an operator sets it. A PyTorchJob counts
// processes in WORLD_SIZE and pods in RANK; if PET_NNODES is set, WORLD_SIZE adds nothing.
static drv_status read_torch(const reading *self) {
    node_placement *found = self->found;
    int rank, size, here = 1;
    const bool ranked = has(self, "RANK"), sized = has(self, "WORLD_SIZE");
    if (!ranked && !sized) return DRV_OK;
    if (ranked != sized)
        return drv_fail(DRV_E_USAGE, "%s is set, but not %s; expected both or none of them",
                ranked ? "RANK" : "WORLD_SIZE", ranked ? "WORLD_SIZE" : "RANK");
    DRV_TRY(get_number(self, "WORLD_SIZE", 1, MAX_NODES, &size));
    DRV_TRY(get_number(self, "RANK", 0, size - 1, &rank));
    DRV_TRY(take_master(self, "MASTER_ADDR", "MASTER_PORT"));
    if (has(self, "LOCAL_WORLD_SIZE")) {
        DRV_TRY(get_number(self, "LOCAL_WORLD_SIZE", 1, size, &here));
        if (here > 1) found->tasks_per_node = (given_number){here, "LOCAL_WORLD_SIZE"};
        DRV_TRY(take(self, &found->nodes, size / here, "WORLD_SIZE"));
        return take(self, &found->node_rank, rank / here, "RANK");
    }
    DRV_TRY(take(self, &found->node_rank, rank, "RANK"));
    if (!has(self, "PET_NNODES")) return take(self, &found->nodes, size, "WORLD_SIZE");
    DRV_TRY(read_pet(self));
    const int ranks =
            found->nodes.value * (found->ranks_per_node.by ? found->ranks_per_node.value : 1);
    if (is_option(found->nodes.by) || is_option(found->ranks_per_node.by) || size == ranks)
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "WORLD_SIZE is %d, but %s and PET_NPROC_PER_NODE give %d; expected the same", size,
            found->nodes.by, ranks);
}

static drv_status read_jax(const reading *self) {
    DRV_TRY(take_variable(self, &self->found->node_rank, "JAX_PROCESS_ID", 0, MAX_NODES - 1));
    DRV_TRY(take_variable(self, &self->found->nodes, "JAX_NUM_PROCESSES", 1, MAX_NODES));
    return take_address(self, "JAX_COORDINATOR_ADDRESS");
}

// VC_<TASK>_NUM and VC_<TASK>_HOSTS are set for each task of the job; with several tasks an index
// does not give a node's number in the job.
static drv_status read_volcano(const reading *self) {
    const char *task = NULL;
    int n_tasks = 0;
    if (!has(self, "VC_TASK_INDEX") || self->found->node_rank.by) return DRV_OK;
    for (const char *const *v = self->environment; *v; v++) {
        const char *end = strchr(*v, '=');
        const char *name = end ? arena_strndup(self->a, *v, (size_t)(end - *v)) : "";
        if (!str_starts(name, "VC_") || !str_ends(name, "_NUM")) continue;
        task = arena_strndup(self->a, name, strlen(name) - 4);
        n_tasks++;
    }
    if (n_tasks != 1)
        return drv_fail(DRV_E_USAGE,
                "VC_TASK_INDEX is the index in one of %d tasks of the job; expected one task, the plugin pytorch, or --node-rank and --nodes",
                n_tasks);
    DRV_TRY(take_variable(self, &self->found->node_rank, "VC_TASK_INDEX", 0, MAX_NODES - 1));
    DRV_TRY(take_variable(self, &self->found->nodes, arena_printf(self->a, "%s_NUM", task), 1,
            MAX_NODES));
    const char *name = arena_printf(self->a, "%s_HOSTS", task), *hosts = get(self, name);
    if (hosts)
        take_text(&self->found->master, arena_strndup(self->a, hosts, strcspn(hosts, ", ")), name);
    return DRV_OK;
}

static drv_status read_index(const reading *self) {
    return take_variable(self, &self->found->node_rank, "JOB_COMPLETION_INDEX", 0, MAX_NODES - 1);
}

// --- Slurm
const char *nodes_first_host(arena *a, const char *list) {
    const size_t n = strlen(list);
    size_t n_out = 0;
    if (n > (1 << 20) || *list == '-') return NULL;
    char *first = arena_alloc(a, n + 1);
    for (const char *p = list; *p && *p != ','; p++) {
        const size_t digits = strspn(p + 1, "0123456789");
        const bool is_letter = (*p | 32) >= 'a' && (*p | 32) <= 'z';
        if (is_letter || strchr("-._0123456789", *p)) {
            first[n_out++] = *p;
            continue;
        }
        // "[03-10,12]" stands for 03 first; a name may have several.
        if (*p != '[' || digits == 0 || !strchr(",-]", p[1 + digits]) || !strchr(p, ']'))
            return NULL;
        memcpy(first + n_out, p + 1, digits);
        n_out += digits;
        p = strchr(p, ']');
    }
    first[n_out] = 0;
    return n_out > 0 ? first : NULL;
}

// Returns whether the user has set it. Then it wins over any launcher.
static bool is_own(const char *by) {
    return is_option(by) || (by && str_starts(by, "DROVER_"));
}

// Reads the variables of a step only: in a batch script they describe the allocation, as
// SLURM_NTASKS does in the shell of an interactive step.
static drv_status read_slurm(const reading *self) {
    node_placement *found = self->found;
    int rank, tasks, nodes;
    const bool inner = found->node_rank.by || found->nodes.by;
    if (is_own(found->node_rank.by) || is_own(found->nodes.by) || !has(self, "SLURM_STEP_ID") ||
            !has(self, "SLURM_PROCID") ||
            (!has(self, "SLURM_NTASKS") && !has(self, "SLURM_STEP_NUM_TASKS")))
        return DRV_OK;
    const char *count = has(self, "SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES",
               *each = has(self, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    DRV_TRY(get_number(self, each, 1, 1 << 24, &tasks));
    DRV_TRY(get_number(self, "SLURM_PROCID", 0, tasks - 1, &rank));
    nodes = tasks;
    if (has(self, count)) DRV_TRY(get_number(self, count, 1, MAX_NODES, &nodes));
    if (inner && tasks != nodes) return DRV_OK; // RANK tells which of a node's tasks this is
    if (tasks > nodes) found->tasks_per_node = (given_number){(tasks + nodes - 1) / nodes, each};
    DRV_TRY(take(self, &found->node_rank, tasks == nodes ? rank : rank * nodes / tasks,
            "SLURM_PROCID"));
    DRV_TRY(take(self, &found->nodes, nodes, count));
    const char *list = get(self, "SLURM_STEP_NODELIST"),
               *first = list ? nodes_first_host(self->a, list) : NULL;
    if (list && !first)
        return drv_fail(DRV_E_USAGE, "SLURM_STEP_NODELIST is \"%s\", expected a list of hosts",
                list);
    take_text(&found->master, first, "SLURM_STEP_NODELIST");
    // The port lies below those that Linux gives to clients, and differs between jobs on one node.
    // The number of a job in a federation of clusters does not fit an int.
    const char *job = get(self, "SLURM_JOB_ID");
    int64_t number;
    if (found->port.by || !job) return DRV_OK;
    if (!str_to_i64(job, &number) || number < 0)
        return drv_fail(DRV_E_USAGE, "SLURM_JOB_ID is \"%s\", expected a number", job);
    found->port = (given_number){15000 + (int)(number % 10000), "SLURM_JOB_ID"};
    return DRV_OK;
}

// --- all of them
static drv_status read_job(const reading *self) {
    static const char *const jobs[] = {"DROVER_JOB_ID", "SLURM_JOB_ID", "RAY_JOB_ID", "VC_JOB_NAME",
            "TORCHELASTIC_RUN_ID", "PET_RDZV_ID"};
    static const char *const counts[] = {"DROVER_RESTART_COUNT", "SLURM_RESTART_COUNT",
            "TORCHELASTIC_RESTART_COUNT"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        take_text(&self->found->job, get(self, jobs[i]), jobs[i]);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !self->found->restarts.by; i++)
        DRV_TRY(take_variable(self, &self->found->restarts, counts[i], 0, INT32_MAX));
    return DRV_OK;
}

static drv_status check(const reading *self) {
    const node_placement *found = self->found;
    if ((has(self, "PET_RDZV_ENDPOINT") || has(self, "PET_RDZV_BACKEND")) && !found->node_rank.by)
        return drv_fail(DRV_E_USAGE,
                "PET_RDZV_ENDPOINT and PET_RDZV_BACKEND ask for an elastic rendezvous, which gives no ranks; expected PET_NODE_RANK and PET_NNODES");
    if (found->nodes.by && found->nodes.value > 1 && !found->node_rank.by)
        return drv_fail(DRV_E_USAGE,
                "%s says %d nodes, but not which of them this node is; expected --node-rank or DROVER_NODE_RANK",
                found->nodes.by, found->nodes.value);
    if (found->nodes.by && found->node_rank.by && found->node_rank.value >= found->nodes.value)
        return drv_fail(DRV_E_USAGE, "%s is %d, expected less than the %d nodes of %s",
                found->node_rank.by, found->node_rank.value, found->nodes.value, found->nodes.by);
    return DRV_OK;
}

drv_status nodes_discover(arena *a, const char *const *environment, node_placement *out) {
    const reading self = {a, environment, out};
    int size = 0;
    if (has(&self, "OMPI_COMM_WORLD_SIZE"))
        DRV_TRY(get_number(&self, "OMPI_COMM_WORLD_SIZE", 1, 1 << 24, &size));
    // A step of Slurm with PMIx may have one task per node, which is not a rank yet.
    out->is_rank = size > 1 || (!has(&self, "SLURM_STEP_ID") &&
                                       ((has(&self, "PMIX_RANK") && has(&self, "PMIX_NAMESPACE")) ||
                                               (has(&self, "PMI_RANK") && has(&self, "PMI_SIZE"))));
    out->master.value = out->master.value ? out->master.value : "";
    out->job.value = "";
    DRV_TRY(read_own(&self));
    DRV_TRY(read_torch(&self));
    DRV_TRY(read_pet(&self));
    DRV_TRY(read_jax(&self));
    DRV_TRY(read_volcano(&self));
    DRV_TRY(read_index(&self));
    DRV_TRY(read_slurm(&self));
    DRV_TRY(read_job(&self));
    return check(&self);
}

int nodes_count(const node_placement *found) {
    return found->nodes.by ? found->nodes.value : 1;
}

const char *nodes_words(arena *a, const node_placement *found, int ranks) {
    const int n = nodes_count(found);
    const char *by = found->node_rank.by ? found->node_rank.by : found->nodes.by;
    const char *each = ranks ? arena_printf(a, " x %d rank%s", ranks, str_plural(ranks)) : "";
    return arena_printf(a, "%d node%s%s%s%s", n, str_plural(n), each, by ? ", by " : "",
            by ? by : "");
}

drv_status nodes_check_alone(const char *const *environment, const char *config) {
    node_placement found = {0};
    drv_status status = DRV_OK;
    arena *a = arena_new("nodes");
    status = nodes_discover(a, environment, &found);
    const int rank = found.node_rank.by ? found.node_rank.value : 0;
    const bool ranks = found.tasks_per_node.value > 1;
    if (status == DRV_OK && (nodes_count(&found) > 1 || rank > 0 || ranks))
        status = drv_fail(DRV_E_USAGE,
                "this is one of several processes (%s), but MPI does not connect them, so each would train alone; expected, once a node, drover launch node %s",
                nodes_words(a, &found, found.tasks_per_node.value), path_for_shell(a, config));
    arena_free(a);
    return status;
}
