// drover launch: one process on each node becomes ranks on all of them.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/launch_jobs.h"
#include "config/config.h"
#include "launch/expect.h"
#include "launch/launch.h"

enum { DEFAULT_PORT = 29400, MAX_RANKS = 1 << 24 };

static const cli_option node_options[] = {
        {"--ranks-per-node", "N", "ranks on each node (default: as the launcher says, else 1)"},
        {"--nodes", "N", "nodes of the job (default: as the launcher says)"},
        {"--node-rank", "I", "index of this node, from 0 (default: as the launcher says)"},
        {"--master", "HOST:PORT", "address of node 0 (default: as the launcher says; port 29400)"},
        {"--wait", "SECONDS", "how long nodes wait for each other (default 300)"},
        LAUNCH_RULE_OPTIONS,
        {"--preflight", "HOW", "measure nodes first: off, warn, or exclude outliers (default off)"},
        {"--preflight-seconds", "SECONDS", "about how long to measure (default 10)"},
        {"--explain", NULL, "print what happens after each kind of failure, and exit"},
        {"--fresh", NULL, "start at step 0, as with drover train"},
        CLI_EXPECT,
        CLI_SET,
};

static const cli_rule node_rules[] = {{.option = "--preflight-seconds", .needs = "--preflight"}};

static drv_status take_options(arena *a, const cli_args *args, node_placement *w) {
    const struct {
        const char *option;
        given_number *to;
        int64_t min, max;
    } numbers[] = {{"--ranks-per-node", &w->ranks_per_node, 1, MAX_RANKS_PER_NODE},
            {"--nodes", &w->nodes, 1, MAX_NODES}, {"--node-rank", &w->node_rank, 0, MAX_NODES - 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t value = 0;
        DRV_TRY(cli_get_i64(args, numbers[i].option, numbers[i].min, numbers[i].max, &value));
        if (cli_has(args, numbers[i].option))
            *numbers[i].to = (given_number){(int)value, numbers[i].option};
    }
    if (!cli_has(args, "--master")) return DRV_OK;
    int port;
    const char *host;
    DRV_TRY(nodes_split_address(a, cli_get(args, "--master", ""), "--master", &host, &port));
    w->master = (given_text){host, "--master"};
    if (port >= 0) w->port = (given_number){port, "--master"};
    return DRV_OK;
}

static drv_status check_placement(const node_placement *w, int n_nodes) {
    if (w->is_rank)
        return drv_fail(DRV_E_USAGE,
                "launch node: mpirun or srun has started ranks already; expected drover train, or one process a node without MPI");
    if (w->tasks_per_node.value > 1)
        return drv_fail(DRV_E_USAGE, "launch node: %s says %d processes on each node, expected one",
                w->tasks_per_node.by, w->tasks_per_node.value);
    if (w->node_rank.by && !w->nodes.by)
        return drv_fail(DRV_E_USAGE,
                "launch node: %s says that this is node %d, but not how many nodes there are; expected --nodes or DROVER_NODES",
                w->node_rank.by, w->node_rank.value);
    if (n_nodes > 1 && !*w->master.value)
        return drv_fail(DRV_E_USAGE,
                "launch node: the address of node 0 is not known; expected --master HOST:PORT or DROVER_MASTER");
    if (w->port.by && w->port.value == 0 && w->node_rank.value > 0)
        return drv_fail(DRV_E_USAGE,
                "launch node: %s gives port 0, and this is node %d; expected the port that node 0 prints",
                w->port.by, w->node_rank.value);
    return DRV_OK;
}

static drv_status find_secret(launch_job *job) {
    DRV_TRY(launch_read_secret(&job->secret, &job->has_secret));
    if (job->has_secret || job->n_nodes == 1 || launch_is_local(job->placement.master.value))
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "launch node: several hosts need a shared secret; expected DROVER_JOB_SECRET_FILE, a file of mode 0600 with the same random bytes on all nodes");
}

// Collects what `drover train` is to get: the config, and the options that are its own.
static void collect_train(arena *a, const cli_args *args, launch_job *job) {
    int n_sets, n = 0;
    const char **sets = cli_get_all(a, args, "--set", &n_sets);
    const char **list = ARENA_ARRAY(a, const char *, 2 * n_sets + 2);
    for (int i = 0; i < n_sets; i++) {
        list[n++] = "--set";
        list[n++] = sets[i];
    }
    if (cli_has(args, "--fresh")) list[n++] = "--fresh";
    list[n++] = args->positional[0];
    job->train = list;
    job->n_train = n;
}

static drv_status read_config(arena *a, const cli_args *args, launch_job *job) {
    run_config *cfg = ARENA_NEW(a, run_config);
    DRV_TRY(cli_load_config(a, args, cfg));
    job->backend = cfg->backend;
    job->run_dir = cfg->run_dir;
    if (!job->ranks) job->ranks = 1;
    job->planner = launch_planner_new(a, cfg, job->n_nodes, job->ranks);
    return DRV_OK;
}

// --- what follows a failure
static drv_status read_preflight(const cli_args *args, launch_job *job) {
    preflight_use how;
    double seconds = 10;
    DRV_TRY(cli_get_f64(args, "--preflight-seconds", 0.1, 600, &seconds));
    DRV_TRY(launch_read_preflight(args, &how));
    job->prefers = how == PREFLIGHT_EXCLUDE;
    if (how != PREFLIGHT_OFF) job->check_s = seconds;
    return DRV_OK;
}

static drv_status explain(const supervisor_rules *rules) {
    str text = {0};
    supervisor_explain(rules, &text);
    return cli_write_text(NULL, &text);
}

// Finds out which nodes and ranks there are, from the options, the environment and the config.
static drv_status find_placement(arena *a, const cli_args *args, launch_job *job) {
    DRV_TRY(take_options(a, args, &job->placement));
    DRV_TRY(cli_get_f64(args, "--wait", 1, 1e6, &job->wait_s));
    DRV_TRY(nodes_discover(a, (const char *const *)environ, &job->placement));
    job->n_nodes = nodes_count(&job->placement);
    job->node = job->placement.node_rank.value;
    job->ranks = job->placement.ranks_per_node.value;
    job->port = job->placement.port.by ? job->placement.port.value : DEFAULT_PORT;
    DRV_TRY(check_placement(&job->placement, job->n_nodes));
    DRV_TRY(read_config(a, args, job));
    DRV_TRY(launch_read_rules(args, job->n_nodes, &job->rules));
    DRV_TRY(read_preflight(args, job));
    const int full = job->n_nodes - job->rules.n_spares;
    return expect_check(full * job->ranks, full);
}

static drv_status train_here(arena *a, const launch_job *job) {
    const char **argv = ARENA_ARRAY(a, const char *, job->n_train + 3);
    argv[0] = "drover";
    argv[1] = "train";
    memcpy(argv + 2, job->train, sizeof *argv * (size_t)job->n_train);
    execv(job->program, (char *const *)(uintptr_t)argv);
    return drv_fail(DRV_E_IO, "could not run \"%s\": %s", job->program, strerror(errno));
}

static drv_status run_node(arena *a, const cli_args *args) {
    launch_job job = {.wait_s = 300};
    char program[4096];
    DRV_TRY(cli_expect(args));
    DRV_TRY(find_placement(a, args, &job));
    DRV_TRY(find_secret(&job));
    collect_train(a, args, &job);
    if (cli_has(args, "--explain")) return explain(&job.rules);
    unsetenv(EXPECT_NODES); // checked: nodes may be containers of one host
    unsetenv(EXPECT_RANKS); // checked, too: later attempts may have fewer
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) return drv_fail(DRV_E_IO, "could not find this program: %s", strerror(errno));
    program[n] = 0;
    job.program = program;
    log_info("launch: %s; this is node %d", nodes_words(a, &job.placement, job.ranks), job.node);
    if (job.n_nodes == 1 && job.ranks == 1 && job.rules.max_restarts == 0)
        return train_here(a, &job); // no MPI, no port
    return job.node == 0 ? launch_head(a, &job) : launch_member(a, &job);
}

static drv_status run_agent(arena *a DRV_UNUSED, const cli_args *args) {
    return launch_agent((const char *const *)args->positional, args->n_positional);
}

static drv_status run_rank(arena *a, const cli_args *args) {
    return launch_rank(a, (const char *const *)args->positional, args->n_positional);
}

enum { MAX_WORDS = 4096 };

// --- jobs for schedulers
#define ALL_KINDS                                                                                  \
    {"--nodes", "N", "number of machines, including spare ones (default 1)"},                      \
            {"--instance", "TYPE",                                                                 \
                    "type of machine (an unknown one lists all); ml.TYPE: HyperPod"},              \
            {"--instance-file", "FILE", "another type, in YAML (docs/launch-jobs.md)"},            \
            {"--device", "NAME|FILE", "profile of a rank's device (default: that of the type)"},   \
            {"--ranks-per-node", "N", "ranks on each (default: one per device core; 1 on cpu)"},   \
            {"--name", "NAME", "name of the job (default: from the name of CONFIG)"},              \
            {"--job", "WORK", "train (default), compile CONFIG's programs, or data (VERB)"},       \
            {"--tries", "N", "how many times to try again after status 75 (default 3)"},           \
            {"--grace", "SECONDS", "time for a last save (default: by the run's saves, or 600)"},  \
            {"--out", "DIR", "new or empty folder for the files (default launch/NAME-KIND)"},      \
            {"--submit", NULL, "also submit the job to the scheduler"}, CLI_SET,                   \
            LAUNCH_RULE_OPTIONS
#define QUEUE(what)                                                                                \
    { "--queue", "NAME", what }
#define TIME                                                                                       \
    { "--time", "TIME", "time limit of each try: 90m, 1h30m, 7d, HH:MM:SS, D-HH:MM:SS" }
#define PREFLIGHT(says)                                                                            \
    { "--preflight", "HOW", says }
#define OF_NODES "off, warn or exclude, as for drover launch node (default off)"
#define VOLUME                                                                                     \
    {"--image", "IMAGE", "container image with drover (docs/launch-jobs.md)"},                     \
            {"--pvc", "NAME", "PersistentVolumeClaim of the volume with data and runs"}, {         \
        "--mount", "DIR", "mount point, where paths begin (default " DEFAULT_MOUNT ")"             \
    }
#define TOPOLOGY(what)                                                                             \
    { "--topology", "WHERE", what }
#define OF_KEYS  "node label whose value all ranks share, as topology.kubernetes.io/zone"
#define OF_TIERS "highest network tier in Volcano that the ranks may span"
#define POD_OPTIONS                                                                                \
    {"--env", "NAME=VALUE", "set a variable for drover (repeatable)"},                             \
            {"--secret-env", "NAME=SECRET:KEY",                                                    \
                    "set one from a Secret, as HF_TOKEN=hub:token (repeatable)"},                  \
            {"--label", "KEY=VALUE", "label of all objects and pods (repeatable)"},                \
            {"--annotation", "KEY=VALUE", "annotation of all pods (repeatable)"},                  \
            {"--toleration", "KEY[=VALUE][:EFFECT]", "toleration of all pods (repeatable)"},       \
            {"--node-selector", "KEY=VALUE", "node selector of all pods (repeatable)"},            \
            {"--image-pull-secret", "NAME", "secret for the image's registry (repeatable)"},       \
            {"--priority-class", "NAME", "priority class of all pods"}, {                          \
        "--service-account", "NAME", "service account of all pods"                                 \
    }
#define PODS                                                                                       \
    {"--namespace", "NAME", "namespace (default: that of kubectl's context)"},                     \
            {"--shm", "SIZE", "size of /dev/shm in each pod (default: 1/8 of its memory)"},        \
            {"--page", NULL,                                                                       \
                    "also write a Deployment that serves the run's page, with a password"},        \
            POD_OPTIONS

static const cli_option slurm_options[] = {
        ALL_KINDS,
        QUEUE("Slurm's partition"),
        TIME,
        TOPOLOGY("maximum number of leaf switches that the nodes may use"),
        {"--tasks", "HOW",
                "rank: srun starts ranks by PMIx; node: it starts launch node (default on Neuron)"},
        PREFLIGHT("warn: name outliers; exclude: try without them; off (default)"),
};
static const cli_option volcano_options[] = {ALL_KINDS, VOLUME, PODS, QUEUE("Volcano's queue"),
        TIME, TOPOLOGY(OF_TIERS), PREFLIGHT(OF_NODES)};
static const cli_option operator_options[] = {ALL_KINDS, VOLUME, PODS,
        QUEUE("local queue of Kueue, which starts the job"), TIME, TOPOLOGY(OF_KEYS),
        PREFLIGHT(OF_NODES)};
static const cli_option ray_options[] = {ALL_KINDS, VOLUME, PODS,
        QUEUE("local queue of Kueue, which starts the job; with --gang, Volcano's queue"), TIME,
        TOPOLOGY(OF_KEYS "; with --gang Volcano's highest tier"), PREFLIGHT(OF_NODES),
        {"--gang", NULL, "Volcano starts all pods of the cluster or none"},
        {"--cluster", "NAME", "submit the job to this permanent RayCluster"}};
static const cli_option trainjob_options[] = {ALL_KINDS, VOLUME, PODS,
        QUEUE("local queue of Kueue, which starts the job"), TIME, TOPOLOGY(OF_KEYS),
        PREFLIGHT(OF_NODES),
        {"--policy", "HOW", "mpi: mpirun over ssh; torch: launch node (default on Neuron)"},
        {"--progress", NULL, "with mpi, post progress to Trainer (gate TrainJobStatus)"}};

static const cli_rule job_rules[] = {
        {.option = "--instance-file", .excludes = "--instance"},
};

static const char job_help[] =
        "Writes the scheduler's files to train CONFIG on N machines of a type, after checking that the\n"
        "layout divides the ranks and that the plan fits their memory, and prints the next commands.\n"
        "After an error nothing is written. A job that ends with 75 is tried again. One that ends with 1\n"
        "or 2 would fail again, so it is not tried again if the kind can tell these statuses apart.\n"
        "Before a time limit, an eviction or a shutdown the ranks save.\n"
        "\n"
        "Pods run as user 1000 without privileges (except IPC_LOCK for EFA), and their requests equal\n"
        "their limits. The config is in a ConfigMap. If several nodes run drover launch node, they share\n"
        "a Secret, which --submit creates and no file contains. Kinds that run drover launch node pass\n"
        "the options about failures to it (--max-restarts, --spare-nodes and so on). --job compile and\n"
        "--job data write jobs that use the same image for drover compile CONFIG and for preparing data:\n"
        "  drover launch trainjob --job data --instance cpu ...\n"
        "      -- data build --input text --out data/set\n"
        "\n"
        "docs/launch-jobs.md describes the kinds, how each handles the end of a run, and the image.\n"
        "Example: drover launch slurm run.yaml --nodes 16 --instance trn1.32xlarge\n"
        "             --time 24h --set backend=pjrt --set pjrt.plugin=neuron";

// A subverb that writes the files of a job.
#define JOB_SUBVERB(word, says, list)                                                              \
    {                                                                                              \
        .name = word, .summary = says,                                                             \
        .usage = "CONFIG --nodes N --instance TYPE [OPTION]... [--set KEY=VALUE]...\n"             \
                 "--job data --instance TYPE [OPTION]... -- VERB WORD...",                         \
        .help = job_help, CLI_OPTIONS(list), CLI_RULES(job_rules), CLI_WORDS(1, MAX_WORDS),        \
        .run = launch_job_run,                                                                     \
    }

// --- jobs that were submitted
#define ASK_LIMIT                                                                                  \
    { "--limit", "SECONDS", "limit for each call of the scheduler's program (default 60)" }
#define ASK_OPTIONS                                                                                \
    {"--run-dir", "DIR", "path of the run directory on this machine (default: the job's)"},        \
            ASK_LIMIT

static const cli_option status_options[] = {CLI_JSON, ASK_OPTIONS};
static const cli_option logs_options[] = {{"--lines", "N", "how many lines to print (default 100)"},
        ASK_LIMIT};
static const cli_option stop_options[] =
        {{"--wait", "SECONDS", "how long to wait (default: the job's --grace and a minute)"},
                ASK_OPTIONS};
static const cli_option clean_options[] = {{"--yes", NULL, "remove without asking"}, ASK_LIMIT};

#define ASK_COMMON                                                                                       \
    "\n\n"                                                                                               \
    "JOB_DIR is a folder that drover launch KIND has written. Its launch.json identifies the job; you\n" \
    "may have edited the other files. drover asks the scheduler's own program (squeue, kubectl), and\n"  \
    "waits at most --limit seconds for each answer. docs/launch-jobs.md has the details."

static const verb subverbs[] = {
        {
                .name = "node",
                .summary = "train on several nodes; run it once on each of them",
                .usage =
                        "CONFIG [--ranks-per-node N] [--nodes N --node-rank I --master HOST:PORT]\n"
                        "CONFIG [--max-restarts N] [--restart-window TIME] [--min-nodes M]\n"
                        "CONFIG [--spare-nodes S] [--grow-after TIME] [--explain]\n"
                        "CONFIG [--preflight off|warn|exclude] [--preflight-seconds SECONDS]\n"
                        "CONFIG [--wait SECONDS] [--fresh] [--set KEY=VALUE]...\n"
                        "CONFIG [--expect-ranks N] [--expect-nodes N]",
                .help = "Run it once on each node, as you would run torchrun. It starts the ranks of `drover train` on\n"
                        "all nodes with Open MPI, without ssh or srun. It learns which node this is from the variables of\n"
                        "the launcher (PyTorchJob, TrainJob, JobSet, Volcano, Ray, a Slurm step of one task per node),\n"
                        "from DROVER_NODE_RANK, DROVER_NODES, DROVER_RANKS_PER_NODE and DROVER_MASTER, or from the\n"
                        "options. docs/launch.md has an example of each.\n"
                        "\n"
                        "Several hosts share a secret: DROVER_JOB_SECRET_FILE, the same file of mode 0600 on all. Node 0\n"
                        "listens on the address of --master (or of DROVER_INTERFACE), only until all nodes have\n"
                        "connected, or with --max-restarts as long as the job runs. With port 0 it chooses a free port\n"
                        "and prints it. Local ranks share the cores and, with backend: pjrt, the devices.\n"
                        "\n"
                        "SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 reach the ranks, and the program waits for their\n"
                        "save. Every node ends with the status of the first rank that failed: 0, 1, 2, 3 or 75, as drover\n"
                        "train does.\n"
                        "\n"
                        "--max-restarts N: node 0 restarts the ranks after a failure that another try may fix (--explain\n"
                        "lists which), on the nodes that still answer and without hosts that failed twice. --spare-nodes\n"
                        "S of the nodes wait to replace a failed one. With --min-nodes M the job continues with fewer\n"
                        "nodes, in the fastest layout that has the same bits (drover plan --elastic). --preflight\n"
                        "measures nodes (drover doctor --node) before an attempt with new nodes; with exclude, a node\n"
                        "below 0.8 of the median is used only if no spare node is left.",
                CLI_OPTIONS(node_options),
                CLI_RULES(node_rules),
                CLI_WORDS(1, 1),
                .run = run_node,
        },
        JOB_SUBVERB("slurm", "write a script for sbatch", slurm_options),
        JOB_SUBVERB("trainjob", "write a TrainJob of Kubeflow Trainer and its runtime",
                trainjob_options),
        JOB_SUBVERB("mpi-operator", "write an MPIJob of the MPI Operator", operator_options),
        JOB_SUBVERB("pytorchjob", "write a PyTorchJob of the training operator", operator_options),
        JOB_SUBVERB("ray", "write a RayJob and a RayCluster of KubeRay", ray_options),
        JOB_SUBVERB("volcano", "write a Job of Volcano", volcano_options),
        {
                .name = "status",
                .summary = "print the state of a job of drover launch",
                .usage = "JOB_DIR [--json] [--run-dir DIR] [--limit SECONDS]",
                .help = "Prints whether the job is queued (and why), runs (at which step of which attempt) or has ended\n"
                        "(by which rank and cause). It combines the scheduler's answer with the run's status.json, which\n"
                        "it reads on this machine or in a running pod." ASK_COMMON,
                CLI_OPTIONS(status_options),
                CLI_WORDS(1, 1),
                .run = launch_run_status,
        },
        {
                .name = "logs",
                .summary = "print the last lines of a job's log",
                .usage = "JOB_DIR [--lines N] [--limit SECONDS]",
                .help = "Prints the last lines of Slurm's log file, or of the log of the launcher pod or the first pod in\n"
                        "Kubernetes." ASK_COMMON,
                CLI_OPTIONS(logs_options),
                CLI_WORDS(1, 1),
                .run = launch_run_logs,
        },
        {
                .name = "stop",
                .summary = "ask a job to save and stop, and wait for it",
                .usage = "JOB_DIR [--wait SECONDS] [--run-dir DIR] [--limit SECONDS]",
                .help = "Sends SIGUSR1 to the ranks of a Slurm job, or deletes a Kubernetes job, whose pods then save\n"
                        "within their grace period. A job that is queued leaves the queue. To continue the run, submit\n"
                        "the same job again. Exit status 75: the job still runs after --wait." ASK_COMMON,
                CLI_OPTIONS(stop_options),
                CLI_WORDS(1, 1),
                .run = launch_run_stop,
        },
        {
                .name = "clean",
                .summary = "remove the files and objects of a job that has ended",
                .usage = "JOB_DIR [--yes] [--limit SECONDS]",
                .help = "Lists the Kubernetes objects with the job's label, Slurm's log and the files of JOB_DIR, and\n"
                        "removes them if you answer yes. The run directory stays." ASK_COMMON,
                CLI_OPTIONS(clean_options),
                CLI_WORDS(1, 1),
                .run = launch_run_clean,
        },
        {
                .name = "agent",
                .usage = "-- HOST WORD...",
                CLI_WORDS(2, MAX_WORDS),
                .run = run_agent,
        },
        {
                .name = "rank",
                .usage = "-- BACKEND ARGUMENT...",
                CLI_WORDS(2, MAX_WORDS),
                .run = run_rank,
        },
};

const verb verb_launch = {
        .name = "launch",
        .summary = "train on several nodes, and write jobs for schedulers",
        CLI_SUBVERBS(subverbs),
};
