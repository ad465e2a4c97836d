// The methods of Python's strings that chat templates use.
#include <string.h>
#include <utf8proc.h>

#include "chat/jinja_methods_internal.h"

static drv_status want_string(const value *v, const char *what) {
    if (v->kind == VALUE_STRING) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s expects a string, found %s", what, value_type_name(v));
}

static drv_status strip_by(const value_function *f, const call_args *args, bool left, bool right,
        value *out) {
    DRV_TRY(call_check(args, f->name, 0, 1, "chars"));
    const value *chars = call_arg(args, 0, "chars");
    if (chars && chars->kind == VALUE_NONE) chars = NULL;
    if (chars) DRV_TRY(want_string(chars, f->name));
    *out = text_strip(&f->self, chars, left, right);
    return DRV_OK;
}
static drv_status str_strip(jinja_context *c DRV_UNUSED, const value_function *f,
        const call_args *args, value *out) {
    return strip_by(f, args, f->name[0] != 'r', f->name[0] != 'l', out);
}

static drv_status str_case(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    static const struct {
        const char *name;
        text_case_kind kind;
    } kinds[] = {{"upper", CASE_UPPER}, {"lower", CASE_LOWER}, {"title", CASE_TITLE},
            {"capitalize", CASE_CAPITAL}};
    str text = {0};
    DRV_TRY(call_check(args, f->name, 0, 0, ""));
    DRV_TRY(jinja_charge(c, (int64_t)f->self.s.n / 16));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, f->name) == 0) text_case(&f->self, kinds[i].kind, &text);
    return jinja_take(c, &text, out);
}

static drv_status split_spaces(jinja_context *c, const value *self, int64_t most, bool right,
        value *out) {
    value rest = text_strip(self, NULL, !right, right);
    for (; rest.s.n; most--) {
        size_t word = 0, k;
        if (most == 0) {
            DRV_TRY(value_list_add(&c->m, out->list, rest));
            break;
        }
        if (right) {
            word = rest.s.n;
            while (word && !text_strips(rest.s.p + text_char_before(rest.s.p, word),
                                   word - text_char_before(rest.s.p, word), NULL))
                word = text_char_before(rest.s.p, word);
            DRV_TRY(value_list_add(&c->m, out->list,
                    value_slice(rest.s.p + word, rest.s.n - word)));
            rest = value_slice(rest.s.p, word);
        } else {
            while (word < rest.s.n && !text_strips(rest.s.p + word, rest.s.n - word, NULL)) {
                text_char_at(rest.s.p + word, rest.s.n - word, &k);
                word += k;
            }
            DRV_TRY(value_list_add(&c->m, out->list, value_slice(rest.s.p, word)));
            rest = value_slice(rest.s.p + word, rest.s.n - word);
        }
        rest = text_strip(&rest, NULL, !right, right);
    }
    return DRV_OK;
}

static const char *find_last(const value *v, const value *what) {
    for (const char *p = v->s.p + v->s.n - (v->s.n < what->s.n ? v->s.n : what->s.n);; p--) {
        if ((size_t)(v->s.p + v->s.n - p) >= what->s.n && memcmp(p, what->s.p, what->s.n) == 0)
            return p;
        if (p == v->s.p) return NULL;
    }
}

static void reverse_list(value_list *l) {
    for (int64_t i = 0; i < l->n / 2; i++) {
        const value v = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
}

static drv_status split_at(jinja_context *c, const value *v, const value *sep, int64_t most,
        bool right, value *out) {
    value rest = *v;
    for (; most != 0; most--) {
        const char *hit = right ? (rest.s.n ? find_last(&rest, sep) : NULL)
                                : text_find(rest.s.p, rest.s.n, sep);
        if (!hit) break;
        const size_t before = (size_t)(hit - rest.s.p), after = before + sep->s.n;
        const value head = value_slice(rest.s.p, before),
                    tail = value_slice(rest.s.p + after, rest.s.n - after);
        DRV_TRY(value_list_add(&c->m, out->list, right ? tail : head));
        DRV_TRY(jinja_charge(c,
                1 + (right ? (int64_t)(rest.s.n - before) / 16 : (int64_t)before / 64)));
        rest = right ? head : tail;
    }
    return value_list_add(&c->m, out->list, rest);
}

static drv_status str_split(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    const bool right = f->name[0] == 'r';
    int64_t most = -1;
    DRV_TRY(call_check(args, f->name, 0, 2, "sep maxsplit"));
    DRV_TRY(call_whole(call_arg(args, 1, "maxsplit"), f->name, &most));
    const value *sep = call_arg(args, 0, "sep");
    DRV_TRY(value_new_list(&c->m, out));
    DRV_TRY(jinja_charge(c, (int64_t)f->self.s.n / 16));
    if (!sep || sep->kind == VALUE_NONE) {
        DRV_TRY(split_spaces(c, &f->self, most, right, out));
    } else {
        DRV_TRY(want_string(sep, f->name));
        if (!sep->s.n) return drv_fail(DRV_E_DATA, "%s: the separator is empty", f->name);
        DRV_TRY(split_at(c, &f->self, sep, most, right, out));
    }
    if (right) reverse_list(out->list);
    return DRV_OK;
}

static drv_status str_splitlines(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    DRV_TRY(call_check(args, f->name, 0, 1, "keepends"));
    const value *keep = call_arg(args, 0, "keepends");
    const char *p = f->self.s.p, *end = p + f->self.s.n, *line = p;
    DRV_TRY(value_new_list(&c->m, out));
    DRV_TRY(jinja_charge(c, (int64_t)f->self.s.n / 16));
    for (size_t n; p < end; p += n) {
        if (!text_ends_line(p, end, &n)) continue;
        DRV_TRY(value_list_add(&c->m, out->list,
                value_slice(line, (size_t)(p - line) + (keep && value_true(keep) ? n : 0))));
        line = p + n;
    }
    return line < end ? value_list_add(&c->m, out->list, value_slice(line, (size_t)(end - line)))
                      : DRV_OK;
}

static bool text_starts(const value *v, const value *what, bool end) {
    return what->s.n <= v->s.n &&
           (what->s.n == 0 ||
                   memcmp(end ? v->s.p + v->s.n - what->s.n : v->s.p, what->s.p, what->s.n) == 0);
}

static drv_status str_starts_ends(jinja_context *c DRV_UNUSED, const value_function *f,
        const call_args *args, value *out) {
    const bool end = f->name[0] == 'e';
    DRV_TRY(call_check(args, f->name, 1, 1, ""));
    bool holds = false;
    const value *what = &args->v[0];
    const int64_t n = what->kind == VALUE_LIST ? what->list->n : 1;
    for (int64_t i = 0; i < n && !holds; i++) {
        const value *one = what->kind == VALUE_LIST ? &what->list->v[i] : what;
        DRV_TRY(want_string(one, f->name));
        holds = text_starts(&f->self, one, end);
    }
    *out = value_bool(holds);
    return DRV_OK;
}

static drv_status str_remove(jinja_context *c DRV_UNUSED, const value_function *f,
        const call_args *args, value *out) {
    const bool end = strcmp(f->name, "removesuffix") == 0;
    DRV_TRY(call_check(args, f->name, 1, 1, ""));
    DRV_TRY(want_string(&args->v[0], f->name));
    const size_t n = text_starts(&f->self, &args->v[0], end) ? args->v[0].s.n : 0;
    *out = value_slice(f->self.s.p + (end ? 0 : n), f->self.s.n - n);
    return DRV_OK;
}

static drv_status str_replace_method(jinja_context *c, const value_function *f,
        const call_args *args, value *out) {
    int64_t most = -1;
    DRV_TRY(call_check(args, f->name, 2, 3, "count"));
    DRV_TRY(want_string(&args->v[0], f->name));
    DRV_TRY(want_string(&args->v[1], f->name));
    DRV_TRY(call_whole(call_arg(args, 2, "count"), f->name, &most));
    return text_replace(c, &f->self, &args->v[0], &args->v[1], most, out);
}

static drv_status str_join(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    value_list items = {0};
    str text = {0};
    DRV_TRY(call_check(args, f->name, 1, 1, ""));
    DRV_TRY(jinja_items(c, &args->v[0], &items));
    for (int64_t i = 0; i < items.n; i++) {
        if (items.v[i].kind != VALUE_STRING) {
            str_free(&text);
            return want_string(&items.v[i], "join");
        }
        if (i) str_add(&text, f->self.s.p, f->self.s.n);
        str_add(&text, items.v[i].s.p, items.v[i].s.n);
        if (text.n > JINJA_MAX_OUTPUT) break; // which jinja_take refuses
    }
    return jinja_take(c, &text, out);
}

// Runs find and rfind: returns the code point at which a text begins, or -1.
static drv_status str_find(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    const value *v = &f->self, *what = &args->v[0];
    DRV_TRY(call_check(args, f->name, 1, 1, ""));
    DRV_TRY(want_string(what, f->name));
    DRV_TRY(jinja_charge(c, (int64_t)v->s.n / 16));
    const char *hit =
            f->name[0] == 'r' && v->s.n ? find_last(v, what) : text_find(v->s.p, v->s.n, what);
    *out = value_int(hit ? text_length(v->s.p, (size_t)(hit - v->s.p)) : -1);
    return DRV_OK;
}

static drv_status str_count(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    int64_t n = 0;
    DRV_TRY(call_check(args, f->name, 1, 1, ""));
    DRV_TRY(want_string(&args->v[0], f->name));
    DRV_TRY(jinja_charge(c, (int64_t)f->self.s.n / 16));
    const char *p = f->self.s.p, *end = p + f->self.s.n;
    if (args->v[0].s.n == 0) n = text_length(p, f->self.s.n) + 1;
    for (const char *hit; args->v[0].s.n && (hit = text_find(p, (size_t)(end - p), &args->v[0]));
            n++)
        p = hit + args->v[0].s.n;
    *out = value_int(n);
    return DRV_OK;
}

static bool is_kind(const char *name, utf8proc_int32_t c) {
    const utf8proc_category_t k = utf8proc_category(c);
    const bool letter = k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
    if (strcmp(name, "isalpha") == 0) return letter;
    if (strcmp(name, "isalnum") == 0)
        return letter || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
    return strcmp(name, "isspace") == 0 ? text_is_space(c) : k == UTF8PROC_CATEGORY_ND; // isdigit
}

static drv_status str_is_kind(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    bool holds = f->self.s.n > 0;
    DRV_TRY(call_check(args, f->name, 0, 0, ""));
    DRV_TRY(jinja_charge(c, (int64_t)f->self.s.n / 16));
    for (size_t i = 0, n; i < f->self.s.n && holds; i += n)
        holds = is_kind(f->name, text_char_at(f->self.s.p + i, f->self.s.n - i, &n));
    *out = value_bool(holds);
    return DRV_OK;
}

const method_row methods_of_strings[] = {
        {VALUE_STRING, "strip", str_strip},
        {VALUE_STRING, "lstrip", str_strip},
        {VALUE_STRING, "rstrip", str_strip},
        {VALUE_STRING, "upper", str_case},
        {VALUE_STRING, "lower", str_case},
        {VALUE_STRING, "title", str_case},
        {VALUE_STRING, "capitalize", str_case},
        {VALUE_STRING, "split", str_split},
        {VALUE_STRING, "rsplit", str_split},
        {VALUE_STRING, "splitlines", str_splitlines},
        {VALUE_STRING, "startswith", str_starts_ends},
        {VALUE_STRING, "endswith", str_starts_ends},
        {VALUE_STRING, "removeprefix", str_remove},
        {VALUE_STRING, "removesuffix", str_remove},
        {VALUE_STRING, "replace", str_replace_method},
        {VALUE_STRING, "join", str_join},
        {VALUE_STRING, "format", jinja_format_braces},
        {VALUE_STRING, "find", str_find},
        {VALUE_STRING, "rfind", str_find},
        {VALUE_STRING, "count", str_count},
        {VALUE_STRING, "isalpha", str_is_kind},
        {VALUE_STRING, "isalnum", str_is_kind},
        {VALUE_STRING, "isdigit", str_is_kind},
        {VALUE_STRING, "isspace", str_is_kind},
        {0},
};
