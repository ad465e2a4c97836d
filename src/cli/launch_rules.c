// The options of drover launch node that say what follows a failure.
#include "cli/launch_rules.h"

#include <string.h>

#include "base/str.h"
#include "launch/nodes.h"

const char *const launch_rule_names[N_LAUNCH_RULE_OPTIONS] = {"--max-restarts", "--restart-window",
        "--min-nodes", "--spare-nodes", "--grow-after"};

// "90s", "5m", "1h", or seconds.
static drv_status read_time(const cli_args *args, const char *option, double most, double *out) {
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    const char *text = cli_get(args, option, NULL);
    double number = 0, unit = 1;
    char digits[32];
    if (!text) return DRV_OK;
    size_t n = strlen(text);
    for (size_t i = 0; i < sizeof units / sizeof *units && n > 0; i++)
        if (text[n - 1] == units[i].unit) {
            unit = units[i].seconds;
            n--;
            break;
        }
    if (n > 0 && n < sizeof digits) {
        memcpy(digits, text, n);
        digits[n] = 0;
        if (str_to_f64(digits, &number) && number >= 0 && number * unit <= most) {
            *out = number * unit;
            return DRV_OK;
        }
    }
    return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected a time up to %s, as 90s, 5m or 1h",
            args->name, option, text, str_long_duration(most));
}

drv_status launch_read_rules(const cli_args *args, int n_nodes, launch_rules *out) {
    const double most_s = 366 * 86400.0;
    int64_t restarts = 0, spares = 0, least = 0;
    DRV_TRY(cli_get_i64(args, "--max-restarts", 0, 1000000, &restarts));
    DRV_TRY(cli_get_i64(args, "--spare-nodes", 0, MAX_NODES, &spares));
    DRV_TRY(cli_get_i64(args, "--min-nodes", 1, MAX_NODES, &least));
    if (spares >= n_nodes)
        return drv_fail(DRV_E_USAGE, "%s: --spare-nodes %lld, expected fewer than the %d node%s",
                args->name, (long long)spares, n_nodes, str_plural(n_nodes));
    const int full = n_nodes - (int)spares;
    if (least > full)
        return drv_fail(DRV_E_USAGE, "%s: --min-nodes %lld, expected at most the %d node%s%s",
                args->name, (long long)least, full, str_plural(full),
                spares ? " that are no spare ones" : "");
    *out = (launch_rules){.rules = {(int)restarts, 3600, least ? (int)least : full},
            .n_spares = (int)spares,
            .grow_after_s = 300};
    DRV_TRY(read_time(args, "--restart-window", most_s, &out->rules.window_s));
    return read_time(args, "--grow-after", most_s, &out->grow_after_s);
}

drv_status launch_read_preflight(const cli_args *args, preflight_use *out) {
    const char *value = cli_get(args, "--preflight", preflight_words[PREFLIGHT_OFF]);
    for (int i = 0; i < N_PREFLIGHT_USES; i++)
        if (strcmp(value, preflight_words[i]) == 0) {
            *out = (preflight_use)i;
            return DRV_OK;
        }
    return drv_fail(DRV_E_USAGE, "%s: --preflight \"%s\", expected off, warn or exclude",
            args->name, value);
}
