// One list of launchers' variables, read in the order of who knows best: options, our own
// variables, torchrun's (RANK), those that operators set for torchrun (PET_), JAX's, Volcano's, the
// index of a Job, and last Slurm's, which under another launcher are those of its daemon.
// Legend: r what is being read, w the world that comes of it.
#include "launch/nodes.h"

#include <string.h>

#include "base/str.h"

typedef struct reading {
    arena *a;
    const char *const *environment;
    node_world *w;
} reading;

// --- variables
// The value; NULL where the variable is not there or empty.
static const char *get(const reading *r, const char *name) {
    const size_t n = strlen(name);
    for (const char *const *v = r->environment; *v; v++)
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=') return (*v)[n + 1] ? *v + n + 1 : NULL;
    return NULL;
}

static bool has(const reading *r, const char *name) {
    return get(r, name) != NULL;
}

static drv_status get_number(const reading *r, const char *name, int min, int max, int *out) {
    int64_t x;
    const char *text = get(r, name);
    if (!str_to_i64(text, &x) || x < min || x > max)
        return drv_fail(DRV_E_USAGE, "%s is \"%s\", expected a number from %d to %d", name, text,
                min, max);
    *out = (int)x;
    return DRV_OK;
}

static bool is_option(const char *by) {
    return by && strncmp(by, "--", 2) == 0;
}

// --- what is said, once or in agreement
static drv_status take(const reading *r, said_number *s, int value, const char *name) {
    if (!s->by) *s = (said_number){value, arena_strdup(r->a, name)};
    if (s->value == value || is_option(s->by)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "the launcher contradicts itself: %s is %d, but by %s it is %d; expected the same, or an option of drover launch node",
            s->by, s->value, name, value);
}

static drv_status take_variable(const reading *r, said_number *s, const char *name, int min,
        int max) {
    int value;
    if (!has(r, name)) return DRV_OK;
    DRV_TRY(get_number(r, name, min, max, &value));
    return take(r, s, value, name);
}

// The first one counts: names of one host differ.
static void take_text(said_text *s, const char *value, const char *by) {
    if (!s->by && value && *value) *s = (said_text){value, by};
}

static drv_status take_master(const reading *r, const char *host, const char *port) {
    const bool ours = !r->w->master.by;
    take_text(&r->w->master, get(r, host), host);
    if (!ours || r->w->port.by) return DRV_OK;
    return take_variable(r, &r->w->port, port, 0, 65535);
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

static drv_status take_address(const reading *r, const char *name) {
    const char *host;
    int port;
    if (!has(r, name) || r->w->master.by) return DRV_OK;
    DRV_TRY(nodes_split_address(r->a, get(r, name), name, &host, &port));
    r->w->master = (said_text){host, name};
    if (port >= 0 && !r->w->port.by) r->w->port = (said_number){port, name};
    return DRV_OK;
}

// --- launchers
static drv_status read_own(const reading *r) {
    node_world *w = r->w;
    DRV_TRY(take_variable(r, &w->node_rank, "DROVER_NODE_RANK", 0, MAX_NODES - 1));
    DRV_TRY(take_variable(r, &w->nodes, "DROVER_NODES", 1, MAX_NODES));
    DRV_TRY(take_variable(r, &w->ranks_per_node, "DROVER_RANKS_PER_NODE", 1, MAX_RANKS_PER_NODE));
    return take_address(r, "DROVER_MASTER");
}

// "4", or "4:4"; another range is elastic: a world without ranks.
static drv_status read_pet_nodes(const reading *r) {
    const char *text = get(r, "PET_NNODES"), *colon = text ? strchr(text, ':') : NULL;
    if (!text) return DRV_OK;
    int64_t least, most;
    if (!colon) return take_variable(r, &r->w->nodes, "PET_NNODES", 1, MAX_NODES);
    const char *first = arena_strndup(r->a, text, (size_t)(colon - text));
    if (!str_to_i64(first, &least) || !str_to_i64(colon + 1, &most) || least != most || most < 1 ||
            most > MAX_NODES)
        return drv_fail(DRV_E_USAGE,
                "PET_NNODES is \"%s\": elastic jobs have no fixed ranks; expected one number of nodes (a PyTorchJob with Master and Worker, without elasticPolicy)",
                text);
    return take(r, &r->w->nodes, (int)most, "PET_NNODES");
}

static drv_status read_pet_ranks(const reading *r) {
    static const char *const any[] = {"auto", "gpu", "cpu"};
    const char *text = get(r, "PET_NPROC_PER_NODE");
    for (int i = 0; i < 3 && text; i++)
        if (strcmp(text, any[i]) == 0) return DRV_OK;
    return take_variable(r, &r->w->ranks_per_node, "PET_NPROC_PER_NODE", 1, MAX_RANKS_PER_NODE);
}

static drv_status read_pet(const reading *r) {
    DRV_TRY(read_pet_nodes(r));
    DRV_TRY(take_variable(r, &r->w->node_rank, "PET_NODE_RANK", 0, MAX_NODES - 1));
    DRV_TRY(read_pet_ranks(r));
    return take_master(r, "PET_MASTER_ADDR", "PET_MASTER_PORT");
}

// RANK is a process's under torchrun, and a pod's where an operator sets it. A PyTorchJob counts
// processes in WORLD_SIZE and pods in RANK; with PET_NNODES the former says nothing new.
static drv_status read_torch(const reading *r) {
    node_world *w = r->w;
    int rank, size, here = 1;
    const bool ranked = has(r, "RANK"), sized = has(r, "WORLD_SIZE");
    if (!ranked && !sized) return DRV_OK;
    if (ranked != sized)
        return drv_fail(DRV_E_USAGE, "%s is set, but not %s; expected both or none of them",
                ranked ? "RANK" : "WORLD_SIZE", ranked ? "WORLD_SIZE" : "RANK");
    DRV_TRY(get_number(r, "WORLD_SIZE", 1, MAX_NODES, &size));
    DRV_TRY(get_number(r, "RANK", 0, size - 1, &rank));
    DRV_TRY(take_master(r, "MASTER_ADDR", "MASTER_PORT"));
    if (has(r, "LOCAL_WORLD_SIZE")) {
        DRV_TRY(get_number(r, "LOCAL_WORLD_SIZE", 1, size, &here));
        if (here > 1) w->tasks_per_node = (said_number){here, "LOCAL_WORLD_SIZE"};
        DRV_TRY(take(r, &w->nodes, size / here, "WORLD_SIZE"));
        return take(r, &w->node_rank, rank / here, "RANK");
    }
    DRV_TRY(take(r, &w->node_rank, rank, "RANK"));
    if (!has(r, "PET_NNODES")) return take(r, &w->nodes, size, "WORLD_SIZE");
    DRV_TRY(read_pet(r));
    const int ranks = w->nodes.value * (w->ranks_per_node.by ? w->ranks_per_node.value : 1);
    if (is_option(w->nodes.by) || is_option(w->ranks_per_node.by) || size == ranks) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "WORLD_SIZE is %d, but %s and PET_NPROC_PER_NODE give %d; expected the same", size,
            w->nodes.by, ranks);
}

static drv_status read_jax(const reading *r) {
    DRV_TRY(take_variable(r, &r->w->node_rank, "JAX_PROCESS_ID", 0, MAX_NODES - 1));
    DRV_TRY(take_variable(r, &r->w->nodes, "JAX_NUM_PROCESSES", 1, MAX_NODES));
    return take_address(r, "JAX_COORDINATOR_ADDRESS");
}

// VC_<TASK>_NUM and VC_<TASK>_HOSTS stand there for each task of the job; with several tasks an
// index says nothing of the job's order.
static drv_status read_volcano(const reading *r) {
    const char *task = NULL;
    int n_tasks = 0;
    if (!has(r, "VC_TASK_INDEX") || r->w->node_rank.by) return DRV_OK;
    for (const char *const *v = r->environment; *v; v++) {
        const char *end = strchr(*v, '=');
        const char *name = end ? arena_strndup(r->a, *v, (size_t)(end - *v)) : "";
        if (!str_starts(name, "VC_") || !str_ends(name, "_NUM")) continue;
        task = arena_strndup(r->a, name, strlen(name) - 4);
        n_tasks++;
    }
    if (n_tasks != 1)
        return drv_fail(DRV_E_USAGE,
                "VC_TASK_INDEX is the index in one of %d tasks of the job; expected one task, the plugin pytorch, or --node-rank and --nodes",
                n_tasks);
    DRV_TRY(take_variable(r, &r->w->node_rank, "VC_TASK_INDEX", 0, MAX_NODES - 1));
    DRV_TRY(take_variable(r, &r->w->nodes, arena_printf(r->a, "%s_NUM", task), 1, MAX_NODES));
    const char *name = arena_printf(r->a, "%s_HOSTS", task), *hosts = get(r, name);
    if (hosts) take_text(&r->w->master, arena_strndup(r->a, hosts, strcspn(hosts, ", ")), name);
    return DRV_OK;
}

static drv_status read_index(const reading *r) {
    return take_variable(r, &r->w->node_rank, "JOB_COMPLETION_INDEX", 0, MAX_NODES - 1);
}

// --- Slurm
const char *nodes_first_host(arena *a, const char *list) {
    const size_t before = strcspn(list, "[,"), n = strlen(list);
    if (n == 0 || n > (1 << 20) || strspn(list, "-") > 0) return NULL;
    for (const char *p = list; *p; p++)
        if (!strchr("[],-._", *p) && !((*p | 32) >= 'a' && (*p | 32) <= 'z') &&
                !(*p >= '0' && *p <= '9'))
            return NULL;
    if (list[before] != '[') return before > 0 ? arena_strndup(a, list, before) : NULL;
    const char *first = list + before + 1, *end = strchr(first, ']');
    const size_t digits = strspn(first, "0123456789");
    if (!end || digits == 0 || !strchr(",-]", first[digits])) return NULL;
    const size_t after = strcspn(end + 1, "[],");
    return arena_printf(a, "%.*s%.*s%.*s", (int)before, list, (int)digits, first, (int)after,
            end + 1);
}

// Returns whether the user has said it: that counts, whatever launcher is around.
static bool is_own(const char *by) {
    return is_option(by) || (by && str_starts(by, "DROVER_"));
}

// A step alone: in the batch script the variables are those of the allocation, as SLURM_NTASKS is
// in the shell of an interactive step.
static drv_status read_slurm(const reading *r) {
    node_world *w = r->w;
    int rank, tasks, nodes, job = 0;
    const bool inner = w->node_rank.by || w->nodes.by;
    if (is_own(w->node_rank.by) || is_own(w->nodes.by) || !has(r, "SLURM_STEP_ID") ||
            !has(r, "SLURM_PROCID") || (!has(r, "SLURM_NTASKS") && !has(r, "SLURM_STEP_NUM_TASKS")))
        return DRV_OK;
    const char *count = has(r, "SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES",
               *each = has(r, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    DRV_TRY(get_number(r, each, 1, 1 << 24, &tasks));
    DRV_TRY(get_number(r, "SLURM_PROCID", 0, tasks - 1, &rank));
    nodes = tasks;
    if (has(r, count)) DRV_TRY(get_number(r, count, 1, MAX_NODES, &nodes));
    if (inner && tasks != nodes) return DRV_OK; // which of a node's tasks is meant, RANK has said
    if (tasks > nodes) w->tasks_per_node = (said_number){(tasks + nodes - 1) / nodes, each};
    DRV_TRY(take(r, &w->node_rank, tasks == nodes ? rank : rank * nodes / tasks, "SLURM_PROCID"));
    DRV_TRY(take(r, &w->nodes, nodes, count));
    const char *list = get(r, "SLURM_STEP_NODELIST"),
               *first = list ? nodes_first_host(r->a, list) : NULL;
    if (list && !first)
        return drv_fail(DRV_E_USAGE, "SLURM_STEP_NODELIST is \"%s\", expected a list of hosts",
                list);
    take_text(&w->master, first, "SLURM_STEP_NODELIST");
    if (has(r, "SLURM_JOB_ID")) DRV_TRY(get_number(r, "SLURM_JOB_ID", 0, INT32_MAX, &job));
    // Below the ports that Linux gives to clients; jobs that share a node have different ones.
    if (!w->port.by && job) w->port = (said_number){15000 + job % 10000, "SLURM_JOB_ID"};
    return DRV_OK;
}

// --- all of them
static drv_status read_job(const reading *r) {
    static const char *const jobs[] = {"DROVER_JOB_ID", "SLURM_JOB_ID", "RAY_JOB_ID", "VC_JOB_NAME",
            "TORCHELASTIC_RUN_ID", "PET_RDZV_ID"};
    static const char *const counts[] = {"DROVER_RESTART_COUNT", "SLURM_RESTART_COUNT",
            "TORCHELASTIC_RESTART_COUNT"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        take_text(&r->w->job, get(r, jobs[i]), jobs[i]);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !r->w->restarts.by; i++)
        DRV_TRY(take_variable(r, &r->w->restarts, counts[i], 0, INT32_MAX));
    return DRV_OK;
}

static drv_status check(const reading *r) {
    const node_world *w = r->w;
    if ((has(r, "PET_RDZV_ENDPOINT") || has(r, "PET_RDZV_BACKEND")) && !w->node_rank.by)
        return drv_fail(DRV_E_USAGE,
                "PET_RDZV_ENDPOINT and PET_RDZV_BACKEND ask for an elastic rendezvous, which gives no ranks; expected PET_NODE_RANK and PET_NNODES");
    if (w->nodes.by && w->nodes.value > 1 && !w->node_rank.by)
        return drv_fail(DRV_E_USAGE,
                "%s says %d nodes, but nothing which of them this one is; expected --node-rank or DROVER_NODE_RANK",
                w->nodes.by, w->nodes.value);
    if (w->nodes.by && w->node_rank.by && w->node_rank.value >= w->nodes.value)
        return drv_fail(DRV_E_USAGE, "%s is %d, expected less than the %d nodes of %s",
                w->node_rank.by, w->node_rank.value, w->nodes.value, w->nodes.by);
    return DRV_OK;
}

drv_status nodes_discover(arena *a, const char *const *environment, node_world *out) {
    const reading r = {a, environment, out};
    int size = 0;
    if (has(&r, "OMPI_COMM_WORLD_SIZE"))
        DRV_TRY(get_number(&r, "OMPI_COMM_WORLD_SIZE", 1, 1 << 24, &size));
    // A step of Slurm with PMIx may have one task a node, which is no rank yet.
    out->is_rank = size > 1 || (!has(&r, "SLURM_STEP_ID") &&
                                       ((has(&r, "PMIX_RANK") && has(&r, "PMIX_NAMESPACE")) ||
                                               (has(&r, "PMI_RANK") && has(&r, "PMI_SIZE"))));
    out->master.value = out->master.value ? out->master.value : "";
    out->job.value = "";
    DRV_TRY(read_own(&r));
    DRV_TRY(read_torch(&r));
    DRV_TRY(read_pet(&r));
    DRV_TRY(read_jax(&r));
    DRV_TRY(read_volcano(&r));
    DRV_TRY(read_index(&r));
    DRV_TRY(read_slurm(&r));
    DRV_TRY(read_job(&r));
    return check(&r);
}

int nodes_count(const node_world *w) {
    return w->nodes.by ? w->nodes.value : 1;
}

const char *nodes_words(arena *a, const node_world *w, int ranks) {
    const int n = nodes_count(w);
    const char *by = w->node_rank.by ? w->node_rank.by : w->nodes.by;
    const char *each = ranks ? arena_printf(a, " x %d rank%s", ranks, str_plural(ranks)) : "";
    return arena_printf(a, "%d node%s%s%s%s", n, str_plural(n), each, by ? ", by " : "",
            by ? by : "");
}

drv_status nodes_check_alone(const char *const *environment, const char *config) {
    node_world w = {0};
    drv_status status = DRV_OK;
    arena *a = arena_new("nodes");
    status = nodes_discover(a, environment, &w);
    const int rank = w.node_rank.by ? w.node_rank.value : 0;
    const bool ranks = w.tasks_per_node.value > 1;
    if (status == DRV_OK && (nodes_count(&w) > 1 || rank > 0 || ranks))
        status = drv_fail(DRV_E_USAGE,
                "this is one of several processes (%s), but no MPI joins them, and each would train alone; expected, once a node, drover launch node %s",
                nodes_words(a, &w, w.tasks_per_node.value), config);
    arena_free(a);
    return status;
}
