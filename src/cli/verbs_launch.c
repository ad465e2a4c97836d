// drover launch: one process on each node becomes ranks on all of them.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/launch_ask.h"
#include "cli/launch_jobs.h"
#include "cli/launch_plans.h"
#include "cli/launch_rules.h"
#include "config/config.h"
#include "launch/expect.h"
#include "launch/launch.h"

enum { DEFAULT_PORT = 29400, MAX_RANKS = 1 << 24 };

static const cli_option node_options[] = {
        {"--ranks-per-node", "N", "ranks on each node (default: as the launcher says, else 1)"},
        {"--nodes", "N", "nodes of the job (default: as the launcher says)"},
        {"--node-rank", "I", "which of them this is, from 0 (default: as the launcher says)"},
        {"--master", "HOST:PORT", "where node 0 is (default: as the launcher says; port 29400)"},
        {"--wait", "SECONDS", "how long nodes wait for each other (300)"},
        LAUNCH_RULE_OPTIONS,
        {"--preflight", "HOW",
                "measure nodes before ranks: off, warn, exclude (those that stand out) (off)"},
        {"--preflight-seconds", "SECONDS", "for about so long (10)"},
        {"--explain", NULL, "print what follows which failure, and end"},
        {"--fresh", NULL, "as of drover train"},
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

// "localhost" and 127.x: all nodes are on this machine.
static bool is_here(const char *host) {
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0;
}

static drv_status find_secret(launch_job *job) {
    DRV_TRY(launch_read_secret(&job->secret, &job->has_secret));
    if (job->has_secret || job->n_nodes == 1 || is_here(job->placement.master.value)) return DRV_OK;
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
    int n;
    run_config *cfg = ARENA_NEW(a, run_config);
    const char **sets = cli_get_all(a, args, "--set", &n);
    DRV_TRY(config_load(a, args->positional[0], sets, n, cfg));
    job->backend = cfg->backend;
    job->run_dir = cfg->run_dir;
    if (!job->ranks) job->ranks = 1;
    job->planner = launch_planner_new(a, cfg, job->n_nodes, job->ranks);
    return DRV_OK;
}

// --- what follows a failure
static drv_status read_rules(const cli_args *args, launch_job *job) {
    recovery_rules read;
    DRV_TRY(launch_read_rules(args, job->n_nodes, &read));
    job->rules = read.rules;
    job->n_spares = read.n_spares;
    job->grow_after_s = read.grow_after_s;
    return DRV_OK;
}

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
    fputs(text.p, stdout);
    str_free(&text);
    return DRV_OK;
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
    DRV_TRY(read_rules(args, job));
    DRV_TRY(read_preflight(args, job));
    const int full = job->n_nodes - job->n_spares;
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

static drv_status run_agent(arena *a, const cli_args *args) {
    (void)a;
    return launch_agent((const char *const *)args->positional, args->n_positional);
}

static drv_status run_rank(arena *a, const cli_args *args) {
    return launch_rank(a, (const char *const *)args->positional, args->n_positional);
}

enum { MAX_WORDS = 4096 };

static const verb subverbs[] = {
        {
                .name = "node",
                .summary = "train on several nodes, of which this process is one",
                .usage =
                        "CONFIG [--ranks-per-node N] [--nodes N --node-rank I --master HOST:PORT]\n"
                        "CONFIG [--max-restarts N] [--restart-window TIME] [--min-nodes M]\n"
                        "CONFIG [--spare-nodes S] [--grow-after TIME] [--explain]\n"
                        "CONFIG [--preflight off|warn|exclude] [--preflight-seconds SECONDS]\n"
                        "CONFIG [--wait SECONDS] [--fresh] [--set KEY=VALUE]...\n"
                        "CONFIG [--expect-ranks N] [--expect-nodes N]",
                .help = "Started once on each node, as torchrun is, it makes ranks of `drover train` on all of\n"
                        "them, with Open MPI: no ssh, no srun. Which node this is comes from the launcher's\n"
                        "variables: PyTorchJob, TrainJob, JobSet, Volcano, Ray, a Slurm step of one task\n"
                        "a node; or DROVER_NODE_RANK, DROVER_NODES, DROVER_RANKS_PER_NODE, DROVER_MASTER; or the\n"
                        "options. docs/launch.md has an example of each.\n"
                        "\n"
                        "Several hosts share a secret: DROVER_JOB_SECRET_FILE, the same file of mode 0600 on all.\n"
                        "Node 0 listens only until all nodes have connected (with\n"
                        "--max-restarts as long as the job runs), on the address of --master\n"
                        "(or of DROVER_INTERFACE); with port 0 it chooses a free port and\n"
                        "prints it. Local ranks share the cores and, with backend: pjrt, the devices.\n"
                        "\n"
                        "SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 reach the ranks, and it waits for the save. Every\n"
                        "node ends with the status of the first rank that failed: 0, 1, 2, 3, 75 as of drover train.\n"
                        "\n"
                        "--max-restarts N: node 0 restarts the ranks after a failure that\n"
                        "another try may fix (--explain lists which), on the nodes that still\n"
                        "answer and without hosts that failed twice. --spare-nodes S of the\n"
                        "nodes wait to replace a failed one; with --min-nodes M the job\n"
                        "continues with fewer, in the fastest layout that has the same bits (drover plan --elastic).\n"
                        "--preflight measures nodes (drover doctor --node) before an attempt\n"
                        "with new nodes; exclude: a node below 0.8 of the median is used only\n"
                        "if no spare node is left.",
                CLI_OPTIONS(node_options),
                CLI_RULES(node_rules),
                .min_positional = 1,
                .max_positional = 1,
                .run = run_node,
        },
        LAUNCH_JOB_SUBVERBS,
        LAUNCH_ASK_SUBVERBS,
        {
                .name = "agent",
                .usage = "-- HOST WORD...",
                .min_positional = 2,
                .max_positional = MAX_WORDS,
                .run = run_agent,
        },
        {
                .name = "rank",
                .usage = "-- BACKEND ARGUMENT...",
                .min_positional = 2,
                .max_positional = MAX_WORDS,
                .run = run_rank,
        },
};

const verb verb_launch = {
        .name = "launch",
        .summary = "train on several nodes, and write jobs for schedulers",
        CLI_SUBVERBS(subverbs),
};
