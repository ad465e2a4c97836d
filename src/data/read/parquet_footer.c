// Row groups from the Thrift structs at the end of a Parquet file (parquet-format, parquet.thrift).
#include "data/read/parquet_footer.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "data/read/parquet_schema.h"

// Field numbers and values of parquet.thrift.
enum { FILE_SCHEMA = 2, FILE_ROW_GROUPS = 4 }; // FileMetaData
enum { GROUP_COLUMNS = 1 };                    // RowGroup
enum { CHUNK_FILE = 1, CHUNK_META = 3 };       // ColumnChunk
enum {                                         // ColumnMetaData
    META_TYPE = 1,
    META_CODEC = 4,
    META_VALUES = 5,
    META_PACKED_BYTES = 7,
    META_DATA_PAGE = 9,
    META_DICTIONARY_PAGE = 11
};

drv_status parquet_broken(const parquet_file *file, int64_t at, const char *why) {
    return drv_fail(DRV_E_DATA, "%s: at byte %lld: %s", file->path, (long long)at, why);
}

drv_status parquet_read_at(const parquet_file *file, int64_t at, void *p, size_t n) {
    if (file_read_at(file->fd, p, (int64_t)n, at) == (int64_t)n) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not read \"%s\" at byte %lld: %s", file->path, (long long)at,
            errno ? strerror(errno) : "the file has become shorter");
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
            if (type != column->type) in->bad = true;
        }
    }
    if (!in->bad && out->values == 0) return DRV_OK; // it may have no pages, and no place
    if (in->bad || out->from < 4 || out->bytes < 0 || out->values < 0 || out->from > file->size ||
            out->bytes > file->size - out->from)
        return parquet_broken(file, out->from, "a column whose place is not in the file");
    return DRV_OK;
}

// Reads the footer into `a`. The file ends with its length and a magic number.
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
        return drv_fail(DRV_E_DATA,
                "%s: the footer's length is %u bytes, but the file has only %lld", file->path, n,
                (long long)file->size);
    unsigned char *footer = arena_alloc(a, (size_t)n + 1);
    DRV_TRY(parquet_read_at(file, file->size - 8 - n, footer, n));
    *out = (thrift){.p = footer, .end = footer + n};
    return DRV_OK;
}

drv_status parquet_read_footer(arena *a, const parquet_file *file, parquet_footer *out) {
    thrift in, groups = {.bad = true};
    bool has_schema = false;
    *out = (parquet_footer){.schema = {0}};
    DRV_TRY(load_footer(a, file, &in));
    const int64_t at = file->size - 8 - (in.end - in.p);
    for (thrift_field field = {0}; thrift_next(&in, &field);) {
        if (field.id == FILE_SCHEMA && field.type == THRIFT_LIST) {
            DRV_TRY(parquet_read_schema(a, file, &in, &out->schema));
            has_schema = true;
            continue;
        }
        if (field.id == FILE_ROW_GROUPS && field.type == THRIFT_LIST) groups = in;
        thrift_skip(&in, field.type);
    }
    if (in.bad || groups.bad || !has_schema) return parquet_broken(file, at, "a broken footer");
    out->row_groups = groups;
    return DRV_OK;
}

drv_status parquet_place_column(arena *a, const parquet_file *file, const parquet_footer *footer,
        const parquet_node *leaf, parquet_column *out) {
    thrift groups = footer->row_groups;
    thrift_type type;
    str path = {0};
    parquet_add_path(&footer->schema, leaf, &path);
    *out = (parquet_column){.name = arena_strdup(a, path.p),
            .leaf = leaf->leaf,
            .type = leaf->type,
            .max_definition = leaf->definition,
            .max_repetition = leaf->repetition};
    str_free(&path);
    out->n_chunks = (int)thrift_list(&groups, &type);
    out->chunks = ARENA_ARRAY(a, parquet_chunk, out->n_chunks + 1);
    for (int i = 0; i < out->n_chunks; i++)
        DRV_TRY(read_row_group(file, &groups, out, &out->chunks[i]));
    return DRV_OK;
}
