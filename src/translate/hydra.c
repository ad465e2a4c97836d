// Reads YAML by OmegaConf's grammar (omegaconf/grammar/OmegaConfGrammarParser.g4). Of the resolvers
// only `multiply` is known, which NxD Training registers (examples/training_orchestrator.py); the
// others depend on the environment.
#include "translate/hydra.h"

#include <string.h>

#include "base/file.h"

enum { MAX_NESTED = 64, MAX_TEXT = 1 << 16, MAX_REPLACED = 10000 };

// --- maps
static int item_of(const value *map, const char *name, size_t n) {
    for (int i = 0; map->kind == VALUE_MAP && i < map->n; i++)
        if (strncmp(map->items[i].name, name, n) == 0 && map->items[i].name[n] == 0) return i;
    return -1;
}

// Copies a value to another path.
static value moved(arena *a, const value *from, const char *path, const char *name, int depth) {
    value to = *from;
    to.path = path;
    to.name = name;
    if (depth > MAX_NESTED || from->n == 0) return to;
    value *items = ARENA_ARRAY(a, value, from->n);
    for (int i = 0; i < from->n; i++) {
        const value *item = &from->items[i];
        const char *below = from->kind == VALUE_LIST
                                    ? arena_printf(a, "%s[%d]", path, i)
                                    : arena_printf(a, "%s%s%s", path, *path ? "." : "", item->name);
        items[i] = moved(a, item, below, item->name, depth + 1);
    }
    to.items = items;
    return to;
}

// Sets `v` at `path` below a map and makes the maps on the way; v NULL: removes the value.
static void put(arena *a, value *map, const char *path, const value *leaf) {
    const size_t n_name = strcspn(path, ".");
    const char *rest = path[n_name] ? path + n_name + 1 : NULL;
    const char *name = arena_strndup(a, path, n_name);
    const char *full = arena_printf(a, "%s%s%s", map->path, *map->path ? "." : "", name);
    if (map->kind != VALUE_MAP) {
        map->kind = VALUE_MAP;
        map->n = 0;
    }
    int index = item_of(map, name, n_name);
    if (index < 0 && !leaf) return;
    value *items = ARENA_ARRAY(a, value, map->n + 1);
    if (map->n) memcpy(items, map->items, sizeof *items * (size_t)map->n);
    if (index < 0) {
        index = map->n++;
        items[index] = (value){.kind = VALUE_MAP, .path = full, .name = name, .where = leaf->where};
    }
    if (rest)
        put(a, &items[index], rest, leaf);
    else if (leaf)
        items[index] = moved(a, leaf, full, name, 0);
    else
        memmove(&items[index], &items[index + 1], sizeof *items * (size_t)(--map->n - index));
    map->items = items;
}

// Merges maps and replaces all else. Each copied key counts against the budget.
static drv_status merge(arena *a, budget *left, value *into, const value *from) {
    for (int i = 0; i < from->n; i++) {
        const value *item = &from->items[i];
        DRV_TRY(budget_bytes(left, item->where, sizeof *item * (size_t)(into->n + 1)));
        const int index = item_of(into, item->name, strlen(item->name));
        if (index < 0 || into->items[index].kind != VALUE_MAP || item->kind != VALUE_MAP) {
            put(a, into, item->name, item);
            continue;
        }
        value *items = ARENA_ARRAY(a, value, into->n);
        memcpy(items, into->items, sizeof *items * (size_t)into->n);
        DRV_TRY(merge(a, left, &items[index], item));
        into->items = items;
    }
    return DRV_OK;
}

static int64_t keys_of(const value *v) {
    int64_t n = v->n;
    for (int i = 0; i < v->n; i++)
        n += keys_of(&v->items[i]);
    return n;
}

// --- defaults
static drv_status read_with_defaults(arena *a, budget *left, const char *file, int depth,
        value *out);

static drv_status add_default(arena *a, budget *left, const char *file, const value *entry,
        int depth, value *out) {
    const char *name = entry->text;
    if (entry->kind != VALUE_TEXT || strchr(name, '/') || strchr(name, '@') || strchr(name, ' ') ||
            name[0] == '.')
        return drv_fail(DRV_E_USAGE,
                "%s: a default is %s, expected the name of a file in the same folder", entry->where,
                value_shown(a, entry));
    const char *path = path_join(a, path_parent(a, file),
            str_ends(name, ".yaml") ? name : arena_printf(a, "%s.yaml", name));
    value part;
    DRV_TRY_CTX(read_with_defaults(a, left, path, depth + 1, &part), "%s: default \"%s\"",
            entry->where, name);
    return merge(a, left, out, &part);
}

static drv_status read_with_defaults(arena *a, budget *left, const char *file, int depth,
        value *out) {
    char *text;
    size_t n_bytes;
    value own;
    if (depth > MAX_NESTED)
        return drv_fail(DRV_E_USAGE,
                "defaults lead through more than %d files, which may be a cycle", MAX_NESTED);
    DRV_TRY(budget_read(left, a, file, &text, &n_bytes));
    DRV_TRY(yaml_read(a, file, text, n_bytes, &own));
    DRV_TRY(budget_words(left, file, keys_of(&own)));
    *out = (value){.kind = VALUE_MAP, .path = "", .where = file};
    const int index = item_of(&own, "defaults", strlen("defaults"));
    if (index < 0) {
        *out = own;
        return DRV_OK;
    }
    const value defaults = own.items[index];
    bool self = false;
    put(a, &own, "defaults", NULL);
    if (defaults.kind != VALUE_LIST)
        return drv_fail(DRV_E_USAGE, "%s: \"defaults\" is %s, expected a list", defaults.where,
                value_shown(a, &defaults));
    for (int i = 0; i < defaults.n; i++) {
        const value *entry = &defaults.items[i];
        const bool is_self = entry->kind == VALUE_TEXT && strcmp(entry->text, "_self_") == 0;
        if (is_self)
            DRV_TRY(merge(a, left, out, &own));
        else
            DRV_TRY(add_default(a, left, file, entry, depth, out));
        self |= is_self;
    }
    return self ? DRV_OK : merge(a, left, out, &own);
}

drv_status hydra_read(arena *a, budget *left, const char *file, value *out) {
    return read_with_defaults(a, left, file, 0, out);
}

drv_status hydra_override(arena *a, budget *left, value *root, const char *text,
        const char *where) {
    const char *equal = strchr(text, '=');
    if (text[0] == '~') {
        put(a, root, arena_strndup(a, text + 1, strcspn(text + 1, "=")), NULL);
        return DRV_OK;
    }
    const char *name = text + strspn(text, "+");
    if (!equal || equal <= name || name - text > 2)
        return drv_fail(DRV_E_USAGE, "%s: \"%.80s\", expected an override KEY=VALUE", where, text);
    const char *path = arena_strndup(a, name, (size_t)(equal - name));
    if (path[0] == '.' || str_ends(path, ".") || strstr(path, ".."))
        return drv_fail(DRV_E_USAGE, "%s: \"%.80s\", expected an override KEY=VALUE", where, text);
    int dots = 0;
    for (const char *p = path; *p; p++)
        dots += *p == '.';
    if (dots > MAX_NESTED)
        return drv_fail(DRV_E_USAGE, "%s: \"%.80s\" has more than 64 sections", where, text);
    value v;
    DRV_TRY(budget_words(left, where, 1));
    DRV_TRY(yaml_read_value(a, path, where, equal + 1, &v));
    put(a, root, path, &v);
    return DRV_OK;
}

// --- interpolation
typedef struct resolver {
    arena *a;
    budget *left;
    const value *root; // before interpolation
    int n_replaced;
} resolver;

static drv_status resolve(resolver *self, const value *v, int depth, value *out);

static drv_status refuse(const value *v, const char *what) {
    return drv_fail(DRV_E_USAGE, "%s: key \"%s\" is \"%.80s\", %s", v->where, v->path, v->text,
            what);
}

// Returns the value at a path from the root, or from the map that contains v if the path begins
// with dots; NULL: there is none.
static const value *find(const resolver *self, const value *v, const char *path) {
    const value *found = self->root;
    const size_t dots = strspn(path, ".");
    if (dots > 0) {
        char *base = arena_strdup(self->a, v->path);
        for (size_t i = 0; i < dots; i++) {
            char *dot = strrchr(base, '.');
            if (!dot && !*base) return NULL;
            *(dot ? dot : base) = 0;
        }
        path = arena_printf(self->a, "%s%s%s", base, *base ? "." : "", path + dots);
    }
    while (*path) {
        const size_t n = strcspn(path, ".");
        const int i = item_of(found, path, n);
        if (i < 0) return NULL;
        found = &found->items[i];
        path += n + (path[n] == '.');
    }
    return found;
}

// Returns the "}" that closes the ${ whose content begins at p; NULL: there is none.
static const char *closing(const char *p) {
    int depth = 1;
    for (; *p; p++) {
        if (p[0] == '$' && p[1] == '{') depth++;
        if (p[0] == '}' && --depth == 0) return p;
    }
    return NULL;
}

static drv_status multiply(const resolver *self, const value *v, const char *list, value *out) {
    double product = 1;
    for (char *rest = arena_strdup(self->a, list), *part; (part = strsep(&rest, ","));) {
        double x;
        part += strspn(part, " ");
        for (size_t n = strlen(part); n && part[n - 1] == ' ';)
            part[--n] = 0;
        if (!str_to_f64(part, &x)) return refuse(v, "expected numbers to multiply");
        product *= x;
    }
    *out = *v;
    out->text = str_real(product);
    if (product == (double)(int64_t)product && product < 1e15 && product > -1e15)
        out->text = arena_printf(self->a, "%lld", (long long)product);
    out->text = arena_strdup(self->a, out->text);
    return DRV_OK;
}

static drv_status replace_text(resolver *self, const value *v, const char *text, int depth,
        value *out);

// Looks up the content of ${...}, after the interpolations inside it.
static drv_status look_up(resolver *self, const value *v, const char *inside, int depth,
        value *out) {
    value name;
    if (++self->n_replaced > MAX_REPLACED)
        return refuse(v, "which leads to more than 10000 others");
    DRV_TRY(replace_text(self, v, inside, depth + 1, &name));
    if (name.kind != VALUE_TEXT) return refuse(v, "expected the name of a key in ${...}");
    if (str_starts(name.text, "multiply:"))
        return multiply(self, v, name.text + strlen("multiply:"), out);
    if (strchr(name.text, ':'))
        return refuse(v, "whose resolver is not known: expected ${key} or ${multiply:a,b}");
    const value *found = find(self, v, name.text);
    if (!found) return refuse(v, "which names a key that does not exist");
    return resolve(self, found, depth + 1, out);
}

// Replaces each ${...} of a text; if the text is a single one, the value may be of any kind.
static drv_status replace_text(resolver *self, const value *from, const char *text, int depth,
        value *out) {
    if (depth > MAX_NESTED)
        return refuse(from, "which leads through more than 64 others, or in a circle");
    str all = {0};
    drv_status status = DRV_OK;
    *out = *from;
    out->kind = VALUE_TEXT;
    str_puts(&all, "");
    while (status == DRV_OK && *text) {
        const char *open = strstr(text, "${"), *close = open ? closing(open + 2) : NULL;
        str_add(&all, text, open ? (size_t)(open - text) : strlen(text));
        if (!open) break;
        if (!close) {
            status = refuse(from, "whose ${ is not closed");
            break;
        }
        value part;
        status = look_up(self, from, arena_strndup(self->a, open + 2, (size_t)(close - open - 2)),
                depth, &part);
        if (status == DRV_OK && all.n == 0 && !close[1]) { // the whole text
            *out = part;
            str_free(&all);
            return DRV_OK;
        }
        if (status == DRV_OK && part.kind != VALUE_TEXT && part.kind != VALUE_NULL)
            status = refuse(from, "which puts a list or a section into a text");
        if (status == DRV_OK) str_puts(&all, part.kind == VALUE_NULL ? "null" : part.text);
        if (status == DRV_OK && all.n > MAX_TEXT)
            status = refuse(from, "which becomes longer than 64 KiB");
        text = close + 1;
    }
    if (status == DRV_OK) status = budget_bytes(self->left, from->where, all.n);
    out->text = str_keep(self->a, &all);
    return status;
}

// Returns `v` without interpolations; it and its items keep their file and line.
static drv_status resolve(resolver *self, const value *v, int depth, value *out) {
    if (depth > MAX_NESTED)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"%s\" leads through more than 64 others, or in a circle", v->where,
                v->path);
    if (++self->n_replaced > MAX_REPLACED)
        return drv_fail(DRV_E_USAGE, "%s: ${...} leads to more than 10000 values", v->where);
    if (v->kind == VALUE_TEXT && strstr(v->text, "${")) {
        DRV_TRY(replace_text(self, v, v->text, depth, out));
        *out = moved(self->a, out, v->path, v->name, 0);
        out->where = v->where;
        return DRV_OK;
    }
    *out = *v;
    if (v->n == 0) return DRV_OK;
    value *items = ARENA_ARRAY(self->a, value, v->n);
    for (int i = 0; i < v->n; i++)
        DRV_TRY(resolve(self, &v->items[i], depth + 1, &items[i]));
    out->items = items;
    return DRV_OK;
}

drv_status hydra_interpolate(arena *a, budget *left, value *root) {
    resolver self = {a, left, root, 0};
    value done;
    DRV_TRY(resolve(&self, root, 0, &done));
    *root = done;
    return DRV_OK;
}
