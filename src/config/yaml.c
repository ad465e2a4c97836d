#include "config/yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/str.h"

enum { MAX_DEPTH = 8, MAX_ENTRIES = 10000 };

typedef struct flattener {
    arena *a;
    const char *file; // NULL: a --set
    yaml_document_t *doc;
    yaml_list *list;
} flattener;

static const char *where(const flattener *f, const yaml_node_t *n) {
    if (!f->file) return "--set";
    return arena_printf(f->a, "%s:%zu", f->file, n->start_mark.line + 1);
}

static drv_status add(flattener *f, const char *path, const yaml_node_t *n) {
    for (int i = 0; i < f->list->n && f->file; i++)
        if (strcmp(f->list->entries[i].path, path) == 0)
            return drv_fail(DRV_E_USAGE, "%s: key \"%s\" is given twice, first at %s", where(f, n),
                    path, f->list->entries[i].where);
    if (f->list->n >= MAX_ENTRIES)
        return drv_fail(DRV_E_USAGE, "%s: more than %d values", where(f, n), MAX_ENTRIES);
    MEM_GROW(f->list->entries, f->list->n, f->list->cap);
    f->list->entries[f->list->n++] = (yaml_entry){path,
            arena_strndup(f->a, (const char *)n->data.scalar.value, n->data.scalar.length),
            where(f, n)};
    return DRV_OK;
}

static drv_status walk(flattener *f, const char *path, int id, int depth) {
    const yaml_node_t *n = yaml_document_get_node(f->doc, id);
    if (depth > MAX_DEPTH)
        return drv_fail(DRV_E_USAGE, "%s: \"%s\" is nested too deeply", where(f, n), path);
    if (n->type == YAML_SCALAR_NODE) {
        if (!*path)
            return drv_fail(DRV_E_USAGE, "%s: expected keys and values, found \"%.40s\"",
                    where(f, n), (const char *)n->data.scalar.value);
        return add(f, path, n);
    }
    if (n->type == YAML_SEQUENCE_NODE) {
        int i = 0;
        for (yaml_node_item_t *e = n->data.sequence.items.start; e < n->data.sequence.items.top;
                e++, i++)
            DRV_TRY(walk(f, arena_printf(f->a, "%s[%d]", path, i), *e, depth + 1));
        return DRV_OK;
    }
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *k = yaml_document_get_node(f->doc, p->key);
        if (k->type != YAML_SCALAR_NODE)
            return drv_fail(DRV_E_USAGE, "%s: a key must be a plain word", where(f, k));
        const char *sep = *path ? "." : "";
        char *sub = arena_printf(f->a, "%s%s%s", path, sep, (const char *)k->data.scalar.value);
        DRV_TRY(walk(f, sub, p->value, depth + 1));
    }
    return DRV_OK;
}

static void add_empty(flattener *f, const char *path) {
    MEM_GROW(f->list->entries, f->list->n, f->list->cap);
    f->list->entries[f->list->n++] = (yaml_entry){path, "", "--set"};
}

static drv_status flatten(arena *a, const char *file, const char *path, const char *text, size_t n,
        yaml_list *out) {
    yaml_parser_t parser;
    yaml_document_t doc;
    DRV_ASSERT(yaml_parser_initialize(&parser), "libyaml");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    drv_status s = DRV_OK;
    if (!yaml_parser_load(&parser, &doc)) {
        const char *why = parser.problem ? parser.problem : "not valid YAML";
        s = file ? drv_fail(DRV_E_USAGE, "%s:%zu: %s", file, parser.problem_mark.line + 1, why)
                 : drv_fail(DRV_E_USAGE, "--set %s: %s", path, why);
    } else {
        flattener f = {a, file, &doc, out};
        if (yaml_document_get_root_node(&doc))
            s = walk(&f, path, 1, 0);
        else if (*path) // --set key= : nothing
            add_empty(&f, path);
        yaml_document_delete(&doc);
    }
    yaml_parser_delete(&parser);
    return s;
}

drv_status yaml_flatten(arena *a, const char *file, const char *text, size_t n, yaml_list *out) {
    return flatten(a, file, "", text, n, out);
}

drv_status yaml_flatten_set(arena *a, const char *set, yaml_list *out) {
    const char *eq = strchr(set, '=');
    if (!eq || eq == set) return drv_fail(DRV_E_USAGE, "--set \"%s\": expected key=value", set);
    return flatten(a, NULL, arena_strndup(a, set, (size_t)(eq - set)), eq + 1, strlen(eq + 1), out);
}
