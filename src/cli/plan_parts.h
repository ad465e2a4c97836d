// Parts of drover plan: their options, and what they print.
#pragma once
#include "base/json.h"
#include "cli/cli.h"
#include "search/device_plan.h"
#include "search/elastic_layouts.h"
#include "search/layout_search.h"
#include "search/stage_plans.h"

void plan_stages_print(const stage_plans *s);
json_t *plan_stages_json(const stage_plans *s);
// Prints the terms of a step's time as a table, the advice, and the cost of `steps` steps.
void device_plan_print(const device_plan *d, int ranks, int64_t steps);
// Prints the terms that take more than a twentieth of a percent of the step.
void step_terms_print(const step_cost *cost);

// --- --search
// Its options, for the table of the verb.
#define PLAN_SEARCH_OPTIONS                                                                            \
    {"--search", NULL, "list the best layouts of --ranks ranks, each with its keys"},                  \
            {"--top", "N", "how many of them (default 10)"},                                           \
            {"--pin", "AXIS=N",                                                                        \
                    "only layouts with N ranks along tensor, pipeline, context or data (repeatable)"}, \
            {"--gflops", "X", "GFLOP/s of a rank in products (default: of this machine)"},             \
            {"--link", "X[:Y]",                                                                        \
                    "GB/s that a rank can send; X:Y: X in its host, Y to others (default 12.5)"},      \
            {"--ranks-per-host", "N", "ranks of a host, for --link X:Y"}, {                            \
        "--memory", "SIZE", "bytes of a rank, as 80GB or 24GiB (default: free on this machine)"        \
    }
#define PLAN_SEARCH_RULES                                                                          \
    {.option = "--search", .needs = "--ranks", .excludes = "--elastic"},                           \
            {.option = "--top", .needs = "--search"}, {.option = "--pin", .needs = "--search"},    \
            {.option = "--gflops", .needs = "--search --elastic", .excludes = "--device"},         \
            {.option = "--link", .needs = "--search --elastic", .excludes = "--device"},           \
            {.option = "--ranks-per-host", .needs = "--search --elastic"}, {                       \
        .option = "--memory", .needs = "--search --elastic", .excludes = "--device"                \
    }

// Reads the device of a rank from --device, or from the other options and this machine. *on_host:
// the rank's process uses the same memory.
DRV_CHECKED drv_status plan_read_device(arena *a, const cli_args *args, const run_config *cfg,
        int64_t ranks, device_profile *out, bool *on_host);
// Runs the search and prints it. DRV_E_USAGE: no layout is possible (the message says why), or none
// fits.
DRV_CHECKED drv_status plan_search(arena *a, const cli_args *args, const run_config *cfg,
        int64_t ranks);

// --- --elastic
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
