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

drv_status parquet_broken(const parquet_file *f, int64_t at, const char *why) {
    return drv_fail(DRV_E_DATA, "%s: at byte %lld: %s", f->path, (long long)at, why);
}

drv_status parquet_read_at(const parquet_file *f, int64_t at, void *p, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t k = pread(f->fd, (char *)p + done, n - done, at + (int64_t)done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return drv_fail(DRV_E_IO, "could not read \"%s\" at byte %lld: %s", f->path,
                    (long long)at, k < 0 ? strerror(errno) : "the file has become shorter");
        done += (size_t)k;
    }
    return DRV_OK;
}

typedef struct schema_node {
    const char *name;
    int64_t type, repetition, children;
} schema_node;

static schema_node read_schema_node(arena *a, thrift *t) {
    schema_node x = {.name = "", .type = -1};
    for (thrift_field f = {0}; thrift_next(t, &f);) {
        size_t n;
        const char *p;
        switch (f.id) {
        case SCHEMA_TYPE:
            x.type = thrift_int(t);
            break;
        case SCHEMA_REPETITION:
            x.repetition = thrift_int(t);
            break;
        case SCHEMA_NAME:
            p = thrift_bytes(t, &n);
            x.name = arena_strndup(a, p, n);
            break;
        case SCHEMA_CHILDREN:
            x.children = thrift_int(t);
            break;
        default:
            thrift_skip(t, f.type);
        }
    }
    return x;
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
static void walk_node(schema_walk *w, const schema_node *x, parquet_column *c) {
    while (w->depth > 0 && w->level[w->depth].left == 0)
        w->depth--;
    if (w->level[w->depth].left-- <= 0) {
        w->why = "a schema whose numbers of children do not fit";
        return;
    }
    const int definition = w->level[w->depth].definition + (x->repetition != REQUIRED);
    const bool repeated = w->level[w->depth].repeated || x->repetition > OPTIONAL;
    w->path.n = w->level[w->depth].path;
    str_printf(&w->path, "%s%s", w->depth ? "." : "", x->name);
    if (x->children > 0) {
        if (w->depth + 1 == MAX_DEPTH) {
            w->why = "a schema nested too deeply";
            return;
        }
        w->depth++;
        w->level[w->depth].left = x->children;
        w->level[w->depth].path = w->path.n;
        w->level[w->depth].definition = definition;
        w->level[w->depth].repeated = repeated;
        return;
    }
    const bool text = x->type == TYPE_BYTE_ARRAY && !repeated;
    if (text) str_printf(&w->strings, "%s\"%s\"", w->strings.n ? ", " : "", w->path.p);
    if (text && c->leaf < 0 && str_is(&w->path, c->name)) {
        c->leaf = w->leaves;
        c->max_definition = definition;
    }
    w->leaves++;
}

static drv_status read_schema(arena *a, const parquet_file *f, thrift *t, parquet_column *c) {
    thrift_type type;
    schema_walk w = {.why = NULL};
    const int64_t n = thrift_list(t, &type);
    c->leaf = -1;
    for (int64_t i = 0; i < n && !t->bad && !w.why; i++) {
        const schema_node x = read_schema_node(a, t);
        if (i == 0)
            w.level[0].left = x.children;
        else
            walk_node(&w, &x, c);
    }
    drv_status status = DRV_OK;
    if (t->bad || w.why)
        status = parquet_broken(f, f->size, w.why ? w.why : "a footer that is broken");
    else if (c->leaf < 0)
        status = drv_fail(DRV_E_DATA, "%s: no string column \"%s\"; %s%s", f->path, c->name,
                w.strings.n ? "it has " : "it has none at all", w.strings.n ? w.strings.p : "");
    str_free(&w.path);
    str_free(&w.strings);
    return status;
}

static void read_column_data(thrift *t, parquet_chunk *c, int64_t *type) {
    int64_t data = -1, dictionary = -1;
    for (thrift_field f = {0}; thrift_next(t, &f);) {
        switch (f.id) {
        case META_TYPE:
            *type = thrift_int(t);
            break;
        case META_CODEC:
            c->codec = (int)thrift_int(t);
            break;
        case META_VALUES:
            c->values = thrift_int(t);
            break;
        case META_PACKED_BYTES:
            c->bytes = thrift_int(t);
            break;
        case META_DATA_PAGE:
            data = thrift_int(t);
            break;
        case META_DICTIONARY_PAGE:
            dictionary = thrift_int(t);
            break;
        default:
            thrift_skip(t, f.type);
        }
    }
    c->from = dictionary > 0 && dictionary < data ? dictionary : data; // some writers write 0
}

static drv_status read_column_chunk(const parquet_file *f, thrift *t, const parquet_column *c,
        bool wanted, parquet_chunk *out, int64_t *type) {
    for (thrift_field field = {0}; thrift_next(t, &field);) {
        if (field.id == CHUNK_FILE && wanted)
            return drv_fail(DRV_E_DATA, "%s: column \"%s\" lies in another file", f->path, c->name);
        if (field.id == CHUNK_META)
            read_column_data(t, out, type);
        else
            thrift_skip(t, field.type);
    }
    return DRV_OK;
}

static drv_status read_row_group(const parquet_file *f, thrift *t, const parquet_column *c,
        parquet_chunk *out) {
    for (thrift_field field = {0}; thrift_next(t, &field);) {
        if (field.id != GROUP_COLUMNS) {
            thrift_skip(t, field.type);
            continue;
        }
        thrift_type element;
        const int64_t n = thrift_list(t, &element);
        if (n <= c->leaf) t->bad = true;
        for (int64_t i = 0; i < n && !t->bad; i++) {
            int64_t type = -1;
            parquet_chunk x = {0};
            DRV_TRY(read_column_chunk(f, t, c, i == c->leaf, &x, &type));
            if (i != c->leaf) continue;
            *out = x;
            if (type != TYPE_BYTE_ARRAY) t->bad = true;
        }
    }
    if (!t->bad && out->values == 0) return DRV_OK; // it may have no pages, and no place
    if (t->bad || out->from < 4 || out->bytes < 0 || out->values < 0 || out->from > f->size ||
            out->bytes > f->size - out->from)
        return parquet_broken(f, out->from, "a column whose place is not in the file");
    return DRV_OK;
}

// The bytes of the footer, in `a`; the file ends with their number and a magic.
static drv_status load_footer(arena *a, const parquet_file *f, thrift *out) {
    unsigned char tail[8];
    uint32_t n;
    if (f->size < 12) return drv_fail(DRV_E_DATA, "%s: too short for a Parquet file", f->path);
    DRV_TRY(parquet_read_at(f, f->size - 8, tail, 8));
    memcpy(&n, tail, 4);
    if (memcmp(tail + 4, "PARE", 4) == 0)
        return drv_fail(DRV_E_DATA, "%s: encrypted Parquet is not supported", f->path);
    if (memcmp(tail + 4, "PAR1", 4) != 0)
        return drv_fail(DRV_E_DATA, "%s: does not end with PAR1: no Parquet file, or cut short",
                f->path);
    if ((int64_t)n > f->size - 12)
        return drv_fail(DRV_E_DATA, "%s: the footer is said to have %u bytes, the file has %lld",
                f->path, n, (long long)f->size);
    unsigned char *footer = arena_alloc(a, (size_t)n + 1);
    DRV_TRY(parquet_read_at(f, f->size - 8 - n, footer, n));
    *out = (thrift){.p = footer, .end = footer + n};
    return DRV_OK;
}

drv_status parquet_read_footer(arena *a, const parquet_file *f, const char *name,
        parquet_column *out) {
    thrift t, groups = {.bad = true};
    bool schema = false;
    *out = (parquet_column){.name = name};
    DRV_TRY(load_footer(a, f, &t));
    const int64_t at = f->size - 8 - (t.end - t.p);
    for (thrift_field field = {0}; thrift_next(&t, &field);) {
        if (field.id == FILE_SCHEMA && field.type == THRIFT_LIST) {
            DRV_TRY(read_schema(a, f, &t, out));
            schema = true;
            continue;
        }
        if (field.id == FILE_ROW_GROUPS && field.type == THRIFT_LIST) groups = t;
        thrift_skip(&t, field.type);
    }
    if (t.bad || groups.bad || !schema) return parquet_broken(f, at, "a footer that is broken");
    thrift_type type;
    out->n_chunks = (int)thrift_list(&groups, &type);
    out->chunks = ARENA_ARRAY(a, parquet_chunk, out->n_chunks + 1);
    for (int i = 0; i < out->n_chunks; i++)
        DRV_TRY(read_row_group(f, &groups, out, &out->chunks[i]));
    return DRV_OK;
}
