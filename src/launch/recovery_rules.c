// Checks the rules of recovery, and reads times.
#include "launch/recovery_rules.h"

#include <string.h>

#define MOST_S (366 * 86400.0)

recovery_rules recovery_rules_of(int n_nodes, int n_spares) {
    return (recovery_rules){.rules = {.window_s = 3600, .min_nodes = n_nodes - n_spares},
            .n_spares = n_spares,
            .grow_after_s = 300};
}

drv_status recovery_rules_check(const recovery_rules *self, int n_nodes) {
    const int full = n_nodes - self->n_spares;
    if (self->n_spares >= n_nodes)
        return drv_fail(DRV_E_USAGE, "--spare-nodes %d, expected fewer than the %d node%s",
                self->n_spares, n_nodes, str_plural(n_nodes));
    if (self->rules.min_nodes > full)
        return drv_fail(DRV_E_USAGE, "--min-nodes %d, expected at most the %d node%s%s",
                self->rules.min_nodes, full, str_plural(full),
                self->n_spares ? " that are not spare" : "");
    return DRV_OK;
}

drv_status recovery_time_read(const char *option, const char *text, double *seconds) {
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    double number = 0, unit = 1;
    char digits[32];
    size_t n = strlen(text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (n > 0 && text[n - 1] == units[i].unit) {
            unit = units[i].seconds;
            n--;
            break;
        }
    if (n > 0 && n < sizeof digits) {
        memcpy(digits, text, n);
        digits[n] = 0;
        if (str_to_f64(digits, &number) && number >= 0 && number * unit <= MOST_S) {
            *seconds = number * unit;
            return DRV_OK;
        }
    }
    return drv_fail(DRV_E_USAGE, "%s is \"%s\", expected a time up to %s, as 90s, 5m or 1h", option,
            text, str_long_duration(MOST_S));
}
