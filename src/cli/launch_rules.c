// The options of drover launch node that say what follows a failure.
#include "cli/launch_rules.h"

#include "base/str.h"
#include "launch/nodes.h"

const char *const launch_rule_names[N_LAUNCH_RULE_OPTIONS] = {"--max-restarts", "--restart-window",
        "--min-nodes", "--spare-nodes", "--grow-after"};

static drv_status read_time(const cli_args *args, const char *option, double *out) {
    const char *text = cli_get(args, option, NULL);
    if (!text) return DRV_OK;
    DRV_TRY_CTX(recovery_time_read(option, text, out), "%s", args->name);
    return DRV_OK;
}

drv_status launch_read_rules(const cli_args *args, int n_nodes, recovery_rules *out) {
    int64_t restarts = 0, spares = 0, least = 0;
    DRV_TRY(cli_get_i64(args, "--max-restarts", 0, 1000000, &restarts));
    DRV_TRY(cli_get_i64(args, "--spare-nodes", 0, MAX_NODES, &spares));
    DRV_TRY(cli_get_i64(args, "--min-nodes", 1, MAX_NODES, &least));
    *out = recovery_rules_of(n_nodes, (int)spares);
    out->rules.max_restarts = (int)restarts;
    if (least) out->rules.min_nodes = (int)least;
    DRV_TRY_CTX(recovery_rules_check(out, n_nodes), "%s", args->name);
    DRV_TRY(read_time(args, "--restart-window", &out->rules.window_s));
    return read_time(args, "--grow-after", &out->grow_after_s);
}

drv_status launch_read_preflight(const cli_args *args, preflight_use *out) {
    const char *value = cli_get(args, "--preflight", preflight_words[PREFLIGHT_OFF]);
    const int index = str_index(value, preflight_words, N_PREFLIGHT_USES);
    if (index < 0)
        return drv_fail(DRV_E_USAGE, "%s: --preflight \"%s\", expected off, warn or exclude",
                args->name, value);
    *out = (preflight_use)index;
    return DRV_OK;
}
