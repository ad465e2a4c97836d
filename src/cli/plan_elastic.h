// drover plan --elastic: the layouts of a job on each smaller number of nodes.
#pragma once
#include "cli/cli.h"
#include "search/elastic_layouts.h"

// Options of plan and compile, for the tables of the verbs.
#define ELASTIC_OPTIONS(what)                                                                      \
    {"--elastic", NULL, what}, {"--nodes", "N", "nodes of the whole job, for --elastic"}, {        \
        "--ranks-per-node", "N", "ranks of each node, for --elastic (default 1)"                   \
    }
#define ELASTIC_RULES                                                                              \
    {.option = "--nodes", .needs = "--elastic"}, {                                                 \
        .option = "--ranks-per-node", .needs = "--elastic"                                         \
    }

// Reads --nodes and --ranks-per-node. DRV_E_USAGE: the config does not divide so many ranks.
DRV_CHECKED drv_status elastic_job_read(const cli_args *args, const run_config *cfg,
        elastic_job *out);
DRV_CHECKED drv_status plan_elastic(arena *a, const cli_args *args, const run_config *cfg);
