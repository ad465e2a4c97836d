// Looks into values: attributes, items, slices, iteration, "in".
#include <stdlib.h>
#include <string.h>

#include "base/round.h"
#include "chat/jinja_eval_internal.h"

drv_status jinja_attribute(jinja_context *c, const value *self, const value *name, value *out) {
    DRV_TRY(jinja_defined(self));
    const value *found = NULL;
    bool method = false;
    if (self->kind == VALUE_NAMESPACE) found = value_dict_get(self->dict, name);
    if (self->kind == VALUE_FUNCTION && self->function->loop)
        DRV_TRY(jinja_loop_attribute(c, self->function->loop, name, &method, out));
    else if (self->kind == VALUE_FUNCTION && self->function->macro)
        return drv_fail(DRV_E_DATA, "attributes of a macro are not supported, found \"%.*s\"",
                (int)(name->s.n < 60 ? name->s.n : 60), name->s.p);
    else if (!found)
        DRV_TRY(jinja_method(c, self, name, &method, out));
    if (method) return DRV_OK;
    if (!found && self->kind == VALUE_DICT) {
        DRV_TRY(jinja_charge(c, self->dict->keys.n / 32));
        found = value_dict_get(self->dict, name);
    }
    *out = found ? *found : value_undefined(name->s.p, name->s.n);
    return DRV_OK;
}

drv_status jinja_item(jinja_context *c, const value *self, const value *index, value *out) {
    DRV_TRY(jinja_defined(self));
    int64_t i = 0;
    const bool number = value_whole(index, &i);
    *out = value_undefined("", 0);
    if (self->kind == VALUE_DICT) {
        DRV_TRY(jinja_charge(c, self->dict->keys.n / 32));
        const value *found = value_dict_get(self->dict, index);
        if (found) {
            *out = *found;
            return DRV_OK;
        }
    } else if (self->kind == VALUE_LIST && number && !list_is_view(self->list->form)) {
        if (i < 0) i += self->list->n;
        if (i >= 0 && i < self->list->n) *out = self->list->v[i];
        return DRV_OK;
    } else if (self->kind == VALUE_STRING && number) {
        const int64_t n = text_length(self->s.p, self->s.n);
        DRV_TRY(jinja_charge(c, (int64_t)self->s.n / 64));
        if (i < 0) i += n;
        if (i < 0 || i >= n) return DRV_OK;
        const size_t from = text_offset(self->s.p, self->s.n, i), rest = self->s.n - from;
        *out = value_slice(self->s.p + from, text_offset(self->s.p + from, rest, 1));
        return DRV_OK;
    }
    return index->kind == VALUE_STRING ? jinja_attribute(c, self, index, out) : DRV_OK;
}

// Computes the first index, the end and the step of a slice, as Python's slice.indices does, and
// the count of its items.
static drv_status slice_range(const value part[3], int64_t length, int64_t bound[3],
        int64_t *count) {
    bound[2] = 1;
    for (int i = 0; i < 3; i++)
        if (part[i].kind != VALUE_NONE && !value_whole(&part[i], &bound[i]))
            return drv_fail(DRV_E_DATA, "a slice is made of whole numbers, found %s",
                    value_type_name(&part[i]));
    const int64_t step = bound[2];
    if (step == 0 || step < -(1LL << 40) || step > 1LL << 40)
        return drv_fail(DRV_E_DATA, "a slice of step %lld", (long long)step);
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
    for (int i = 0; i < 2; i++) {
        if (part[i].kind == VALUE_NONE) {
            bound[i] = (i == 0) == (step > 0) ? low : high;
            continue;
        }
        if (bound[i] < 0) bound[i] += length;
        bound[i] = bound[i] < low ? low : bound[i] > high ? high : bound[i];
    }
    const int64_t distance = step > 0 ? bound[1] - bound[0] : bound[0] - bound[1],
                  size = llabs(step);
    *count = distance > 0 ? div_up(distance, size) : 0;
    return DRV_OK;
}

static drv_status slice_string(jinja_context *c, const value *v, const value part[3], value *out) {
    int64_t bound[3], count;
    DRV_TRY(jinja_charge(c, (int64_t)v->s.n / 16));
    DRV_TRY(slice_range(part, text_length(v->s.p, v->s.n), bound, &count));
    const size_t from = text_offset(v->s.p, v->s.n, bound[0]);
    if (bound[2] == 1) {
        *out = value_slice(v->s.p + from, text_offset(v->s.p + from, v->s.n - from, count));
        return DRV_OK;
    }
    size_t *begin = mem_alloc(sizeof *begin * (v->s.n + 1)), n = 0; // of each code point
    for (size_t i = 0; i < v->s.n; i++)
        if (((unsigned char)v->s.p[i] & 0xC0) != 0x80) begin[n++] = i;
    begin[n] = v->s.n;
    str text = {0};
    for (int64_t i = 0; i < count; i++) {
        const size_t index = (size_t)(bound[0] + i * bound[2]);
        str_add(&text, v->s.p + begin[index], begin[index + 1] - begin[index]);
    }
    free(begin);
    return jinja_take(c, &text, out);
}

static drv_status slice_text(jinja_context *c, const value *v, const value part[3], value *out) {
    DRV_TRY(slice_string(c, v, part, out));
    out->s.safe = v->s.safe;
    return DRV_OK;
}

static drv_status slice_list(jinja_context *c, const value_list *list, const value part[3],
        value *out) {
    int64_t bound[3], count;
    DRV_TRY(slice_range(part, list->n, bound, &count));
    if (list->form == LIST_RANGE && llabs(list->bound[2]) > (1LL << 61) / llabs(bound[2]))
        return drv_fail(DRV_E_DATA, "range is too large");
    DRV_TRY(jinja_charge(c, count));
    DRV_TRY(value_new_list(&c->m, out));
    out->list->form = list->form;
    for (int64_t i = 0; i < count; i++)
        DRV_TRY(value_list_add(&c->m, out->list, list->v[bound[0] + i * bound[2]]));
    for (int i = 0; i < 3 && list->form == LIST_RANGE; i++) // the slice of a range is a range
        out->list->bound[i] = (i < 2 ? list->bound[0] : 0) + bound[i] * list->bound[2];
    return DRV_OK;
}

drv_status jinja_eval_slice(jinja_context *c, const expr *e, value *out) {
    value v, part[3];
    DRV_TRY(jinja_eval(c, e->a, &v));
    for (int i = 0; i < 3; i++)
        DRV_TRY(jinja_eval(c, e->args[i], &part[i]));
    DRV_TRY(jinja_defined(&v));
    if (v.kind == VALUE_STRING) return slice_text(c, &v, part, out);
    *out = value_undefined("slice", 5);
    if (v.kind != VALUE_LIST) return DRV_OK;
    if (list_is_view(v.list->form))
        return drv_fail(DRV_E_DATA, "%s has no slices; |list makes a list of it",
                value_type_name(&v));
    return slice_list(c, v.list, part, out);
}

bool generator_next(const value *generator, value *out) {
    value_list *left = generator->list;
    if (!left->n) return false;
    *out = *left->v++;
    left->n--;
    return true;
}

drv_status jinja_items(jinja_context *c, const value *self, value_list *out) {
    switch (self->kind) {
    case VALUE_UNDEFINED:
        return DRV_OK;
    case VALUE_LIST:
        DRV_TRY(jinja_charge(c, self->list->n));
        *out = *self->list;
        out->cap = out->n; // adding an item copies the array
        return DRV_OK;
    case VALUE_GENERATOR: // can be iterated over once
        DRV_TRY(jinja_charge(c, self->list->n));
        *out = *self->list;
        out->cap = out->n;
        self->list->n = 0;
        return DRV_OK;
    case VALUE_DICT:
        DRV_TRY(jinja_charge(c, self->dict->keys.n));
        *out = self->dict->keys;
        out->cap = out->n;
        return DRV_OK;
    case VALUE_STRING:
        DRV_TRY(jinja_charge(c, (int64_t)self->s.n));
        for (size_t i = 0; i < self->s.n;) {
            const size_t n = text_offset(self->s.p + i, self->s.n - i, 1);
            DRV_TRY(value_list_add(&c->m, out, value_slice(self->s.p + i, n)));
            i += n;
        }
        return DRV_OK;
    default:
        return drv_fail(DRV_E_DATA, "%s cannot be iterated over", value_type_name(self));
    }
}

drv_status jinja_contains(jinja_context *c, const value *self, const value *item, bool *out) {
    *out = false;
    if (self->kind == VALUE_UNDEFINED) return DRV_OK;
    if (self->kind == VALUE_STRING) {
        if (item->kind != VALUE_STRING)
            return drv_fail(DRV_E_DATA, "a string holds strings, found %s", value_type_name(item));
        DRV_TRY(jinja_charge(c, (int64_t)self->s.n / 32));
        *out = item->s.n == 0 || (self->s.n && memmem(self->s.p, self->s.n, item->s.p, item->s.n));
        return DRV_OK;
    }
    if (self->kind == VALUE_DICT) {
        DRV_TRY(jinja_charge(c, self->dict->keys.n / 4));
        *out = value_dict_get(self->dict, item) != NULL;
        return DRV_OK;
    }
    if (self->kind != VALUE_LIST && self->kind != VALUE_GENERATOR)
        return drv_fail(DRV_E_DATA, "%s cannot be searched by \"in\"", value_type_name(self));
    DRV_TRY(jinja_charge(c, self->list->n / 4));
    value next;
    while (self->kind == VALUE_GENERATOR && !*out && generator_next(self, &next))
        *out = value_equal(&c->m, &next, item);
    if (self->kind == VALUE_GENERATOR) return DRV_OK;
    for (int64_t i = 0; i < self->list->n && !*out; i++)
        *out = value_equal(&c->m, &self->list->v[i], item);
    return DRV_OK;
}
