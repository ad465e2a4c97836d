// The methods of Python that change nothing: those of lists and dicts, the look-up by name, and the
// arguments of calls; jinja_methods_text.c has those of strings.
#include <string.h>

#include "chat/jinja_methods_internal.h"

const value *call_arg(const call_args *args, int position, const char *name) {
    const int n_positional = args->n - args->n_keywords;
    if (position < n_positional) return &args->v[position];
    for (int k = 0; k < args->n_keywords; k++)
        if (value_is(&args->keywords[k], name)) return &args->v[n_positional + k];
    return NULL;
}

drv_status call_whole(const value *v, const char *what, int64_t *inout) {
    if (!v || v->kind == VALUE_NONE || value_whole(v, inout)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s expects a whole number, found %s", what, value_type_name(v));
}

static bool has_word(const char *list, const value *word) {
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, " ");
        if (n == word->s.n && memcmp(p, word->s.p, n) == 0) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

drv_status call_check(const call_args *args, const char *what, int least, int most,
        const char *names) {
    if (args->n < least || args->n > most)
        return drv_fail(DRV_E_DATA, "%s takes %d to %d arguments, found %d", what, least, most,
                args->n);
    for (int k = 0; k < args->n_keywords; k++)
        if (!has_word(names, &args->keywords[k]))
            return drv_fail(DRV_E_DATA, "%s has no argument \"%.*s\"", what,
                    (int)args->keywords[k].s.n, args->keywords[k].s.p);
    return DRV_OK;
}

// --- methods of dicts and lists

static drv_status dict_list(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    const value_dict *d = f->self.dict;
    DRV_TRY(call_check(args, f->name, 0, 0, ""));
    DRV_TRY(jinja_charge(c, d->keys.n));
    DRV_TRY(value_new_list(&c->m, out));
    out->list->form = f->name[0] == 'k' ? LIST_KEYS : f->name[0] == 'v' ? LIST_VALUES : LIST_ITEMS;
    for (int64_t i = 0; i < d->keys.n; i++) {
        value pair = f->name[0] == 'k' ? d->keys.v[i] : d->values.v[i];
        if (f->name[0] == 'i') {
            DRV_TRY(value_new_list(&c->m, &pair));
            pair.list->form = LIST_TUPLE;
            DRV_TRY(value_list_add(&c->m, pair.list, d->keys.v[i]));
            DRV_TRY(value_list_add(&c->m, pair.list, d->values.v[i]));
        }
        DRV_TRY(value_list_add(&c->m, out->list, pair));
    }
    return DRV_OK;
}

static drv_status dict_get(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    DRV_TRY(call_check(args, f->name, 1, 2, ""));
    DRV_TRY(jinja_charge(c, f->self.dict->keys.n / 32));
    const value *found = value_dict_get(f->self.dict, &args->v[0]);
    *out = found ? *found : args->n > 1 ? args->v[1] : value_none();
    return DRV_OK;
}

static drv_status copy(jinja_context *c DRV_UNUSED, const value_function *f, const call_args *args,
        value *out) {
    DRV_TRY(call_check(args, f->name, 0, 0, ""));
    *out = f->self; // nothing changes a value, so it is its own copy
    return DRV_OK;
}

static drv_status list_count(jinja_context *c, const value_function *f, const call_args *args,
        value *out) {
    const value_list *l = f->self.list;
    int64_t n = 0;
    DRV_TRY(call_check(args, f->name, 1, 1, ""));
    DRV_TRY(jinja_charge(c, l->n));
    for (int64_t i = 0; i < l->n; i++)
        n += value_equal(&c->m, &l->v[i], &args->v[0]);
    *out = value_int(n);
    return DRV_OK;
}

static const method_row methods_of_containers[] = {
        {VALUE_DICT, "items", dict_list},
        {VALUE_DICT, "keys", dict_list},
        {VALUE_DICT, "values", dict_list},
        {VALUE_DICT, "get", dict_get},
        {VALUE_DICT, "copy", copy},
        {VALUE_LIST, "count", list_count},
        {VALUE_LIST, "copy", copy},
        {0},
};

// Methods that would change a value, which transformers' sandbox refuses too.
static const struct {
    value_kind kind;
    const char *names;
} changing[] = {{VALUE_LIST, "append clear extend insert pop remove reverse sort"},
        {VALUE_DICT, "clear pop popitem setdefault update"}};

drv_status jinja_method(jinja_context *c, const value *v, const value *name, bool *found,
        value *out) {
    const method_row *const tables[] = {methods_of_strings, methods_of_containers};
    *found = false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const method_row *row = tables[i]; row->name; row++)
            if (row->kind == v->kind && value_is(name, row->name)) {
                *found = true;
                return jinja_new_function(c,
                        &(value_function){.name = row->name, .native = row->call, .self = *v}, out);
            }
    for (size_t i = 0; i < sizeof changing / sizeof *changing; i++)
        if (changing[i].kind == v->kind && has_word(changing[i].names, name))
            return drv_fail(DRV_E_DATA, "a template may not change a %s by \"%.*s\"",
                    value_type_name(v), (int)name->s.n, name->s.p);
    return DRV_OK;
}
