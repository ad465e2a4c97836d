// Filters of lists and mappings, which pick, map and join their items.
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_filters_internal.h"

static drv_status filter_length(jinja_context *c DRV_UNUSED, const value *v,
        const call_args *args DRV_UNUSED, value *out) {
    if (v->kind == VALUE_STRING)
        *out = value_int(text_length(v->s.p, v->s.n));
    else if (v->kind == VALUE_LIST)
        *out = value_int(v->list->n);
    else if (v->kind == VALUE_DICT)
        *out = value_int(v->dict->keys.n);
    else if (v->kind == VALUE_UNDEFINED)
        *out = value_int(0);
    else
        return drv_fail(DRV_E_DATA, "%s has no length", value_type_name(v));
    return DRV_OK;
}

static drv_status filter_first(jinja_context *c, const value *v, const call_args *args DRV_UNUSED,
        value *out) {
    value_list items = {0};
    if (v->kind == VALUE_GENERATOR && generator_next(v, out)) return DRV_OK;
    DRV_TRY(jinja_items(c, v, &items));
    *out = items.n ? items.v[0] : value_undefined("first item of an empty sequence", 31);
    return DRV_OK;
}

static drv_status filter_last(jinja_context *c, const value *v, const call_args *args DRV_UNUSED,
        value *out) {
    value_list items = {0};
    if (v->kind == VALUE_GENERATOR)
        return drv_fail(DRV_E_DATA, "a generator has no last item; |list makes a list of it");
    DRV_TRY(jinja_items(c, v, &items));
    *out = items.n ? items.v[items.n - 1] : value_undefined("last item of an empty sequence", 30);
    return DRV_OK;
}

drv_status filter_new_list(jinja_context *c, const value_list *items, value *out) {
    DRV_TRY(value_new_list(&c->m, out));
    for (int64_t i = 0; i < items->n; i++)
        DRV_TRY(value_list_add(&c->m, out->list, items->v[i]));
    return DRV_OK;
}

static drv_status filter_list(jinja_context *c, const value *v, const call_args *args DRV_UNUSED,
        value *out) {
    value_list items = {0};
    DRV_TRY(jinja_items(c, v, &items));
    return filter_new_list(c, &items, out);
}

static drv_status filter_reverse(jinja_context *c, const value *v, const call_args *args DRV_UNUSED,
        value *out) {
    value_list items = {0};
    DRV_TRY(jinja_items(c, v, &items));
    DRV_TRY(value_new_list(&c->m, out));
    for (int64_t i = items.n - 1; i >= 0; i--)
        DRV_TRY(value_list_add(&c->m, out->list, items.v[i]));
    if (v->kind == VALUE_LIST || v->kind == VALUE_DICT) out->kind = VALUE_GENERATOR;
    if (v->kind != VALUE_STRING) return DRV_OK;
    const value nothing = value_text(""), list = *out;
    const value name = value_text("join");
    return jinja_filter(c, &name, &list, &(call_args){&nothing, 1, NULL, 0}, out);
}

// Does what filter_by_path does; `otherwise` (NULL: none) replaces an undefined part of the path.
static drv_status by_path_or(jinja_context *c, const value *self, const value *path,
        const value *otherwise, value *out) {
    *out = *self;
    if (path->kind == VALUE_INT) {
        DRV_TRY(jinja_item(c, self, path, out));
        if (otherwise && out->kind == VALUE_UNDEFINED) *out = *otherwise;
        return DRV_OK;
    }
    if (path->kind != VALUE_STRING)
        return drv_fail(DRV_E_DATA, "an attribute is named by a string, found %s",
                value_type_name(path));
    for (size_t i = 0; i <= path->s.n;) {
        const char *dot = i < path->s.n ? memchr(path->s.p + i, '.', path->s.n - i) : NULL;
        const size_t n = dot ? (size_t)(dot - path->s.p) - i : path->s.n - i;
        const value part = value_slice(path->s.p + i, n), from = *out;
        char *end, number[24] = "";
        if (n < sizeof number) memcpy(number, part.s.p, n);
        const value index = value_int(strtoll(number, &end, 10));
        const bool is_number = n > 0 && n < sizeof number && !*end;
        DRV_TRY(jinja_item(c, &from, is_number ? &index : &part, out));
        if (otherwise && out->kind == VALUE_UNDEFINED) *out = *otherwise;
        i += n + 1;
    }
    return DRV_OK;
}

drv_status filter_by_path(jinja_context *c, const value *v, const value *path, value *out) {
    return by_path_or(c, v, path, NULL, out);
}

static drv_status filter_join(jinja_context *c, const value *v, const call_args *args, value *out) {
    value_list items = {0};
    str text = {0};
    const value *between = call_arg(args, 0, "d"), *attribute = call_arg(args, 1, "attribute");
    DRV_TRY(jinja_items(c, v, &items));
    drv_status status = DRV_OK;
    for (int64_t i = 0; i < items.n && status == DRV_OK; i++) {
        value item = items.v[i];
        if (attribute) status = filter_by_path(c, &items.v[i], attribute, &item);
        if (i && between) value_print(between, &text);
        if (status == DRV_OK) status = jinja_printable(&item);
        value_print(&item, &text);
        if (status == DRV_OK && text.n > JINJA_MAX_OUTPUT)
            status = drv_fail(DRV_E_DATA, "join makes a text of more than %s",
                    str_bytes(JINJA_MAX_OUTPUT));
    }
    if (status == DRV_OK) return jinja_take(c, &text, out);
    str_free(&text);
    return status;
}

// Returns the arguments after the first n, for a filter or test that the n-th of them names.
static call_args args_after(const call_args *args, int n) {
    return (call_args){args->v + n, args->n - n, args->keywords, args->n_keywords};
}

static drv_status filter_map(jinja_context *c, const value *self, const call_args *args,
        value *out) {
    value_list items = {0};
    const bool named = args->n > args->n_keywords;
    if (!args->n) return drv_fail(DRV_E_DATA, "map needs a filter or attribute=");
    if (!named) DRV_TRY(call_check(args, "map", 1, 2, "attribute default"));
    const value *attribute = named ? NULL : call_arg(args, 0, "attribute"),
                *otherwise = named ? NULL : call_arg(args, 1, "default");
    if (!named && !attribute) return drv_fail(DRV_E_DATA, "map needs a filter or attribute=");
    if (value_true(self)) DRV_TRY(jinja_items(c, self, &items)); // a false value counts as empty
    DRV_TRY(value_new_generator(&c->m, out));
    const call_args rest = named ? args_after(args, 1) : *args;
    for (int64_t i = 0; i < items.n; i++) {
        value item;
        if (named)
            DRV_TRY(jinja_filter(c, &args->v[0], &items.v[i], &rest, &item));
        else
            DRV_TRY(by_path_or(c, &items.v[i], attribute, otherwise, &item));
        DRV_TRY(value_list_add(&c->m, out->list, item));
    }
    return DRV_OK;
}

static drv_status select_items(jinja_context *c, const value *v, const call_args *args,
        bool attribute, bool wanted, value *out) {
    value_list items = {0};
    if (attribute && !args->n) return drv_fail(DRV_E_DATA, "selectattr needs an attribute");
    const int n_fixed = attribute ? 1 : 0;
    const bool tested = args->n > n_fixed;
    if (value_true(v)) DRV_TRY(jinja_items(c, v, &items));
    DRV_TRY(value_new_generator(&c->m, out));
    const call_args rest = tested ? args_after(args, n_fixed + 1) : *args;
    for (int64_t i = 0; i < items.n; i++) {
        value item = items.v[i];
        bool holds;
        if (attribute) DRV_TRY(filter_by_path(c, &items.v[i], &args->v[0], &item));
        if (tested)
            DRV_TRY(jinja_test(c, &args->v[n_fixed], &item, &rest, &holds));
        else
            holds = value_true(&item);
        if (holds == wanted) DRV_TRY(value_list_add(&c->m, out->list, items.v[i]));
    }
    return DRV_OK;
}
static drv_status filter_select(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    return select_items(c, v, args, false, true, out);
}
static drv_status filter_reject(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    return select_items(c, v, args, false, false, out);
}
static drv_status filter_selectattr(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    return select_items(c, v, args, true, true, out);
}
static drv_status filter_rejectattr(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    return select_items(c, v, args, true, false, out);
}

drv_status filter_pairs(jinja_context *c, const value *v, value *out) {
    const value name = value_text("items");
    bool found;
    value items;
    if (v->kind != VALUE_DICT)
        return drv_fail(DRV_E_DATA, "expected a mapping, found %s", value_type_name(v));
    DRV_TRY(jinja_method(c, v, &name, &found, &items));
    return jinja_call(c, &items, &(call_args){0}, out);
}

static drv_status filter_items(jinja_context *c, const value *v, const call_args *args DRV_UNUSED,
        value *out) {
    DRV_TRY(v->kind == VALUE_UNDEFINED ? value_new_list(&c->m, out) : filter_pairs(c, v, out));
    out->kind = VALUE_GENERATOR;
    return DRV_OK;
}

const filter_row filters_of_lists[] = {
        {"count", filter_length, 0, 0, ""},
        {"first", filter_first, 0, 0, ""},
        {"items", filter_items, 0, 0, ""},
        {"join", filter_join, 0, 2, "d attribute"},
        {"last", filter_last, 0, 0, ""},
        {"length", filter_length, 0, 0, ""},
        {"list", filter_list, 0, 0, ""},
        {"map", filter_map, 0, 0, NULL},
        {"reject", filter_reject, 0, 0, NULL},
        {"rejectattr", filter_rejectattr, 0, 0, NULL},
        {"reverse", filter_reverse, 0, 0, ""},
        {"select", filter_select, 0, 0, NULL},
        {"selectattr", filter_selectattr, 0, 0, NULL},
        {0},
};
