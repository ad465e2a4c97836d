// Examines the values of a pickle: their kinds, and values by key.
#include <stdio.h>
#include <string.h>

#include "pickle/pickle.h"

const char *pickle_kind_name(pickle_kind kind) {
    static const char *const names[] = {[PICKLE_NONE] = "None",
            [PICKLE_BOOL] = "a bool",
            [PICKLE_INT] = "an integer",
            [PICKLE_LONG] = "a long integer",
            [PICKLE_REAL] = "a float",
            [PICKLE_TEXT] = "a text",
            [PICKLE_BYTES] = "bytes",
            [PICKLE_LIST] = "a list",
            [PICKLE_TUPLE] = "a tuple",
            [PICKLE_SET] = "a set",
            [PICKLE_DICT] = "a dict",
            [PICKLE_NAME] = "a name",
            [PICKLE_CALL] = "an object",
            [PICKLE_PERSISTENT] = "a storage"};
    return names[kind];
}

bool pickle_is_text(const pickle_value *v, const char *text) {
    return v && v->kind == PICKLE_TEXT && v->text.n == strlen(text) &&
           memcmp(v->text.p, text, v->text.n) == 0;
}

bool pickle_is_call(const pickle_value *v, const char *module, const char *name) {
    return v && v->kind == PICKLE_CALL && strcmp(v->call->name->module, module) == 0 &&
           strcmp(v->call->name->name, name) == 0;
}

const pickle_dict *pickle_entries(const pickle_value *v) {
    if (!v) return NULL;
    if (v->kind == PICKLE_DICT) return &v->dict;
    if (pickle_is_call(v, "collections", "OrderedDict") ||
            pickle_is_call(v, "collections", "defaultdict"))
        return &v->call->set;
    if (pickle_is_call(v, "argparse", "Namespace") && v->call->state &&
            v->call->state->kind == PICKLE_DICT)
        return &v->call->state->dict;
    return NULL;
}

const pickle_value *pickle_get(const pickle_value *v, const char *key) {
    const pickle_dict *dict = pickle_entries(v);
    for (int i = dict ? dict->n - 1 : -1; i >= 0; i--)
        if (pickle_is_text(dict->entries[i].key, key)) return dict->entries[i].value;
    return NULL;
}

// Returns the rest of `path` after a key and its dot, "" at the end; NULL: it does not begin with it.
static const char *after(const char *path, const char *key, size_t n) {
    if (strlen(path) < n || memcmp(path, key, n) != 0) return NULL;
    return path[n] == '.' ? path + n + 1 : path[n] ? NULL : path + n;
}

static const char *after_key(const char *path, const pickle_value *key) {
    char digits[24];
    if (key->kind == PICKLE_TEXT) return after(path, key->text.p, key->text.n);
    if (key->kind != PICKLE_INT) return NULL;
    const int n = snprintf(digits, sizeof digits, "%lld", (long long)key->integer);
    return after(path, digits, (size_t)n);
}

const pickle_value *pickle_find(const pickle_value *v, const char *path) {
    if (!v || !*path) return v;
    const pickle_dict *dict = pickle_entries(v);
    for (int i = dict ? dict->n - 1 : -1; i >= 0; i--) {
        const char *rest = after_key(path, dict->entries[i].key);
        const pickle_value *found = rest ? pickle_find(dict->entries[i].value, rest) : NULL;
        if (found) return found;
    }
    if (v->kind != PICKLE_LIST && v->kind != PICKLE_TUPLE) return NULL;
    for (int i = 0; i < v->list.n; i++) {
        const pickle_value index = {.kind = PICKLE_INT, .integer = i};
        const char *rest = after_key(path, &index);
        if (rest) return pickle_find(v->list.items[i], rest);
    }
    return NULL;
}
