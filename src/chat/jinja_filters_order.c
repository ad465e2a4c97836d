// Filters that compare items: dictsort, max, min, sort, unique.
#include <string.h>

#include "chat/jinja_filters_internal.h"

// Sorts by merging, stably, since a comparison may fail. keys[i] belongs to items[i].
static drv_status merge_sort(jinja_context *c, value *keys, value *items, value *key_room,
        value *room, int64_t n_items, bool reverse) {
    if (n_items < 2) return DRV_OK;
    const int64_t half = n_items / 2;
    DRV_TRY(jinja_charge(c, n_items));
    DRV_TRY(merge_sort(c, keys, items, key_room, room, half, reverse));
    DRV_TRY(merge_sort(c, keys + half, items + half, key_room, room, n_items - half, reverse));
    for (int64_t i = 0, a = 0, b = half; i < n_items; i++) {
        int order = a == half ? 1 : -1;
        if (a < half && b < n_items) {
            order = 0;
            if (!value_equal(&c->m, &keys[a], &keys[b]))
                DRV_TRY(value_compare(&c->m, &keys[a], &keys[b], &order));
            if (reverse) order = -order;
        }
        const int64_t from = order <= 0 ? a++ : b++;
        key_room[i] = keys[from];
        room[i] = items[from];
    }
    memcpy(keys, key_room, sizeof *keys * (size_t)n_items);
    memcpy(items, room, sizeof *items * (size_t)n_items);
    return DRV_OK;
}

static drv_status lowered(jinja_context *c, value *key) {
    if (key->kind != VALUE_STRING) return DRV_OK;
    str text = {0};
    DRV_TRY(jinja_charge(c, (int64_t)key->s.n / 16));
    text_case(key, CASE_LOWER, &text);
    return jinja_take(c, &text, key);
}

// Finds the key by which an item is sorted: for "role,content" a list of both.
static drv_status sort_key(jinja_context *c, const value *item, const value *attribute,
        bool case_sensitive, value *out) {
    const char *comma = attribute && attribute->kind == VALUE_STRING && attribute->s.n
                                ? memchr(attribute->s.p, ',', attribute->s.n)
                                : NULL;
    *out = *item;
    if (!comma) {
        if (attribute) DRV_TRY(filter_by_path(c, item, attribute, out));
        return case_sensitive ? DRV_OK : lowered(c, out);
    }
    DRV_TRY(value_new_list(&c->m, out));
    for (const char *p = attribute->s.p, *end = p + attribute->s.n; p <= end; p = comma + 1) {
        value part;
        comma = p < end ? memchr(p, ',', (size_t)(end - p)) : NULL;
        if (!comma) comma = end;
        const value path = value_slice(p, (size_t)(comma - p));
        DRV_TRY(filter_by_path(c, item, &path, &part));
        if (!case_sensitive) DRV_TRY(lowered(c, &part));
        DRV_TRY(value_list_add(&c->m, out->list, part));
    }
    return DRV_OK;
}

static drv_status sort_items(jinja_context *c, value_list *items, const value *attribute,
        bool reverse, bool case_sensitive) {
    void *room;
    DRV_TRY(value_alloc(&c->m, sizeof(value) * 3 * (size_t)items->n, &room));
    value *keys = room;
    for (int64_t i = 0; i < items->n; i++)
        DRV_TRY(sort_key(c, &items->v[i], attribute, case_sensitive, &keys[i]));
    return merge_sort(c, keys, items->v, keys + items->n, keys + 2 * items->n, items->n, reverse);
}

static drv_status filter_sort(jinja_context *c, const value *v, const call_args *args, value *out) {
    value_list items = {0};
    const value *reverse = call_arg(args, 0, "reverse"),
                *sensitive = call_arg(args, 1, "case_sensitive"),
                *attribute = call_arg(args, 2, "attribute");
    DRV_TRY(jinja_items(c, v, &items));
    DRV_TRY(filter_new_list(c, &items, out));
    return sort_items(c, out->list, attribute && attribute->kind != VALUE_NONE ? attribute : NULL,
            reverse && value_true(reverse), sensitive && value_true(sensitive));
}

static drv_status filter_dictsort(jinja_context *c, const value *v, const call_args *args,
        value *out) {
    const value *sensitive = call_arg(args, 0, "case_sensitive"), *by = call_arg(args, 1, "by"),
                *reverse = call_arg(args, 2, "reverse");
    const value index = value_int(by && value_is(by, "value"));
    DRV_TRY(filter_pairs(c, v, out));
    out->list->form = LIST_PLAIN;
    return sort_items(c, out->list, &index, reverse && value_true(reverse),
            sensitive && value_true(sensitive));
}

static drv_status filter_unique(jinja_context *c, const value *self, const call_args *args,
        value *out) {
    value_list items = {0}, keys = {0};
    const value *sensitive = call_arg(args, 0, "case_sensitive"),
                *attribute = call_arg(args, 1, "attribute");
    DRV_TRY(jinja_items(c, self, &items));
    DRV_TRY(value_new_generator(&c->m, out));
    for (int64_t i = 0; i < items.n; i++) {
        value key = items.v[i];
        bool seen = false;
        if (attribute) DRV_TRY(filter_by_path(c, &items.v[i], attribute, &key));
        if (!sensitive || !value_true(sensitive)) DRV_TRY(lowered(c, &key));
        DRV_TRY(jinja_charge(c, keys.n));
        for (int64_t k = 0; k < keys.n && !seen; k++)
            seen = value_equal(&c->m, &keys.v[k], &key);
        if (seen) continue;
        DRV_TRY(value_list_add(&c->m, &keys, key));
        DRV_TRY(value_list_add(&c->m, out->list, items.v[i]));
    }
    return DRV_OK;
}

// Finds the first of the least (sign -1) or greatest (1) items.
static drv_status find_extreme(jinja_context *c, const value *self, const call_args *args, int sign,
        value *out) {
    value_list items = {0};
    value best = {0};
    const value *sensitive = call_arg(args, 0, "case_sensitive"),
                *attribute = call_arg(args, 1, "attribute");
    DRV_TRY(jinja_items(c, self, &items));
    *out = value_undefined("an item of an empty list", 24);
    for (int64_t i = 0; i < items.n; i++) {
        value key = items.v[i];
        int order = sign; // the first one is taken
        if (attribute && attribute->kind != VALUE_NONE)
            DRV_TRY(filter_by_path(c, &items.v[i], attribute, &key));
        if (!sensitive || !value_true(sensitive)) DRV_TRY(lowered(c, &key));
        if (i > 0) DRV_TRY(value_compare(&c->m, &key, &best, &order));
        if (order * sign <= 0) continue;
        best = key;
        *out = items.v[i];
    }
    return DRV_OK;
}

static drv_status filter_max(jinja_context *c, const value *v, const call_args *args, value *out) {
    return find_extreme(c, v, args, 1, out);
}

static drv_status filter_min(jinja_context *c, const value *v, const call_args *args, value *out) {
    return find_extreme(c, v, args, -1, out);
}

const filter_row filters_of_order[] = {
        {"dictsort", filter_dictsort, 0, 3, "case_sensitive by reverse"},
        {"max", filter_max, 0, 2, "case_sensitive attribute"},
        {"min", filter_min, 0, 2, "case_sensitive attribute"},
        {"sort", filter_sort, 0, 3, "reverse case_sensitive attribute"},
        {"unique", filter_unique, 0, 2, "case_sensitive attribute"},
        {0},
};
