#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

static const cli_option *find(const verb *v, const char *name) {
    for (int i = 0; i < v->n_options; i++)
        if (strcmp(v->options[i].name, name) == 0) return &v->options[i];
    return NULL;
}

static drv_status unknown(const verb *v, const char *name) {
    const char *names[64];
    int n = 0;
    for (; n < v->n_options && n < 64; n++)
        names[n] = v->options[n].name;
    const char *near = str_nearest(name, names, n);
    return drv_fail(DRV_E_USAGE, "%s: unknown option \"%s\"%s%s%s; see drover %s --help", v->name,
            name, near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "", v->name);
}

drv_status cli_parse(arena *a, const verb *v, int argc, char **argv, int min_positional,
        int max_positional, cli_args *out) {
    *out = (cli_args){.v = v, .positional = ARENA_ARRAY(a, char *, argc + 1)};
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || !argv[i][1]) {
            out->positional[out->n_positional++] = argv[i];
            continue;
        }
        char *eq = strchr(argv[i], '=');
        const char *name = argv[i], *value = NULL;
        if (eq && str_starts(name, "--")) {
            name = arena_strndup(a, argv[i], (size_t)(eq - argv[i]));
            value = eq + 1;
        }
        const cli_option *o = find(v, name);
        if (!o) return unknown(v, name);
        do { // an option followed by several values: --input A B C
            if (o->value && !value) {
                if (i + 1 >= argc)
                    return drv_fail(DRV_E_USAGE, "%s: %s needs a value: %s", v->name, name,
                            o->value);
                value = argv[++i];
            }
            if (!o->value && value)
                return drv_fail(DRV_E_USAGE, "%s: %s takes no value", v->name, name);
            if (out->n_options >= 256)
                return drv_fail(DRV_E_USAGE, "%s: more than 256 options", v->name);
            out->option[out->n_options].name = o->name;
            out->option[out->n_options++].value = value;
            value = NULL;
        } while (o->value && str_ends(o->value, "...") && i + 1 < argc && argv[i + 1][0] != '-');
    }
    if (out->n_positional < min_positional || out->n_positional > max_positional)
        return drv_fail(DRV_E_USAGE, "usage: drover %s %s", v->name, v->usage);
    return DRV_OK;
}

const char *cli_get(const cli_args *c, const char *name, const char *otherwise) {
    for (int i = c->n_options - 1; i >= 0; i--)
        if (strcmp(c->option[i].name, name) == 0) return c->option[i].value;
    return otherwise;
}

bool cli_has(const cli_args *c, const char *name) {
    for (int i = 0; i < c->n_options; i++)
        if (strcmp(c->option[i].name, name) == 0) return true;
    return false;
}

drv_status cli_get_i64(const cli_args *c, const char *name, int64_t min, int64_t max,
        int64_t *inout) {
    const char *s = cli_get(c, name, NULL);
    if (!s) return DRV_OK;
    int64_t x;
    if (!str_to_i64(s, &x) || x < min || x > max)
        return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected a whole number from %lld to %lld",
                c->v->name, name, s, (long long)min, (long long)max);
    *inout = x;
    return DRV_OK;
}

drv_status cli_get_f64(const cli_args *c, const char *name, double min, double max, double *inout) {
    const char *s = cli_get(c, name, NULL);
    if (!s) return DRV_OK;
    double x;
    if (!str_to_f64(s, &x) || x < min || x > max)
        return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected a number from %g to %g",
                c->v->name, name, s, min, max);
    *inout = x;
    return DRV_OK;
}

drv_status cli_get_bytes(const cli_args *c, const char *name, int64_t min, int64_t *inout) {
    const char *text = cli_get(c, name, NULL);
    if (!text) return DRV_OK;
    static const char units[] = "KMGT";
    char *end;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        end++;
        for (const char *u = units; u <= unit; u++)
            v *= 1024;
    }
    if (end == text || *end || !(v >= (double)min) || v > 0x1p60)
        return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected a size from %s on, as 4G",
                c->v->name, name, text, str_bytes((double)min));
    *inout = (int64_t)v;
    return DRV_OK;
}

const char **cli_get_all(arena *a, const cli_args *c, const char *name, int *n) {
    const char **list = ARENA_ARRAY(a, const char *, c->n_options + 1);
    *n = 0;
    for (int i = 0; i < c->n_options; i++)
        if (strcmp(c->option[i].name, name) == 0) list[(*n)++] = c->option[i].value;
    return list;
}

drv_status cli_unknown_verb(const cli_args *c, const char *expected) {
    return drv_fail(DRV_E_USAGE, "%s: \"%s\" is unknown, expected %s", c->v->name, c->positional[0],
            expected);
}

drv_status cli_need(const cli_args *c, const char *option, const char **out) {
    *out = cli_get(c, option, NULL);
    if (!*out)
        return drv_fail(DRV_E_USAGE, "%s %s: %s is missing", c->v->name, c->positional[0], option);
    return DRV_OK;
}
