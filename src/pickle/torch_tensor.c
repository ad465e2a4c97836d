// Tensors in the pickle of a torch file: the calls that make them, the storages that they view, and
// their names.
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "pickle/torch_tensor_internal.h"

enum {
    MAX_NAME = 1000,
    MAX_LISTED = 2 << 20,    // values that are looked at for tensors
    MAX_REPEATED = 64 << 20, // elements of a view that repeats those of its storage
    MAX_WRAPPERS = 4,        // a parameter of a type around a tensor
};

static drv_status bad(const char *path, const pickle_value *v, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: byte %lld: a tensor %s", path, (long long)v->at, what);
}

// --- storages
drv_status torch_storage_id(arena *a, const char *path, const pickle_value *persistent,
        const torch_type **type, const char **key, int64_t *elements) {
    const pickle_value *id = persistent->id;
    if (id->kind != PICKLE_TUPLE || id->list.n < 5 || id->list.n > 6 ||
            !pickle_is_text(id->list.items[0], "storage"))
        return drv_fail(DRV_E_DATA,
                "%s: byte %lld: a persistent id is not a storage (class, key, device, elements)",
                path, (long long)persistent->at);
    pickle_value *const *part = id->list.items;
    *type = part[1]->kind == PICKLE_NAME ? torch_type_of_storage(part[1]->name->name) : NULL;
    if (!*type) return bad(path, persistent, "has a storage of a type that is not read");
    if (part[2]->kind != PICKLE_TEXT || part[2]->text.n > MAX_NAME ||
            memchr(part[2]->text.p, 0, part[2]->text.n))
        return bad(path, persistent, "has a storage whose key is no text");
    if (part[4]->kind != PICKLE_INT || part[4]->integer < 0 || part[4]->integer > INT64_MAX / 64)
        return bad(path, persistent, "has a storage without a number of elements");
    if (id->list.n == 6 && part[5]->kind != PICKLE_NONE)
        return bad(path, persistent,
                "is a view of a storage, as torch before 0.4 wrote; a newer torch writes it anew");
    *key = arena_strndup(a, part[2]->text.p, part[2]->text.n);
    *elements = part[4]->integer;
    return DRV_OK;
}

static drv_status find_storage(const torch_file *f, const pickle_value *v, torch_tensor *t) {
    const torch_storage *storage;
    const char *key;
    int64_t elements;
    arena *a = f->storages.a;
    if (v->kind != PICKLE_PERSISTENT) return bad(f->part.path, v, "has no storage");
    DRV_TRY(torch_storage_id(a, f->part.path, v, &t->type, &key, &elements));
    storage = name_map_get(&f->storages, key);
    if (!storage)
        return drv_fail(DRV_E_DATA, "%s: byte %lld: storage \"%.80s\" is not in the file",
                f->part.path, (long long)v->at, key);
    if (storage->bytes != elements * t->type->bytes)
        return drv_fail(DRV_E_DATA,
                "%s: storage \"%.80s\" has %lld bytes, expected %lld for %lld elements of %s",
                f->part.path, key, (long long)storage->bytes,
                (long long)(elements * t->type->bytes), (long long)elements, t->type->name);
    t->storage_at = storage->at;
    t->storage_bytes = storage->bytes;
    return DRV_OK;
}

// --- views
static drv_status take_int(const torch_file *f, const pickle_value *v, int64_t *out) {
    if (v->kind != PICKLE_INT || v->integer < 0 || v->integer > INT64_MAX / 64)
        return bad(f->part.path, v, "has a size, a stride or an offset that is none");
    *out = v->integer;
    return DRV_OK;
}

// torch.Size where a tuple is expected is its argument.
static const pickle_value *as_tuple(const pickle_value *v) {
    if (pickle_is_call(v, "torch", "Size") && v->call->arguments->list.n == 1)
        return v->call->arguments->list.items[0];
    return v;
}

static drv_status take_shape(const torch_file *f, const pickle_value *size,
        const pickle_value *stride, torch_tensor *t) {
    size = as_tuple(size);
    stride = as_tuple(stride);
    if (size->kind != PICKLE_TUPLE || stride->kind != PICKLE_TUPLE ||
            size->list.n != stride->list.n || size->list.n > MAX_TORCH_DIMS)
        return bad(f->part.path, size, "has sizes and strides that are no tuples of at most 8");
    t->n_dims = size->list.n;
    t->elements = 1;
    for (int i = 0; i < t->n_dims; i++) {
        DRV_TRY(take_int(f, size->list.items[i], &t->dim[i]));
        DRV_TRY(take_int(f, stride->list.items[i], &t->stride[i]));
        if (__builtin_mul_overflow(t->elements, t->dim[i], &t->elements) ||
                t->elements > INT64_MAX / 64)
            return bad(f->part.path, size, "has too many elements");
    }
    t->contiguous = true;
    int64_t expected = 1;
    for (int i = t->n_dims - 1; i >= 0 && t->elements; i--) {
        if (t->dim[i] != 1 && t->stride[i] != expected) t->contiguous = false;
        expected *= t->dim[i];
    }
    return DRV_OK;
}

// Returns whether the last element of the view is inside the storage.
static drv_status check_bounds(const torch_file *f, const pickle_value *v, int64_t first,
        torch_tensor *t) {
    const int64_t available = t->storage_bytes / t->type->bytes;
    int64_t last = first;
    for (int i = 0; i < t->n_dims; i++) {
        int64_t reach = 0;
        if (__builtin_mul_overflow(t->dim[i] ? t->dim[i] - 1 : 0, t->stride[i], &reach) ||
                __builtin_add_overflow(last, reach, &last))
            return bad(f->part.path, v, "reaches beyond its storage");
    }
    if (t->elements && last >= available)
        return drv_fail(DRV_E_DATA,
                "%s: byte %lld: a tensor reaches to element %lld of its storage, which has %lld",
                f->part.path, (long long)v->at, (long long)last, (long long)available);
    if (t->elements > available && t->elements > MAX_REPEATED)
        return bad(f->part.path, v, "repeats the elements of its storage too often");
    t->offset = t->storage_at + (t->elements ? first * t->type->bytes : 0);
    return DRV_OK;
}

// _rebuild_tensor(storage, offset, size, stride) and its successors, which add arguments:
// requires_grad, hooks, and of _v3 the dtype, since its storage has bytes.
static drv_status read_view(const torch_file *f, const pickle_value *v, torch_tensor *out) {
    const pickle_list *arguments = &v->call->arguments->list;
    pickle_value *const *part = arguments->items;
    const bool typed = pickle_is_call(v, "torch._utils", "_rebuild_tensor_v3");
    torch_tensor t = {.name = ""};
    int64_t first = 0;
    if (arguments->n < (typed ? 7 : 4)) return bad(f->part.path, v, "lacks arguments");
    DRV_TRY(find_storage(f, part[0], &t));
    if (typed) {
        t.type = part[6]->kind == PICKLE_NAME ? torch_type_of(part[6]->name->name) : NULL;
        if (!t.type) return bad(f->part.path, v, "has a type that is not read");
    }
    DRV_TRY(take_int(f, part[1], &first));
    DRV_TRY(take_shape(f, part[2], part[3], &t));
    DRV_TRY(check_bounds(f, v, first, &t));
    *out = t;
    return DRV_OK;
}

static bool is_view(const pickle_value *v) {
    return pickle_is_call(v, "torch._utils", "_rebuild_tensor_v2") ||
           pickle_is_call(v, "torch._utils", "_rebuild_tensor") ||
           pickle_is_call(v, "torch._utils", "_rebuild_tensor_v3");
}

// _rebuild_from_type_v2(function, type, arguments, state) is a call of the function.
static bool is_view_of_type(const pickle_value *v, pickle_value *call, pickle_call *inner) {
    if (!pickle_is_call(v, "torch._tensor", "_rebuild_from_type_v2")) return false;
    const pickle_list *arguments = &v->call->arguments->list;
    if (arguments->n < 3 || arguments->items[0]->kind != PICKLE_NAME ||
            arguments->items[2]->kind != PICKLE_TUPLE)
        return false;
    *inner = (pickle_call){.name = arguments->items[0]->name, .arguments = arguments->items[2]};
    *call = (pickle_value){.kind = PICKLE_CALL, .at = v->at, .call = inner};
    return true;
}

drv_status torch_tensor_of(const torch_file *f, const pickle_value *v, torch_tensor *out,
        bool *is_tensor) {
    pickle_value call;
    pickle_call inner;
    *is_tensor = false;
    for (int i = 0; i < MAX_WRAPPERS; i++) {
        const bool parameter = pickle_is_call(v, "torch._utils", "_rebuild_parameter") ||
                               pickle_is_call(v, "torch._utils", "_rebuild_parameter_with_state");
        if (!parameter || v->call->arguments->list.n < 1) break;
        v = v->call->arguments->list.items[0];
    }
    if (is_view_of_type(v, &call, &inner)) v = &call;
    if (!is_view(v)) return DRV_OK;
    *is_tensor = true;
    return read_view(f, v, out);
}

// --- names
typedef struct lister {
    arena *a;
    torch_file *f;
    str name; // so far
    int cap, n_seen;
} lister;

static drv_status list_value(lister *l, const pickle_value *v);

static drv_status add(lister *l, const pickle_value *v, const torch_tensor *t) {
    torch_file *f = l->f;
    json_t *text = json_stringn(l->name.n ? l->name.p : "", l->name.n);
    const bool good = text && !memchr(json_string_value(text), 0, l->name.n);
    json_decref(text);
    if (!good) return bad(f->part.path, v, "has a name that is not UTF-8");
    ARENA_GROW(l->a, f->tensors, f->n, l->cap);
    f->tensors[f->n] = *t;
    f->tensors[f->n++].name = arena_strndup(l->a, l->name.n ? l->name.p : "", l->name.n);
    return DRV_OK;
}

// Lists the tensors under a key or a list index.
static drv_status list_below(lister *l, const pickle_value *v, const char *key, size_t n) {
    const size_t before = l->name.n;
    if (before + n > MAX_NAME)
        return drv_fail(DRV_E_DATA,
                "%s: byte %lld: keys that lead to a value have more than %d bytes", l->f->part.path,
                (long long)v->at, MAX_NAME);
    if (before) str_puts(&l->name, ".");
    str_add(&l->name, key, n);
    const drv_status status = list_value(l, v);
    l->name.n = before;
    return status;
}

static drv_status list_entry(lister *l, const pickle_entry *e) {
    char digits[24];
    if (e->key->kind == PICKLE_TEXT) return list_below(l, e->value, e->key->text.p, e->key->text.n);
    if (e->key->kind != PICKLE_INT) return DRV_OK;
    const int n = snprintf(digits, sizeof digits, "%lld", (long long)e->key->integer);
    return list_below(l, e->value, digits, (size_t)n);
}

static drv_status list_value(lister *l, const pickle_value *v) {
    torch_tensor t;
    bool is_tensor;
    if (++l->n_seen > MAX_LISTED)
        return drv_fail(DRV_E_DATA, "%s: has more than %d values to look at for tensors",
                l->f->part.path, MAX_LISTED);
    const pickle_dict *dict = pickle_entries(v);
    for (int i = 0; dict && i < dict->n; i++)
        DRV_TRY(list_entry(l, &dict->entries[i]));
    if (v->kind == PICKLE_LIST || v->kind == PICKLE_TUPLE)
        for (int i = 0; i < v->list.n; i++) {
            char digits[24];
            const int n = snprintf(digits, sizeof digits, "%d", i);
            DRV_TRY(list_below(l, v->list.items[i], digits, (size_t)n));
        }
    DRV_TRY(torch_tensor_of(l->f, v, &t, &is_tensor));
    return is_tensor ? add(l, v, &t) : DRV_OK;
}

drv_status torch_list(arena *a, torch_file *f) {
    lister l = {.a = a, .f = f};
    drv_status status = list_value(&l, f->root);
    str_free(&l.name);
    f->by_name = (name_map){.a = a};
    for (int i = 0; status == DRV_OK && i < f->n; i++) {
        if (name_map_get(&f->by_name, f->tensors[i].name))
            status = drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is there twice", f->part.path,
                    f->tensors[i].name);
        name_map_set(&f->by_name, f->tensors[i].name, &f->tensors[i]);
    }
    return status;
}
