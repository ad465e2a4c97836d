// The options of drover launch node that say what follows a failure.
#include "cli/launch_jobs.h"

#include "base/str.h"
#include "launch/nodes.h"

#define MOST_S (366 * 86400.0)

const char *const launch_rule_names[N_LAUNCH_RULE_OPTIONS] = {"--max-restarts", "--restart-window",
        "--min-nodes", "--spare-nodes", "--grow-after"};

drv_status launch_read_rules(const cli_args *args, int n_nodes, supervisor_rules *out) {
    int64_t restarts = 0, spares = 0, least = 0;
    DRV_TRY(cli_get_i64(args, "--max-restarts", 0, 1000000, &restarts));
    DRV_TRY(cli_get_i64(args, "--spare-nodes", 0, MAX_NODES, &spares));
    DRV_TRY(cli_get_i64(args, "--min-nodes", 1, MAX_NODES, &least));
    *out = supervisor_rules_of(n_nodes, (int)spares);
    out->max_restarts = (int)restarts;
    if (least) out->min_nodes = (int)least;
    DRV_TRY_CTX(supervisor_rules_check(out, n_nodes), "%s", args->name);
    DRV_TRY(cli_get_seconds(args, "--restart-window", 0, MOST_S, &out->window_s));
    return cli_get_seconds(args, "--grow-after", 0, MOST_S, &out->grow_after_s);
}

drv_status launch_read_preflight(const cli_args *args, preflight_use *out) {
    int index = PREFLIGHT_OFF;
    DRV_TRY(cli_get_choice(args, "--preflight", "off, warn or exclude", &index));
    *out = (preflight_use)index;
    return DRV_OK;
}
