// Messages for unknown keys: another trainer's name for a key, a known name in the wrong section,
// or a misspelling.
#include <ctype.h>
#include <string.h>

#include "base/str.h"
#include "config/config_internal.h"
#include "config/foreign_key.h"
#include "config/key.h"

// Converts a name to the spelling of keys: lower case, "_" for "-" (Megatron's arguments have
// dashes, environment variables capitals).
static const char *plain(arena *a, const char *path) {
    char *text = arena_strdup(a, path);
    for (char *p = text; *p; p++)
        *p = *p == '-' ? '_' : (char)tolower((unsigned char)*p);
    return text;
}

static const char *last_part(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

// Lists the keys whose last part is that of `path`, as "a" or "b"; NULL: none.
static const char *same_last_part(arena *a, const char *path) {
    str found = {0};
    int n = 0;
    for (int i = 0; i < key_count(); i++) {
        const char *ours = key_of_index(a, i).path;
        if (strcmp(last_part(ours), last_part(path)) != 0) continue;
        str_printf(&found, "%s\"%s\"", n++ ? " or " : "", ours);
    }
    const char *names = n ? arena_strdup(a, found.p) : NULL;
    str_free(&found);
    return names;
}

// Returns whether one name is a prefix of the other, as log and log_every.
static bool is_part(const char *x, const char *y) {
    const size_t n = strlen(x), m = strlen(y);
    return n >= 3 && m >= 3 && strncmp(x, y, n < m ? n : m) == 0;
}

// Finds another trainer's key that `name` misspells or abbreviates; NULL: a key of ours is nearer.
static const char *nearest_peer(arena *a, const char *name, const char *const *ours, int n_ours) {
    enum { LONG = 6, BEGIN = 2 }; // a shorter name is near many others: it must begin alike
    const size_t n_name = strlen(name);
    const int n_peers = foreign_names(a, NULL), n = n_ours + n_peers;
    const char **all = ARENA_ARRAY(a, const char *, n), **peers = all + n_ours;
    memcpy(all, ours, sizeof *ours * (size_t)n_ours);
    foreign_names(a, peers);
    for (int i = 0; i < n_peers; i++)
        if (n_name >= LONG && str_starts(peers[i], name) && peers[i][n_name] == '_')
            return peers[i];
    const char *near = str_nearest(name, all, n); // of equally near ones the first: ours
    if (near && n_name < LONG && strncmp(near, name, BEGIN) != 0) return NULL;
    for (int i = 0; i < n_peers && near; i++)
        if (peers[i] == near) return near;
    return NULL;
}

// Returns the end of the message: similar names in the given section, in any section, then those of
// other trainers.
static const char *nearest_key(arena *a, const char *path) {
    const char *name = last_part(path);
    const size_t n_section = (size_t)(name - path);
    const char **near = ARENA_ARRAY(a, const char *, key_count());
    const char **all = ARENA_ARRAY(a, const char *, key_count());
    int n_near = 0, n_all = 0;
    for (int i = 0; i < key_count(); i++) {
        const char *ours = key_of_index(a, i).path;
        all[n_all++] = last_part(ours);
        if (last_part(ours) != ours + n_section || strncmp(ours, path, n_section) != 0) continue;
        if (is_part(last_part(ours), name)) return arena_printf(a, "did you mean \"%s\"?", ours);
        near[n_near++] = last_part(ours);
    }
    const char *found = str_nearest(name, near, n_near);
    if (found) return arena_printf(a, "did you mean \"%.*s%s\"?", (int)n_section, path, found);
    found = nearest_peer(a, name, all, n_all);
    if (found)
        return arena_printf(a, "another trainer's \"%s\"? %s", found,
                foreign_hint(a, found, false));
    found = str_nearest(name, all, n_all);
    return found ? arena_printf(a, "did you mean %s?", same_last_part(a, found)) : NULL;
}

// For an unknown key in a known section of another trainer, such as zero_optimization.stage,
// returns the hint of the innermost such section; NULL: none.
static const char *section_hint(arena *a, const char *path) {
    char *section = arena_strdup(a, path);
    for (char *dot; (dot = strrchr(section, '.'));) {
        *dot = 0;
        const char *found = foreign_hint(a, section, false);
        if (found) return found;
    }
    return NULL;
}

// For a value in the place of one of our sections.
static const char *no_section(arena *a, const value *v) {
    const char *below = config_first_below(a, v->path);
    return below ? arena_printf(a, "is %s, expected keys below it, as %s", value_shown(a, v), below)
                 : NULL;
}

// Returns the end of the message; NULL: there is no hint.
static const char *hint(arena *a, const char *written) {
    const char *path = plain(a, written);
    const char *peer = foreign_hint(a, path, true), *same = same_last_part(a, path);
    if (peer) return peer;
    if (same) return arena_printf(a, "did you mean %s?", same);
    if ((peer = foreign_hint(a, path, false)) || (peer = section_hint(a, path)) ||
            (peer = foreign_flag_hint(a, path)))
        return peer;
    return nearest_key(a, path);
}

// Adds every key of an unknown section, since the message names each of them.
static void add_leaves(const value *v, unknown_keys *out) {
    if (v->kind != VALUE_MAP || v->n == 0) {
        MEM_GROW(out->list, out->n, out->cap);
        out->list[out->n++] = v;
        return;
    }
    for (int i = 0; i < v->n; i++)
        add_leaves(&v->items[i], out);
}

void unknown_keys_add(unknown_keys *all, const value *v) {
    add_leaves(v, all);
}

static const char *answer(arena *a, const value *v) {
    const char *text = no_section(a, v);
    if (text) return arena_printf(a, "\"%s\" %s", v->path, text);
    text = hint(a, v->path);
    return arena_printf(a, "unknown key \"%s\"%s%s%s%s", v->path,
            v->kind == VALUE_TEXT ? " with value " : "",
            v->kind == VALUE_TEXT ? value_shown(a, v) : "", text ? "; " : "",
            text ? text : ", expected one of those that drover config prints");
}

// "; run.yaml:3: "trainer.max_steps" (here it is "training.steps")".
static const char *next_answer(arena *a, const value *v) {
    const char *text = no_section(a, v);
    if (text) return arena_printf(a, "; %s: \"%s\" %s", v->where, v->path, text);
    text = hint(a, v->path);
    return arena_printf(a, "; %s: \"%s\"%s%s%s", v->where, v->path, text ? " (" : "",
            text ? text : "", text ? ")" : "");
}

drv_status unknown_keys_refuse(arena *a, const unknown_keys *all) {
    enum { MOST_BYTES = 7000, FILE_OF_ANOTHER = 3 }; // what a message holds, with its ends
    if (all->n == 0) return DRV_OK;
    const value *first = all->list[0];
    str others = {0};
    int n = 1;
    for (; n < all->n && others.n < MOST_BYTES; n++)
        str_puts(&others, next_answer(a, all->list[n]));
    if (n < all->n) str_printf(&others, "; and %d more", all->n - n);
    if (all->n >= FILE_OF_ANOTHER)
        str_puts(&others, "; drover config --from translates another trainer's file");
    const drv_status status = drv_fail(DRV_E_USAGE, "%s: %s%s", first->where, answer(a, first),
            others.n ? others.p : "");
    str_free(&others);
    return status;
}
