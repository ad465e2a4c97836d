// Filters of lists and mappings: items picked, mapped, cut and joined.
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_filters_internal.h"

static drv_status filter_length(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    (void)c;
    DRV_TRY(filter_no_args(args, "length"));
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

static drv_status filter_first(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value_list items = {0};
    DRV_TRY(filter_no_args(args, "first"));
    if (v->kind == VALUE_GENERATOR && generator_next(v, out)) return DRV_OK;
    DRV_TRY(jinja_items(c, v, &items));
    *out = items.n ? items.v[0] : value_undefined("first item of an empty sequence", 31);
    return DRV_OK;
}

static drv_status filter_last(jinja_context *c, const value *v, const call_args *args, value *out) {
    value_list items = {0};
    DRV_TRY(filter_no_args(args, "last"));
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

static drv_status filter_list(jinja_context *c, const value *v, const call_args *args, value *out) {
    value_list items = {0};
    DRV_TRY(filter_no_args(args, "list"));
    DRV_TRY(jinja_items(c, v, &items));
    return filter_new_list(c, &items, out);
}

static drv_status filter_reverse(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value_list items = {0};
    DRV_TRY(filter_no_args(args, "reverse"));
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

drv_status filter_by_path_or(jinja_context *context, const value *self, const value *path,
        const value *otherwise, value *out) {
    *out = *self;
    if (path->kind == VALUE_INT) {
        DRV_TRY(jinja_item(context, self, path, out));
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
        DRV_TRY(jinja_item(context, &from, is_number ? &index : &part, out));
        if (otherwise && out->kind == VALUE_UNDEFINED) *out = *otherwise;
        i += n + 1;
    }
    return DRV_OK;
}

drv_status filter_by_path(jinja_context *c, const value *v, const value *path, value *out) {
    return filter_by_path_or(c, v, path, NULL, out);
}

static drv_status filter_join(jinja_context *c, const value *v, const call_args *args, value *out) {
    value_list items = {0};
    str text = {0};
    DRV_TRY(call_check(args, "join", 0, 2, "d attribute"));
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

// The arguments after the first n, for a filter or test that the last of those names.
static call_args args_after(const call_args *args, int n) {
    return (call_args){args->v + n, args->n - n, args->keywords, args->n_keywords};
}

static drv_status filter_map(jinja_context *context, const value *self, const call_args *args,
        value *out) {
    value_list items = {0};
    const bool named = args->n > args->n_keywords;
    if (!args->n) return drv_fail(DRV_E_DATA, "map needs a filter or attribute=");
    if (!named) DRV_TRY(call_check(args, "map", 1, 2, "attribute default"));
    const value *attribute = named ? NULL : call_arg(args, 0, "attribute"),
                *otherwise = named ? NULL : call_arg(args, 1, "default");
    if (!named && !attribute) return drv_fail(DRV_E_DATA, "map needs a filter or attribute=");
    if (value_true(self)) DRV_TRY(jinja_items(context, self, &items)); // none, say, is empty here
    DRV_TRY(value_new_generator(&context->m, out));
    const call_args rest = named ? args_after(args, 1) : *args;
    for (int64_t i = 0; i < items.n; i++) {
        value item;
        if (named)
            DRV_TRY(jinja_filter(context, &args->v[0], &items.v[i], &rest, &item));
        else
            DRV_TRY(filter_by_path_or(context, &items.v[i], attribute, otherwise, &item));
        DRV_TRY(value_list_add(&context->m, out->list, item));
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

static drv_status filter_items(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    DRV_TRY(filter_no_args(args, "items"));
    DRV_TRY(v->kind == VALUE_UNDEFINED ? value_new_list(&c->m, out) : filter_pairs(c, v, out));
    out->kind = VALUE_GENERATOR;
    return DRV_OK;
}

static drv_status filter_sum(jinja_context *context, const value *self, const call_args *args,
        value *out) {
    value_list items = {0};
    DRV_TRY(call_check(args, "sum", 0, 2, "attribute start"));
    const value *attribute = call_arg(args, 0, "attribute"), *start = call_arg(args, 1, "start");
    DRV_TRY(jinja_items(context, self, &items));
    *out = start ? *start : value_int(0);
    for (int64_t i = 0; i < items.n; i++) {
        value item = items.v[i];
        if (attribute && attribute->kind != VALUE_NONE)
            DRV_TRY(filter_by_path(context, &items.v[i], attribute, &item));
        if (!value_is_number(&item) || !value_is_number(out))
            return drv_fail(DRV_E_DATA, "sum of %s", value_type_name(&item));
        if (item.kind == VALUE_FLOAT || out->kind == VALUE_FLOAT)
            *out = value_float(value_real(out) + value_real(&item));
        else if (__builtin_add_overflow(out->kind == VALUE_INT ? out->i : out->b,
                         item.kind == VALUE_INT ? item.i : item.b, &out->i))
            return drv_fail(DRV_E_DATA, "a number is beyond 64 bits");
        else
            out->kind = VALUE_INT;
    }
    return DRV_OK;
}

static drv_status filter_batch(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    value_list items = {0};
    int64_t size = 0;
    DRV_TRY(call_check(args, "batch", 1, 2, "linecount fill_with"));
    DRV_TRY(filter_whole(call_arg(args, 0, "linecount"), "batch", &size));
    const value *fill = call_arg(args, 1, "fill_with");
    if (size < 1 || size > JINJA_MAX_RANGE)
        return drv_fail(DRV_E_DATA, "batch of %lld", (long long)size);
    DRV_TRY(jinja_items(c, v, &items));
    DRV_TRY(value_new_generator(&c->m, out));
    for (int64_t i = 0; i < items.n; i += size) {
        value part;
        DRV_TRY(value_new_list(&c->m, &part));
        for (int64_t k = i; k < i + size && (k < items.n || (fill && fill->kind != VALUE_NONE));
                k++)
            DRV_TRY(value_list_add(&c->m, part.list, k < items.n ? items.v[k] : *fill));
        DRV_TRY(value_list_add(&c->m, out->list, part));
    }
    return DRV_OK;
}

// The other way round: so many lists, the first ones longer by one where that leaves a rest.
static drv_status filter_slice(jinja_context *context, const value *self, const call_args *args,
        value *out) {
    value_list items = {0};
    int64_t slices = 0, at = 0;
    DRV_TRY(call_check(args, "slice", 1, 2, "slices fill_with"));
    DRV_TRY(filter_whole(call_arg(args, 0, "slices"), "slice", &slices));
    const value *fill = call_arg(args, 1, "fill_with");
    if (slices < 1 || slices > JINJA_MAX_RANGE)
        return drv_fail(DRV_E_DATA, "slice in %lld", (long long)slices);
    DRV_TRY(jinja_items(context, self, &items));
    DRV_TRY(value_new_generator(&context->m, out));
    for (int64_t i = 0; i < slices; i++) {
        const bool longer = i < items.n % slices;
        const int64_t end = at + items.n / slices + longer;
        value part;
        DRV_TRY(jinja_charge(context, 1));
        DRV_TRY(value_new_list(&context->m, &part));
        for (; at < end; at++)
            DRV_TRY(value_list_add(&context->m, part.list, items.v[at]));
        if (fill && fill->kind != VALUE_NONE && !longer)
            DRV_TRY(value_list_add(&context->m, part.list, *fill));
        DRV_TRY(value_list_add(&context->m, out->list, part));
    }
    return DRV_OK;
}

const filter_row filters_of_lists[] = {
        {"batch", filter_batch},
        {"count", filter_length},
        {"first", filter_first},
        {"items", filter_items},
        {"join", filter_join},
        {"last", filter_last},
        {"length", filter_length},
        {"list", filter_list},
        {"map", filter_map},
        {"reject", filter_reject},
        {"rejectattr", filter_rejectattr},
        {"reverse", filter_reverse},
        {"select", filter_select},
        {"selectattr", filter_selectattr},
        {"slice", filter_slice},
        {"sum", filter_sum},
        {0},
};
