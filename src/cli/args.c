// Parses the arguments of a verb by its table of options.
#include <string.h>

#include "base/parallel.h"
#include "cli/cli.h"

const cli_option *cli_find_option(const verb *v, const char *name) {
    for (int i = 0; i < v->n_options; i++)
        if (strcmp(v->options[i].name, name) == 0) return &v->options[i];
    return NULL;
}

// Returns the subverbs of the same verb that take the option, as "data build and data show"; "":
// none.
static const char *takers(arena *a, const verb *parent, const char *option) {
    const char *list[16], *text = "";
    int n = 0;
    for (int i = 0; parent && i < parent->n_subverbs && n < 16; i++)
        if (cli_find_option(&parent->subverbs[i], option)) list[n++] = parent->subverbs[i].name;
    for (int i = 0; i < n; i++)
        text = arena_printf(a, "%s%s%s %s", text,
                i == 0      ? ""
                : i < n - 1 ? ", "
                            : " and ",
                parent->name, list[i]);
    return text;
}

static drv_status unknown_option(arena *a, const cli_args *args, const char *name) {
    const verb *v = args->verb;
    const char *others = takers(a, args->parent, name);
    if (*others)
        return drv_fail(DRV_E_USAGE, "%s: %s is an option of %s, not of %s; see drover help %s",
                args->name, name, others, args->name, args->name);
    const char **names = ARENA_ARRAY(a, const char *, v->n_options + 1);
    for (int i = 0; i < v->n_options; i++)
        names[i] = v->options[i].name;
    const char *near = str_nearest(name, names, v->n_options);
    return drv_fail(DRV_E_USAGE, "%s: unknown option \"%s\"%s%s%s; see drover help %s", args->name,
            name, near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "", args->name);
}

static bool is_repeatable(const cli_option *o) {
    return (o->value && str_ends(o->value, "...")) || strstr(o->help, "(repeatable");
}

static drv_status add_option(cli_args *args, const cli_option *o, const char *value) {
    if (!is_repeatable(o) && cli_has(args, o->name))
        return drv_fail(DRV_E_USAGE, "%s: %s is given twice, expected once", args->name, o->name);
    args->option[args->n_options].name = o->name;
    args->option[args->n_options++].value = value;
    return DRV_OK;
}

// Returns whether a word is not an option: a plain word, or "-" for standard input.
static bool is_value(const char *text) {
    return text[0] != '-' || !text[1];
}

// Returns whether a word is written like an option: "--out", "--out=DIR", "-h", or the "--" that
// ends the options. Numbers such as "-1" and texts such as "- item" and "--- title" are not.
static bool looks_like_option(const char *word) {
    if (STR_ONE_OF(word, "--", "-h")) return true;
    const size_t n = str_starts(word, "--") ? strcspn(word + 2, "= \t\n") : 0;
    return n > 0 && word[2] != '-' && (!word[n + 2] || word[n + 2] == '=');
}

// Reads the value of an option from the next word, argv[*i + 1]. A word that looks like an option
// is none: its own value would otherwise be taken for an argument, far from the missing one.
static drv_status next_value(const cli_args *args, const cli_option *o, int argc, char **argv,
        int *i, const char **out) {
    if (*i + 1 >= argc)
        return drv_fail(DRV_E_USAGE, "%s: %s needs a value: %s", args->name, o->name, o->value);
    *out = argv[++*i];
    if (!looks_like_option(*out)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: %s needs a value: %s, but \"%s\" follows; a value that begins like an option is written %s=VALUE",
            args->name, o->name, o->value, *out, o->name);
}

// Reads an option and its values from argv[*i] on; *i becomes the index of the last one.
static drv_status parse_option(arena *a, cli_args *args, int argc, char **argv, int *i) {
    const char *eq = str_starts(argv[*i], "--") ? strchr(argv[*i], '=') : NULL;
    const char *name = eq ? arena_strndup(a, argv[*i], (size_t)(eq - argv[*i])) : argv[*i];
    const char *value = eq ? eq + 1 : NULL;
    const cli_option *o = cli_find_option(args->verb, name);
    if (!o) return unknown_option(a, args, name);
    if (!o->value) {
        if (value) return drv_fail(DRV_E_USAGE, "%s: %s takes no value", args->name, name);
        return add_option(args, o, NULL);
    }
    if (!value) DRV_TRY(next_value(args, o, argc, argv, i, &value));
    DRV_TRY(add_option(args, o, value));
    while (str_ends(o->value, "...") && *i + 1 < argc && is_value(argv[*i + 1]))
        DRV_TRY(add_option(args, o, argv[++*i])); // --input A B C
    return DRV_OK;
}

static bool was_given(const cli_args *args, const char *name) {
    for (int i = 0; i < args->n_options; i++)
        if (strcmp(args->option[i].name, name) == 0) return true;
    return false;
}

// Returns the first word of `list` that was given as an option; NULL: none was.
static const char *first_given(arena *a, const cli_args *args, const char *list) {
    for (char *rest = arena_strdup(a, list), *name; (name = strsep(&rest, " "));) {
        DRV_ASSERT(cli_find_option(args->verb, name), "%s has no option %s", args->name, name);
        if (was_given(args, name)) return name;
    }
    return NULL;
}

// An empty number or size is refused where it is read, with a better message.
static bool is_number(const cli_option *o) {
    return STR_ONE_OF(o->value, "N", "X", "SIZE");
}

// Makes "--text or --choices" from "--text --choices".
static const char *any_of(arena *a, const char *list) {
    const char *text = NULL;
    for (char *rest = arena_strdup(a, list), *name; (name = strsep(&rest, " "));)
        text = text ? arena_printf(a, "%s or %s", text, name) : name;
    return text;
}

static drv_status check_rule(arena *a, const cli_args *args, const cli_rule *rule) {
    const char *other = rule->excludes ? first_given(a, args, rule->excludes) : NULL;
    if (other)
        return drv_fail(DRV_E_USAGE, "%s: %s and %s exclude each other", args->name, rule->option,
                other);
    if (rule->needs && !first_given(a, args, rule->needs))
        return drv_fail(DRV_E_USAGE, "%s: %s needs %s", args->name, rule->option,
                any_of(a, rule->needs));
    return DRV_OK;
}

static bool may_be_empty(const verb *v, const cli_option *o) {
    for (int i = 0; i < v->n_rules; i++)
        if (v->rules[i].may_be_empty && strcmp(v->rules[i].option, o->name) == 0) return true;
    return is_number(o);
}

static drv_status check_options(arena *a, const cli_args *args) {
    const verb *v = args->verb;
    for (int i = 0; i < args->n_options; i++) {
        const cli_option *o = cli_find_option(v, args->option[i].name);
        if (o->value && !*args->option[i].value && !may_be_empty(v, o))
            return drv_fail(DRV_E_USAGE, "%s: %s is empty, expected %s", args->name, o->name,
                    o->value);
    }
    for (int i = 0; i < v->n_rules; i++)
        if (was_given(args, v->rules[i].option)) DRV_TRY(check_rule(a, args, &v->rules[i]));
    return DRV_OK;
}

// Makes "usage: drover ckpt verify CHECKPOINT, or drover ckpt verify A B".
static drv_status missing_argument(arena *a, const cli_args *args) {
    const char *text = "";
    for (char *rest = arena_strdup(a, args->verb->usage), *form; (form = strsep(&rest, "\n"));)
        text = arena_printf(a, "%s%sdrover %s %s", text, *text ? ", or " : "", args->name, form);
    return drv_fail(DRV_E_USAGE, "usage: %s", text);
}

drv_status cli_parse(arena *a, const verb *parent, const verb *sought, int argc, char **argv,
        cli_args *out) {
    *out = (cli_args){.name = parent ? arena_printf(a, "%s %s", parent->name, sought->name)
                                     : sought->name,
            .verb = sought,
            .parent = parent,
            .positional = ARENA_ARRAY(a, char *, argc + 1),
            .option = ARENA_ARRAY(a, struct given_option, argc + 1)}; // each takes an argument
    bool options = true;                                              // until "--"
    for (int i = 0; i < argc; i++) {
        if (!options || is_value(argv[i])) {
            out->positional[out->n_positional++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            options = false;
            out->n_before = out->n_positional;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            out->help = true;
            return DRV_OK;
        } else {
            DRV_TRY(parse_option(a, out, argc, argv, &i));
        }
    }
    if (options) out->n_before = out->n_positional;
    if (out->n_positional > sought->max_positional)
        return drv_fail(DRV_E_USAGE, "%s: \"%s\" is one argument too many; see drover help %s",
                out->name, out->positional[sought->max_positional], out->name);
    if (out->n_positional < sought->min_positional) return missing_argument(a, out);
    return check_options(a, out);
}

const char *cli_get(const cli_args *args, const char *name, const char *otherwise) {
    DRV_ASSERT(cli_find_option(args->verb, name), "%s has no option %s", args->name, name);
    for (int i = 0; i < args->n_options; i++)
        if (strcmp(args->option[i].name, name) == 0) return args->option[i].value;
    return otherwise;
}

bool cli_has(const cli_args *args, const char *name) {
    DRV_ASSERT(cli_find_option(args->verb, name), "%s has no option %s", args->name, name);
    return was_given(args, name);
}

drv_status cli_get_i64(const cli_args *args, const char *name, int64_t min, int64_t max,
        int64_t *inout) {
    const char *text = cli_get(args, name, NULL);
    if (!text) return DRV_OK;
    int64_t x;
    if (!str_to_i64(text, &x) || x < min || x > max) {
        if (min == max)
            return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected %lld", args->name, name, text,
                    (long long)min);
        return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected a whole number from %lld to %lld",
                args->name, name, text, (long long)min, (long long)max);
    }
    *inout = x;
    return DRV_OK;
}

drv_status cli_get_f64(const cli_args *args, const char *name, double min, double max,
        double *inout) {
    const char *text = cli_get(args, name, NULL);
    if (!text) return DRV_OK;
    double x;
    if (!str_to_f64(text, &x) || !(x >= min && x <= max))
        return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected a number from %g to %g",
                args->name, name, text, min, max);
    *inout = x;
    return DRV_OK;
}

drv_status cli_get_bytes(const cli_args *args, const char *name, int64_t min, int64_t *inout) {
    const char *text = cli_get(args, name, NULL);
    if (!text) return DRV_OK;
    double bytes;
    if (!str_to_bytes(text, &bytes) || !(bytes >= (double)min) || bytes > 0x1p60)
        return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected a size of at least %s, as in 4G",
                args->name, name, text, str_bytes((double)min));
    *inout = (int64_t)bytes;
    return DRV_OK;
}

drv_status cli_get_seconds(const cli_args *args, const char *name, double min, double max,
        double *inout) {
    const char *text = cli_get(args, name, NULL);
    double seconds;
    if (!text) return DRV_OK;
    if (*text && !text[strspn(text, "0123456789")])
        return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", which has no unit, expected %ss or %sm",
                args->name, name, text, text, text);
    if (!str_to_seconds(text, &seconds) || !(seconds >= min && seconds <= max))
        return drv_fail(DRV_E_USAGE,
                "%s: %s is \"%s\", expected a time from %.0f s to %s, as 90s, 1h30m, 7d, or as MM:SS, HH:MM:SS, D-HH:MM:SS",
                args->name, name, text, min, str_long_duration(max));
    *inout = seconds;
    return DRV_OK;
}

drv_status cli_get_choice(const cli_args *args, const char *name, const char *words, int *inout) {
    const char *text = cli_get(args, name, NULL);
    int index = 0;
    size_t n = 0;
    if (!text) return DRV_OK;
    for (const char *word = words; *word; word += n + strspn(word + n, ", ")) {
        n = strcspn(word, ", ");
        if (n == 2 && strncmp(word, "or", n) == 0) continue;
        if (strlen(text) == n && strncmp(word, text, n) == 0) {
            *inout = index;
            return DRV_OK;
        }
        index++;
    }
    return drv_fail(DRV_E_USAGE, "%s: %s is \"%s\", expected %s", args->name, name, text, words);
}

drv_status cli_set_threads(const cli_args *args) {
    int64_t threads = 0;
    DRV_TRY(cli_get_i64(args, "--threads", 0, 4096, &threads));
    par_set_threads((int)threads);
    return DRV_OK;
}

const char **cli_get_all(arena *a, const cli_args *args, const char *name, int *n) {
    DRV_ASSERT(cli_find_option(args->verb, name), "%s has no option %s", args->name, name);
    const char **list = ARENA_ARRAY(a, const char *, args->n_options + 1);
    *n = 0;
    for (int i = 0; i < args->n_options; i++)
        if (strcmp(args->option[i].name, name) == 0) list[(*n)++] = args->option[i].value;
    return list;
}

drv_status cli_need(const cli_args *args, const char *option, const char **out) {
    *out = cli_get(args, option, NULL);
    if (!*out) return drv_fail(DRV_E_USAGE, "%s: %s is missing", args->name, option);
    return DRV_OK;
}

drv_status cli_judge_input(drv_status status) {
    return status == DRV_E_DATA ? DRV_E_USAGE : status;
}

drv_status cli_load_config(arena *a, const cli_args *args, run_config *out) {
    int n;
    const char **sets = cli_get_all(a, args, "--set", &n);
    return config_load(a, args->n_positional ? args->positional[0] : NULL, sets, n, out);
}
