// Schema and row groups from the Thrift structs at the end of a Parquet file (parquet-format,
// parquet.thrift).
#include "data/read/parquet_footer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "data/read/thrift.h"

enum { MAX_DEPTH = 32 };

// Field numbers and values of parquet.thrift.
enum { FILE_SCHEMA = 2, FILE_ROW_GROUPS = 4 }; // FileMetaData
enum {
    SCHEMA_TYPE = 1,
    SCHEMA_REPETITION = 3,
    SCHEMA_NAME = 4,
    SCHEMA_CHILDREN = 5
};                                       // SchemaElement
enum { GROUP_COLUMNS = 1 };              // RowGroup
enum { CHUNK_FILE = 1, CHUNK_META = 3 }; // ColumnChunk
enum {                                   // ColumnMetaData
    META_TYPE = 1,
    META_CODEC = 4,
    META_VALUES = 5,
    META_PACKED_BYTES = 7,
    META_DATA_PAGE = 9,
    META_DICTIONARY_PAGE = 11
};
enum { TYPE_BYTE_ARRAY = 6 };
enum { REQUIRED = 0, OPTIONAL = 1 }; // FieldRepetitionType

drv_status parquet_broken(const parquet_file *file, int64_t at, const char *why) {
    return drv_fail(DRV_E_DATA, "%s: at byte %lld: %s", file->path, (long long)at, why);
}

drv_status parquet_read_at(const parquet_file *file, int64_t at, void *p, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t k = pread(file->fd, (char *)p + done, n - done, at + (int64_t)done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return drv_fail(DRV_E_IO, "could not read \"%s\" at byte %lld: %s", file->path,
                    (long long)at, k < 0 ? strerror(errno) : "the file has become shorter");
        done += (size_t)k;
    }
    return DRV_OK;
}

typedef struct schema_node {
    const char *name;
    int64_t type, repetition, children;
} schema_node;

static schema_node read_schema_node(arena *mem, thrift *in) {
    schema_node node = {.name = "", .type = -1};
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        size_t n;
        const char *p;
        switch (field.id) {
        case SCHEMA_TYPE:
            node.type = thrift_int(in);
            break;
        case SCHEMA_REPETITION:
            node.repetition = thrift_int(in);
            break;
        case SCHEMA_NAME:
            p = thrift_bytes(in, &n);
            node.name = arena_strndup(mem, p, n);
            break;
        case SCHEMA_CHILDREN:
            node.children = thrift_int(in);
            break;
        default:
            thrift_skip(in, field.type);
        }
    }
    return node;
}

// The tree of columns, which lies in the file parent before children.
typedef struct schema_walk {
    struct {
        int64_t left; // children that are still to come
        size_t path;  // length of the path up to here
        int definition;
        bool repeated;
    } level[MAX_DEPTH];
    int depth, leaves;
    str path, strings; // the path at hand; the columns of strings, for the message
    const char *why;   // what is wrong
} schema_walk;

// One node below the root: a folder of columns or a column.
static void walk_node(schema_walk *walk, const schema_node *node, parquet_column *column) {
    while (walk->depth > 0 && walk->level[walk->depth].left == 0)
        walk->depth--;
    if (walk->level[walk->depth].left-- <= 0) {
        walk->why = "a schema whose numbers of children do not fit";
        return;
    }
    const int definition = walk->level[walk->depth].definition + (node->repetition != REQUIRED);
    const bool repeated = walk->level[walk->depth].repeated || node->repetition > OPTIONAL;
    walk->path.n = walk->level[walk->depth].path;
    str_printf(&walk->path, "%s%s", walk->depth ? "." : "", node->name);
    if (node->children > 0) {
        if (walk->depth + 1 == MAX_DEPTH) {
            walk->why = "a schema nested too deeply";
            return;
        }
        walk->depth++;
        walk->level[walk->depth].left = node->children;
        walk->level[walk->depth].path = walk->path.n;
        walk->level[walk->depth].definition = definition;
        walk->level[walk->depth].repeated = repeated;
        return;
    }
    const bool text = node->type == TYPE_BYTE_ARRAY && !repeated;
    if (text) str_printf(&walk->strings, "%s\"%s\"", walk->strings.n ? ", " : "", walk->path.p);
    if (text && column->leaf < 0 && str_is(&walk->path, column->name)) {
        column->leaf = walk->leaves;
        column->max_definition = definition;
    }
    walk->leaves++;
}

static drv_status read_schema(arena *mem, const parquet_file *file, thrift *in,
        parquet_column *column) {
    thrift_type type;
    schema_walk walk = {.why = NULL};
    const int64_t n = thrift_list(in, &type);
    column->leaf = -1;
    for (int64_t i = 0; i < n && !in->bad && !walk.why; i++) {
        const schema_node node = read_schema_node(mem, in);
        if (i == 0)
            walk.level[0].left = node.children;
        else
            walk_node(&walk, &node, column);
    }
    drv_status status = DRV_OK;
    if (in->bad || walk.why)
        status = parquet_broken(file, file->size, walk.why ? walk.why : "a broken footer");
    else if (column->leaf < 0)
        status = drv_fail(DRV_E_DATA, "%s: no string column \"%s\"; %s%s", file->path, column->name,
                walk.strings.n ? "it has " : "it has none at all",
                walk.strings.n ? walk.strings.p : "");
    str_free(&walk.path);
    str_free(&walk.strings);
    return status;
}

static void read_column_data(thrift *in, parquet_chunk *chunk, int64_t *type) {
    int64_t data = -1, dictionary = -1;
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        switch (field.id) {
        case META_TYPE:
            *type = thrift_int(in);
            break;
        case META_CODEC:
            chunk->codec = (int)thrift_int(in);
            break;
        case META_VALUES:
            chunk->values = thrift_int(in);
            break;
        case META_PACKED_BYTES:
            chunk->bytes = thrift_int(in);
            break;
        case META_DATA_PAGE:
            data = thrift_int(in);
            break;
        case META_DICTIONARY_PAGE:
            dictionary = thrift_int(in);
            break;
        default:
            thrift_skip(in, field.type);
        }
    }
    chunk->from = dictionary > 0 && dictionary < data ? dictionary : data; // some writers write 0
}

static drv_status read_column_chunk(const parquet_file *file, thrift *in,
        const parquet_column *column, bool wanted, parquet_chunk *out, int64_t *type) {
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        if (field.id == CHUNK_FILE && wanted)
            return drv_fail(DRV_E_DATA, "%s: column \"%s\" lies in another file", file->path,
                    column->name);
        if (field.id == CHUNK_META)
            read_column_data(in, out, type);
        else
            thrift_skip(in, field.type);
    }
    return DRV_OK;
}

static drv_status read_row_group(const parquet_file *file, thrift *in, const parquet_column *column,
        parquet_chunk *out) {
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        if (field.id != GROUP_COLUMNS) {
            thrift_skip(in, field.type);
            continue;
        }
        thrift_type element;
        const int64_t n = thrift_list(in, &element);
        if (n <= column->leaf) in->bad = true;
        for (int64_t i = 0; i < n && !in->bad; i++) {
            int64_t type = -1;
            parquet_chunk x = {0};
            DRV_TRY(read_column_chunk(file, in, column, i == column->leaf, &x, &type));
            if (i != column->leaf) continue;
            *out = x;
            if (type != TYPE_BYTE_ARRAY) in->bad = true;
        }
    }
    if (!in->bad && out->values == 0) return DRV_OK; // it may have no pages, and no place
    if (in->bad || out->from < 4 || out->bytes < 0 || out->values < 0 || out->from > file->size ||
            out->bytes > file->size - out->from)
        return parquet_broken(file, out->from, "a column whose place is not in the file");
    return DRV_OK;
}

// The bytes of the footer, in `a`; the file ends with their number and a magic.
static drv_status load_footer(arena *a, const parquet_file *file, thrift *out) {
    unsigned char tail[8];
    uint32_t n;
    if (file->size < 12)
        return drv_fail(DRV_E_DATA, "%s: too short for a Parquet file", file->path);
    DRV_TRY(parquet_read_at(file, file->size - 8, tail, 8));
    memcpy(&n, tail, 4);
    if (memcmp(tail + 4, "PARE", 4) == 0)
        return drv_fail(DRV_E_DATA, "%s: encrypted Parquet is not supported", file->path);
    if (memcmp(tail + 4, "PAR1", 4) != 0)
        return drv_fail(DRV_E_DATA, "%s: does not end with PAR1: not a Parquet file, or cut short",
                file->path);
    if ((int64_t)n > file->size - 12)
        return drv_fail(DRV_E_DATA, "%s: the footer is said to have %u bytes, the file has %lld",
                file->path, n, (long long)file->size);
    unsigned char *footer = arena_alloc(a, (size_t)n + 1);
    DRV_TRY(parquet_read_at(file, file->size - 8 - n, footer, n));
    *out = (thrift){.p = footer, .end = footer + n};
    return DRV_OK;
}

drv_status parquet_read_footer(arena *mem, const parquet_file *file, const char *name,
        parquet_column *out) {
    thrift in, groups = {.bad = true};
    bool schema = false;
    *out = (parquet_column){.name = name};
    DRV_TRY(load_footer(mem, file, &in));
    const int64_t at = file->size - 8 - (in.end - in.p);
    for (thrift_field field = {0}; thrift_next(&in, &field);) {
        if (field.id == FILE_SCHEMA && field.type == THRIFT_LIST) {
            DRV_TRY(read_schema(mem, file, &in, out));
            schema = true;
            continue;
        }
        if (field.id == FILE_ROW_GROUPS && field.type == THRIFT_LIST) groups = in;
        thrift_skip(&in, field.type);
    }
    if (in.bad || groups.bad || !schema) return parquet_broken(file, at, "a broken footer");
    thrift_type type;
    out->n_chunks = (int)thrift_list(&groups, &type);
    out->chunks = ARENA_ARRAY(mem, parquet_chunk, out->n_chunks + 1);
    for (int i = 0; i < out->n_chunks; i++)
        DRV_TRY(read_row_group(file, &groups, out, &out->chunks[i]));
    return DRV_OK;
}
