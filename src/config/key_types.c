// The kinds of values that keys have: how each is read, printed, written to config.json and
// described.
#include <math.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"
#include "config/key.h"

const char *choice_name(const choice *choices, int wanted) {
    for (; choices->name; choices++)
        if (choices->value == wanted) return choices->name;
    DRV_ASSERT(false, "no name for choice %d", wanted);
    return NULL;
}

static void *field(const key *k, void *base) {
    return (char *)base + k->offset;
}

static const void *const_field(const key *k, const void *base) {
    return (const char *)base + k->offset;
}

static int *count_of(const key *k, void *base) {
    return (int *)(void *)((char *)base + k->count_offset);
}

static int n_items(const key *k, const void *base) {
    return *(const int *)(const void *)((const char *)base + k->count_offset);
}

drv_status key_refuse(const key *k, const value *v) {
    arena *a = arena_new("refused value");
    str expected = {0};
    if (k->expected)
        str_puts(&expected, k->expected);
    else
        k->type->expected(k, &expected);
    double x; // the limit of keys without a meaningful one is said where a value exceeds it
    if (v->kind == VALUE_TEXT && str_to_f64(v->text, &x) && x > NO_MAX && k->max == NO_MAX)
        str_printf(&expected, " and at most %.0f", NO_MAX);
    drv_status status = drv_fail(DRV_E_USAGE, "%s: key \"%s\" is %s, expected %s", v->where,
            v->path, value_shown(a, v), expected.p);
    str_free(&expected);
    arena_free(a);
    return status;
}

bool key_in_range(const key *k, double x) {
    return (k->optional && x == k->none) || (x >= k->min && x <= k->max);
}

const char *key_text(arena *a, const key *k, const void *base) {
    str text = {0};
    k->type->print(k, base, &text);
    return str_keep(a, &text);
}

static void describe_range(const key *k, const char *what, str *out) {
    if (k->max < NO_MAX)
        str_printf(out, "%s from %.10g to %.10g", what, k->min, k->max);
    else
        str_printf(out, "%s of at least %.10g", what, k->min);
}

// Refuses what only looks like a number: 017 is 15 in YAML 1.1 and 17 in 1.2, and only C has 0x1p-9.
static drv_status check_digits(const key *k, const value *v) {
    if (v->kind != VALUE_TEXT) return DRV_OK;
    const char *digits = v->text + (*v->text == '-' || *v->text == '+');
    if (*digits != '0' || !digits[1]) return DRV_OK;
    if (digits[1] == 'x' || digits[1] == 'X') return key_refuse(k, v);
    if (digits[strspn(digits, "0123456789")]) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: key \"%s\" is \"%s\", expected a number without a 0 in front: readers of YAML differ on it",
            v->where, v->path, v->text);
}

// The key's choice of this name; NULL: it has none.
static const choice *find_choice(const key *k, const char *name) {
    for (const choice *c = k->choices; c && c->name; c++)
        if (strcmp(c->name, name) == 0) return c;
    return NULL;
}

static void describe_choices(const key *k, str *out) {
    for (const choice *c = k->choices; c->name; c++)
        str_printf(out, "%s%s", c == k->choices ? "" : c[1].name ? ", " : " or ", c->name);
}

// --- whole numbers
static drv_status parse_int(arena *a DRV_UNUSED, const key *k, const value *v, void *base) {
    int64_t *out = field(k, base), x;
    if (v->kind == VALUE_NULL) {
        if (k->optional) *out = (int64_t)k->none;
        return DRV_OK;
    }
    const choice *named = v->kind == VALUE_TEXT ? find_choice(k, v->text) : NULL;
    if (named) {
        x = named->value;
    } else {
        DRV_TRY(check_digits(k, v));
        if (v->kind != VALUE_TEXT || v->string || !str_to_i64(v->text, &x) ||
                !key_in_range(k, (double)x))
            return key_refuse(k, v);
    }
    *out = x;
    return DRV_OK;
}

static bool is_none(const key *k, double x) {
    return k->optional && x == k->none;
}

static void print_int(const key *k, const void *base, str *out) {
    const int64_t x = *(const int64_t *)const_field(k, base);
    for (const choice *c = k->choices; c && c->name; c++)
        if (c->value == x) {
            str_puts(out, c->name);
            return;
        }
    if (is_none(k, (double)x))
        str_puts(out, "null");
    else
        str_printf(out, "%lld", (long long)x);
}

static json_t *json_int(const key *k, const void *base) {
    const int64_t x = *(const int64_t *)const_field(k, base);
    return is_none(k, (double)x) ? NULL : json_integer(x);
}

static void expected_int(const key *k, str *out) {
    for (const choice *c = k->choices; c && c->name; c++)
        str_printf(out, "%s or ", c->name);
    describe_range(k, "a whole number", out);
}

const key_type type_int = {parse_int, print_int, json_int, expected_int};

// --- real numbers
static drv_status parse_real(arena *a DRV_UNUSED, const key *k, const value *v, void *base) {
    double *out = field(k, base), x;
    if (v->kind == VALUE_NULL) {
        if (k->optional) *out = k->none;
        return DRV_OK;
    }
    DRV_TRY(check_digits(k, v));
    if (v->kind != VALUE_TEXT || v->string || !str_to_f64(v->text, &x) || !key_in_range(k, x))
        return key_refuse(k, v);
    *out = x;
    return DRV_OK;
}

static void print_real(const key *k, const void *base, str *out) {
    const double x = *(const double *)const_field(k, base);
    str_puts(out, is_none(k, x) ? "null" : str_real(x));
}

static json_t *json_real_of(const key *k, const void *base) {
    const double x = *(const double *)const_field(k, base);
    return is_none(k, x) ? NULL : json_real(x);
}

static void expected_real(const key *k, str *out) {
    describe_range(k, "a number", out);
}

const key_type type_real = {parse_real, print_real, json_real_of, expected_real};

// --- true or false
static drv_status parse_bool(arena *a DRV_UNUSED, const key *k, const value *v, void *base) {
    if (v->kind == VALUE_NULL) return DRV_OK;
    if (v->kind != VALUE_TEXT || v->string) return key_refuse(k, v);
    const bool yes = strcasecmp(v->text, "true") == 0;
    if (!yes && strcasecmp(v->text, "false") != 0) return key_refuse(k, v);
    *(bool *)field(k, base) = yes;
    return DRV_OK;
}

static void print_bool(const key *k, const void *base, str *out) {
    str_puts(out, *(const bool *)const_field(k, base) ? "true" : "false");
}

static json_t *json_bool_of(const key *k, const void *base) {
    return json_boolean(*(const bool *)const_field(k, base));
}

static void expected_bool(const key *k DRV_UNUSED, str *out) {
    str_puts(out, "true or false");
}

const key_type type_bool = {parse_bool, print_bool, json_bool_of, expected_bool};

// --- text
static drv_status parse_text(arena *a, const key *k, const value *v, void *base) {
    (void)a; // the value's text lives long enough
    if (v->kind != VALUE_TEXT && v->kind != VALUE_NULL) return key_refuse(k, v);
    const char *text = v->kind == VALUE_TEXT ? v->text : "";
    if (k->choices && !find_choice(k, text)) return key_refuse(k, v);
    *(const char **)field(k, base) = text;
    return DRV_OK;
}

static void print_text(const key *k, const void *base, str *out) {
    yaml_quote(*(const char *const *)const_field(k, base), out);
}

static json_t *json_text(const key *k, const void *base) {
    return json_string(*(const char *const *)const_field(k, base));
}

static void expected_text(const key *k, str *out) {
    if (k->choices)
        describe_choices(k, out);
    else
        str_puts(out, "text");
}

const key_type type_text = {parse_text, print_text, json_text, expected_text};

// --- texts: one, or a list
static drv_status parse_texts(arena *a, const key *k, const value *v, void *base) {
    const value *items = v->kind == VALUE_LIST ? v->items : v;
    const int n = v->kind == VALUE_LIST ? v->n : v->kind != VALUE_NULL;
    const char **list = ARENA_ARRAY(a, const char *, n);
    for (int i = 0; i < n; i++) {
        if (items[i].kind != VALUE_TEXT || !*items[i].text) return key_refuse(k, &items[i]);
        list[i] = items[i].text;
    }
    *(const char ***)field(k, base) = list;
    *count_of(k, base) = n;
    return DRV_OK;
}

static void print_texts(const key *k, const void *base, str *out) {
    const char *const *list = *(const char *const *const *)const_field(k, base);
    str_puts(out, "[");
    for (int i = 0; i < n_items(k, base); i++) {
        str_puts(out, i ? ", " : "");
        yaml_quote(list[i], out);
    }
    str_puts(out, "]");
}

static void expected_texts(const key *k DRV_UNUSED, str *out) {
    str_puts(out, "a text or a list of texts");
}

const key_type type_texts = {parse_texts, print_texts, NULL, expected_texts};

// --- one of several names
static drv_status parse_choice(arena *a DRV_UNUSED, const key *k, const value *v, void *base) {
    int *out = field(k, base); // enums without negative values have the width of int
    if (v->kind == VALUE_NULL) {
        if (k->optional) *out = (int)k->none;
        return DRV_OK;
    }
    if (v->kind != VALUE_TEXT) return key_refuse(k, v);
    const choice *named = find_choice(k, v->text);
    if (!named) return key_refuse(k, v);
    memcpy(out, &named->value, sizeof *out);
    return DRV_OK;
}

static const char *chosen(const key *k, const void *base) {
    int x;
    memcpy(&x, const_field(k, base), sizeof x);
    return choice_name(k->choices, x);
}

static void print_choice(const key *k, const void *base, str *out) {
    str_puts(out, chosen(k, base));
}

static json_t *json_choice(const key *k, const void *base) {
    return json_string(chosen(k, base));
}

static void expected_choice(const key *k, str *out) {
    describe_choices(k, out);
}

const key_type type_choice = {parse_choice, print_choice, json_choice, expected_choice};

// --- token ids: none, one, or a list
static drv_status parse_ids(arena *a, const key *k, const value *v, void *base) {
    const int n = v->kind == VALUE_LIST ? v->n : v->kind == VALUE_TEXT;
    if (v->kind == VALUE_MAP || n > k->max_items) return key_refuse(k, v);
    const key one = {.min = k->min, .max = k->max, .type = &type_int};
    const value *items = v->kind == VALUE_LIST ? v->items : v;
    int64_t ids[16];
    DRV_ASSERT(k->max_items <= 16, "%s: at most %d ids", k->path, k->max_items);
    for (int i = 0; i < n; i++) {
        if (items[i].kind == VALUE_NULL) return key_refuse(&one, &items[i]);
        DRV_TRY(parse_int(a, &one, &items[i], &ids[i]));
    }
    memcpy(field(k, base), ids, sizeof *ids * (size_t)n);
    *count_of(k, base) = n;
    return DRV_OK;
}

static void print_ids(const key *k, const void *base, str *out) {
    const int64_t *ids = const_field(k, base);
    const int n = n_items(k, base);
    for (int i = 0; i < n; i++)
        str_printf(out, "%s%lld", i ? ", " : "[", (long long)ids[i]);
    str_puts(out, n ? "]" : "[]");
}

static json_t *json_ids(const key *k, const void *base) {
    const int64_t *ids = const_field(k, base);
    const int n = n_items(k, base);
    if (n == 0) return NULL;
    if (n == 1) return json_integer(ids[0]);
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static void expected_ids(const key *k, str *out) {
    describe_range(k, "a token id", out);
    str_printf(out, ", or a list of at most %d", k->max_items);
}

const key_type type_ids = {parse_ids, print_ids, json_ids, expected_ids};

// --- a fixed number of reals
static drv_status parse_reals(arena *a, const key *k, const value *v, void *base) {
    double *out = field(k, base), x[8] = {0};
    DRV_ASSERT(k->max_items <= 8, "%s: at most %d numbers", k->path, k->max_items);
    const bool none = v->kind == VALUE_NULL || (v->kind == VALUE_LIST && v->n == 0);
    bool zero = k->optional && !none; // all of them, which would read as none of them
    if (none && !k->optional) return v->kind == VALUE_NULL ? DRV_OK : key_refuse(k, v);
    if (!none && (v->kind != VALUE_LIST || v->n != k->max_items)) return key_refuse(k, v);
    const key one = {.min = k->min, .max = k->max, .type = &type_real};
    for (int i = 0; i < k->max_items && !none; i++) {
        if (v->items[i].kind == VALUE_NULL) return key_refuse(&one, &v->items[i]);
        DRV_TRY(parse_real(a, &one, &v->items[i], &x[i]));
        zero = zero && x[i] == 0;
    }
    if (zero)
        return drv_fail(DRV_E_USAGE, "%s: key \"%s\" has no number above 0, expected one, or []",
                v->where, v->path);
    memcpy(out, x, sizeof *out * (size_t)k->max_items);
    return DRV_OK;
}

static void print_reals(const key *k, const void *base, str *out) {
    const double *x = const_field(k, base);
    bool none = k->optional;
    for (int i = 0; i < k->max_items; i++)
        none = none && x[i] == 0;
    str_puts(out, "[");
    for (int i = 0; i < k->max_items && !none; i++)
        if (x[i] == floor(x[i]) && fabs(x[i]) < 1e15) // 90, not 9.0e+01
            str_printf(out, "%s%.0f", i ? ", " : "", x[i]);
        else
            str_printf(out, "%s%s", i ? ", " : "", str_real(x[i]));
    str_puts(out, "]");
}

static void expected_reals(const key *k, str *out) {
    str_printf(out, "a list of %d numbers", k->max_items);
    describe_range(k, "", out);
}

const key_type type_reals = {parse_reals, print_reals, NULL, expected_reals};

// --- data sets: a prefix, or a list of prefixes and {prefix, weight}
static drv_status parse_source(arena *a, const key *parent, const value *given, data_source *out) {
    static const key keys[] = {
            {.path = "prefix", .type = &type_text, .offset = offsetof(data_source, prefix)},
            {.path = "weight",
                    .type = &type_real,
                    .offset = offsetof(data_source, weight),
                    .max = 1e12},
    };
    *out = (data_source){"", 1, given->where};
    if (given->kind == VALUE_TEXT) out->prefix = given->text;
    if (given->kind == VALUE_LIST) return key_refuse(parent, given);
    for (int i = 0; given->kind == VALUE_MAP && i < given->n; i++) {
        const value *item = &given->items[i];
        const key *found = NULL;
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
            if (strcmp(keys[j].path, item->name) == 0) found = &keys[j];
        if (!found)
            return drv_fail(DRV_E_USAGE, "%s: unknown key \"%s\", expected prefix and weight",
                    item->where, item->path);
        DRV_TRY(found->type->parse(a, found, item, out));
    }
    if (!*out->prefix)
        return drv_fail(DRV_E_USAGE,
                "%s: %s has no prefix, expected that of a data set's .bin and .idx", given->where,
                given->path);
    return DRV_OK;
}

static drv_status parse_sources(arena *a, const key *k, const value *v, void *base) {
    const bool empty = v->kind == VALUE_NULL || (v->kind == VALUE_TEXT && !*v->text);
    const value *items = v->kind == VALUE_LIST ? v->items : v;
    const int n = empty ? 0 : v->kind == VALUE_LIST ? v->n : 1;
    data_source *list = ARENA_ARRAY(a, data_source, n);
    double weights = 0;
    for (int i = 0; i < n; i++) {
        DRV_TRY(parse_source(a, k, &items[i], &list[i]));
        weights += list[i].weight;
    }
    if (n > 0 && !(weights > 0))
        return drv_fail(DRV_E_USAGE, "%s: key \"%s\" has no weight above 0", v->where, v->path);
    *(data_source **)field(k, base) = list;
    *count_of(k, base) = n;
    return DRV_OK;
}

static void print_sources(const key *k, const void *base, str *out) {
    const data_source *list = *(data_source *const *)const_field(k, base);
    const int n = n_items(k, base);
    if (n == 1 && list->weight == 1) {
        yaml_quote(list->prefix, out);
        return;
    }
    str_puts(out, "[");
    for (int i = 0; i < n; i++) {
        str_puts(out, i ? ", {prefix: " : "{prefix: ");
        yaml_quote(list[i].prefix, out);
        str_printf(out, ", weight: %s}", str_real(list[i].weight));
    }
    str_puts(out, "]");
}

static void expected_sources(const key *k DRV_UNUSED, str *out) {
    str_puts(out, "the prefix of a data set, or a list of prefixes and {prefix, weight}");
}

const key_type type_sources = {parse_sources, print_sources, NULL, expected_sources};
