// Parts of drover launch.
#pragma once
#include "cli/cli.h"
#include "launch/jobs/job_spec.h"
#include "launch/launch.h"
#include "launch/supervisor.h"

#define DEFAULT_MOUNT "/shared" // of the volume in pods

// drover launch KIND: writes the files of a job, or submits them, too.
DRV_CHECKED drv_status launch_job_run(arena *a, const cli_args *args);

// Prints what others have written; a terminal gets no control characters of theirs. ctx: NULL.
void launch_print_bytes(void *ctx, const char *bytes, size_t n);

// The verbs for a submitted job (launch_submitted.c).
DRV_CHECKED drv_status launch_run_status(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_logs(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_stop(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_clean(arena *a, const cli_args *args);

// Answers what node 0 of `drover launch node` asks of the config: layouts for fewer nodes, the rows
// of a step, the planned memory (launch_plans.c). cfg is that of the whole job; it must outlive the
// planner, which lives in `a`.
const launch_planner *launch_planner_new(arena *a, const run_config *cfg, int n_nodes, int ranks);

// Options that say what follows a failure of a job of drover launch node; the jobs for schedulers
// take them too and hand them on (launch_rules.c).
#define LAUNCH_RULE_OPTIONS                                                                        \
    {"--max-restarts", "N", "restart the ranks after a failure, at most N times (default 0)"},     \
            {"--restart-window", "TIME",                                                           \
                    "count the restarts within this time: 90s, 10m, 1h (default 1h)"},             \
            {"--min-nodes", "M", "continue with M nodes or more (default: all but spare ones)"},   \
            {"--spare-nodes", "S", "keep S nodes waiting to replace one that fails (default 0)"},  \
    {                                                                                              \
        "--grow-after", "TIME", "how long new nodes wait before they join (default 5m)"            \
    }
enum { N_LAUNCH_RULE_OPTIONS = 5 };
extern const char *const launch_rule_names[N_LAUNCH_RULE_OPTIONS];

// Reads those options of a job of n_nodes. DRV_E_USAGE: not a number or a time, or the rules do not
// suit the nodes (supervisor_rules_check).
DRV_CHECKED drv_status launch_read_rules(const cli_args *args, int n_nodes, supervisor_rules *out);
// Reads --preflight. DRV_E_USAGE: none of its words.
DRV_CHECKED drv_status launch_read_preflight(const cli_args *args, preflight_use *out);
