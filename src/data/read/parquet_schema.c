// The list of schema elements in the footer -> a tree (parquet-format, parquet.thrift).
#include "data/read/parquet_schema.h"

#include <string.h>

enum { MAX_DEPTH = 32 };

// Field numbers and values of parquet.thrift.
enum { // SchemaElement
    SCHEMA_TYPE = 1,
    SCHEMA_REPETITION = 3,
    SCHEMA_NAME = 4,
    SCHEMA_CHILDREN = 5,
    SCHEMA_CONVERTED = 6,
    SCHEMA_LOGICAL = 10
};
enum { // ConvertedType
    CONVERTED_MAP = 1,
    CONVERTED_MAP_KEY_VALUE = 2,
    CONVERTED_LIST = 3,
    CONVERTED_DECIMAL = 5,
    CONVERTED_TIMESTAMP_MICROS = 10,
    CONVERTED_UINT_8 = 11,
    CONVERTED_UINT_64 = 14
};
enum { // LogicalType
    LOGICAL_MAP = 2,
    LOGICAL_LIST = 3,
    LOGICAL_DECIMAL = 5,
    LOGICAL_TIMESTAMP = 8,
    LOGICAL_INTEGER = 10
};
enum { INTEGER_SIGNED = 2 };         // IntType
enum { OPTIONAL = 1, REPEATED = 2 }; // FieldRepetitionType

// The logical type of a number that is not a plain one.
typedef struct number_sense {
    bool is_unsigned, is_other;
} number_sense;

static void read_integer(thrift *in, number_sense *sense) {
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        if (field.id == INTEGER_SIGNED) sense->is_unsigned = field.type == THRIFT_FALSE;
        thrift_skip(in, field.type);
    }
}

static void read_logical(thrift *in, parquet_node *node, number_sense *sense) {
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        node->is_map |= field.id == LOGICAL_MAP;
        node->is_list |= field.id == LOGICAL_LIST;
        sense->is_other |= field.id >= LOGICAL_DECIMAL && field.id <= LOGICAL_TIMESTAMP;
        if (field.id == LOGICAL_INTEGER && field.type == THRIFT_STRUCT)
            read_integer(in, sense);
        else
            thrift_skip(in, field.type);
    }
}

static void read_converted(int64_t value, parquet_node *node, number_sense *sense) {
    node->is_list |= value == CONVERTED_LIST;
    node->is_map |= value == CONVERTED_MAP || value == CONVERTED_MAP_KEY_VALUE;
    sense->is_other |= value >= CONVERTED_DECIMAL && value <= CONVERTED_TIMESTAMP_MICROS;
    sense->is_unsigned |= value >= CONVERTED_UINT_8 && value <= CONVERTED_UINT_64;
}

static parquet_kind kind_of(int type, const number_sense *sense) {
    switch (type) {
    case PARQUET_BYTE_ARRAY:
        return PARQUET_TEXT;
    case PARQUET_BOOLEAN:
        return PARQUET_BOOL;
    case PARQUET_FLOAT:
    case PARQUET_DOUBLE:
        return PARQUET_REAL;
    case PARQUET_INT32:
    case PARQUET_INT64:
        if (sense->is_other) return PARQUET_UNREAD;
        return sense->is_unsigned ? PARQUET_UINT : PARQUET_INT;
    default:
        return PARQUET_UNREAD;
    }
}

static parquet_node read_node(arena *a, thrift *in, int64_t *n_children) {
    parquet_node node = {.name = "", .n_nodes = 1, .type = -1};
    number_sense sense = {0};
    *n_children = 0;
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        int64_t value = 0;
        size_t n_bytes;
        const char *bytes;
        const bool number =
                field.id != SCHEMA_NAME && field.type >= THRIFT_I8 && field.type <= THRIFT_I64;
        if (number) value = thrift_int(in);
        if (field.id == SCHEMA_NAME && field.type == THRIFT_BINARY) {
            bytes = thrift_bytes(in, &n_bytes);
            node.name = arena_strndup(a, bytes, n_bytes);
        } else if (field.id == SCHEMA_LOGICAL && field.type == THRIFT_STRUCT) {
            read_logical(in, &node, &sense);
        } else if (!number) {
            thrift_skip(in, field.type);
        } else if (field.id == SCHEMA_TYPE) {
            node.type = (int)value;
        } else if (field.id == SCHEMA_REPETITION) {
            node.optional = value == OPTIONAL;
            node.repeated = value >= REPEATED || value < 0;
        } else if (field.id == SCHEMA_CHILDREN) {
            *n_children = value;
        } else if (field.id == SCHEMA_CONVERTED) {
            read_converted(value, &node, &sense);
        }
    }
    node.kind = *n_children == 0 ? kind_of(node.type, &sense) : PARQUET_UNREAD;
    return node;
}

typedef struct schema_walk {
    arena *mem;
    thrift *in;
    parquet_schema *schema;
    int64_t n_elements; // of the list
    int n_leaves;
    const char *why; // what is wrong
} schema_walk;

// The next element of the list and all below it.
static void walk_node(schema_walk *walk, int parent, int depth) {
    int64_t n_children;
    const int at = walk->schema->n++;
    parquet_node node = read_node(walk->mem, walk->in, &n_children);
    if (walk->in->bad) return;
    if (n_children < 0 || n_children > walk->n_elements - walk->schema->n) {
        walk->why = "a schema whose numbers of children do not fit";
        return;
    }
    if (depth > MAX_DEPTH) {
        walk->why = "a schema nested too deeply";
        return;
    }
    node.parent = parent;
    if (parent >= 0) {
        const parquet_node *above = &walk->schema->nodes[parent];
        node.definition = above->definition + (node.optional || node.repeated);
        node.repetition = above->repetition + node.repeated;
    }
    node.n_children = (int)n_children;
    node.leaf = n_children == 0 && parent >= 0 ? walk->n_leaves++ : -1;
    walk->schema->nodes[at] = node;
    for (int64_t i = 0; i < n_children && !walk->in->bad && !walk->why; i++) {
        if (walk->schema->n == walk->n_elements)
            walk->why = "a schema whose numbers of children do not fit";
        else
            walk_node(walk, at, depth + 1);
    }
    walk->schema->nodes[at].n_nodes = walk->schema->n - at;
}

drv_status parquet_read_schema(arena *a, const parquet_file *file, thrift *in,
        parquet_schema *out) {
    thrift_type type;
    const int64_t n = thrift_list(in, &type);
    schema_walk walk = {.mem = a, .in = in, .schema = out, .n_elements = n};
    *out = (parquet_schema){.nodes = ARENA_ARRAY(a, parquet_node, n + 1)};
    if (in->bad || n == 0) return parquet_broken(file, file->size, "a broken footer");
    walk_node(&walk, -1, 0);
    if (!in->bad && !walk.why && out->n != n)
        walk.why = "a schema whose numbers of children do not fit";
    if (in->bad || walk.why)
        return parquet_broken(file, file->size, walk.why ? walk.why : "a broken footer");
    return DRV_OK;
}

void parquet_add_path(const parquet_schema *schema, const parquet_node *node, str *out) {
    if (node->parent > 0) {
        parquet_add_path(schema, &schema->nodes[node->parent], out);
        str_puts(out, ".");
    }
    str_puts(out, node->name);
}

static bool may_be_text(const parquet_node *node) {
    return node->kind == PARQUET_TEXT && node->repetition == 0;
}

void parquet_name_columns(const parquet_schema *schema, bool all, str *out) {
    enum { NAMED = 20 };
    int n = 0;
    for (int i = 1; i < schema->n; i += all ? schema->nodes[i].n_nodes : 1) {
        if (!all && !may_be_text(&schema->nodes[i])) continue;
        if (n == NAMED) {
            str_puts(out, ", ...");
            return;
        }
        str_puts(out, n++ > 0 ? ", \"" : "\"");
        parquet_add_path(schema, &schema->nodes[i], out);
        str_puts(out, "\"");
    }
}

const parquet_node *parquet_find_text(const parquet_schema *schema, const char *path) {
    const parquet_node *found = NULL;
    str text = {0};
    for (int i = 1; i < schema->n && !found; i++) {
        if (!may_be_text(&schema->nodes[i])) continue;
        str_clear(&text);
        parquet_add_path(schema, &schema->nodes[i], &text);
        if (str_is(&text, path)) found = &schema->nodes[i];
    }
    str_free(&text);
    return found;
}

drv_status parquet_no_text(const parquet_file *file, const parquet_schema *schema, const char *path,
        bool ids) {
    str names = {0};
    parquet_name_columns(schema, false, &names);
    const bool none = names.n == 0;
    if (none) parquet_name_columns(schema, true, &names);
    const drv_status status = drv_fail(DRV_E_DATA, "%s: no string column \"%s\"%s; %s%s%s",
            file->path, path, ids ? ", nor \"input_ids\" of lists of integers" : "",
            none ? "none of its columns is one: " : "it has ", names.n ? names.p : "it has none",
            none ? "" : ": --json-key chooses one");
    str_free(&names);
    return status;
}

bool parquet_is_list_wrapper(const parquet_schema *schema, const parquet_node *node) {
    const parquet_node *list = &schema->nodes[node->parent];
    const size_t n_list = strlen(list->name);
    return list->is_list && node->n_children == 1 && strcmp(node->name, "array") != 0 &&
           !(strncmp(node->name, list->name, n_list) == 0 &&
                   strcmp(node->name + n_list, "_tuple") == 0);
}

const parquet_node *parquet_find_list(const parquet_schema *schema, const char *name,
        const parquet_node **leaf) {
    const parquet_node *nodes = schema->nodes;
    *leaf = NULL;
    for (int i = 1; i < schema->n; i += nodes[i].n_nodes) {
        if (strcmp(nodes[i].name, name) != 0) continue;
        const parquet_node *node = &nodes[i];
        if (node->is_list && node->n_children == 1 && !node->repeated) node++;
        if (node->repeated && node->leaf < 0 && parquet_is_list_wrapper(schema, node)) node++;
        if (node->leaf >= 0 && node->repetition == 1) *leaf = node;
        return &nodes[i];
    }
    return NULL;
}
