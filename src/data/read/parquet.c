// Pages of the column, one at a time: headers, levels, dictionary and values.
#include "data/read/parquet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "data/read/parquet_footer.h"
#include "data/read/parquet_page.h"
#include "data/read/thrift.h"

enum { HEADER_BYTES = 1 << 16, MAX_PAGE = 1 << 30 };

// Field numbers and values of parquet.thrift.
enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2, DATA_PAGE_V2 = 3 }; // PageType
enum {                                                         // PageHeader
    PAGE_TYPE = 1,
    PAGE_UNPACKED_BYTES = 2,
    PAGE_PACKED_BYTES = 3,
    PAGE_CRC = 4,
    PAGE_DATA = 5,
    PAGE_DICTIONARY = 7,
    PAGE_DATA_V2 = 8
};
enum { PART_VALUES = 1 }; // DataPageHeader, DictionaryPageHeader, DataPageHeaderV2
enum { DATA_ENCODING = 2, DATA_DEFINITION_ENCODING = 3 };
enum { DICTIONARY_ENCODING = 2 };
enum { V2_ENCODING = 4, V2_DEFINITION_BYTES = 5, V2_REPETITION_BYTES = 6, V2_IS_PACKED = 7 };

typedef struct page_header {
    int type, encoding;
    int64_t unpacked, packed, values;
    int64_t level_bytes, repetition_bytes; // version 2: in front, not packed
    bool is_packed, has_crc, definition_is_rle;
    uint32_t crc;
} page_header;

struct parquet_reader {
    arena *a;
    parquet_file file;
    parquet_column column;
    int next_chunk;
    int64_t at, end, values_left; // of the chunk that is open
    int codec;
    unsigned char *packed, *page, *dictionary_page;
    size_t cap_packed, cap_page, cap_dictionary;
    page_values values, dictionary;
    uint32_t *levels, *indexes;
    int64_t cap_levels, cap_indexes;
    int64_t n_rows, row, value; // of the page
};

static drv_status broken(const parquet_reader *reader, int64_t at, const char *why) {
    return parquet_broken(&reader->file, at, why);
}

static void make_room(unsigned char **p, size_t *cap, size_t n) {
    if (n <= *cap) return;
    free(*p);
    *p = mem_alloc(*cap = n);
}

drv_status parquet_open(const char *path, const char *column, parquet_reader **out) {
    int fd;
    int64_t size;
    DRV_TRY(file_open_regular(path, &fd, &size));
    arena *a = arena_new("parquet");
    parquet_reader *reader = ARENA_NEW(a, parquet_reader);
    *reader = (parquet_reader){.a = a, .file = {path, fd, size}};
    const drv_status status = parquet_read_footer(a, &reader->file, column, &reader->column);
    if (status == DRV_OK)
        *out = reader;
    else
        parquet_close(reader);
    return status;
}

void parquet_close(parquet_reader *reader) {
    if (!reader) return;
    close(reader->file.fd);
    free(reader->packed);
    free(reader->page);
    free(reader->dictionary_page);
    free(reader->levels);
    free(reader->indexes);
    page_values_free(&reader->values);
    page_values_free(&reader->dictionary);
    arena_free(reader->a);
}

int64_t parquet_where(const parquet_reader *reader) {
    return reader->next_chunk ? reader->at : 0;
}

// --- pages
// The struct of the page's own kind; PAGE_DATA, PAGE_DICTIONARY or PAGE_DATA_V2.
static void read_page_part(thrift *in, page_header *header, int part) {
    static const int encoding_fields[] = {[PAGE_DATA] = DATA_ENCODING,
            [PAGE_DICTIONARY] = DICTIONARY_ENCODING,
            [PAGE_DATA_V2] = V2_ENCODING};
    const bool v2 = part == PAGE_DATA_V2;
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        if (field.id == PART_VALUES)
            header->values = thrift_int(in);
        else if (field.id == encoding_fields[part])
            header->encoding = (int)thrift_int(in);
        else if (v2 && field.id == V2_DEFINITION_BYTES)
            header->level_bytes = thrift_int(in);
        else if (v2 && field.id == V2_REPETITION_BYTES)
            header->repetition_bytes = thrift_int(in);
        else if (v2 && field.id == V2_IS_PACKED)
            header->is_packed = field.type == THRIFT_TRUE;
        else if (part == PAGE_DATA && field.id == DATA_DEFINITION_ENCODING)
            header->definition_is_rle = thrift_int(in) == PARQUET_RLE;
        else
            thrift_skip(in, field.type);
    }
}

static void parse_header(thrift *in, page_header *header) {
    *header = (page_header){.type = -1, .is_packed = true, .definition_is_rle = true};
    for (thrift_field field = {0}; thrift_next(in, &field);) {
        const bool is_part =
                field.id == PAGE_DATA || field.id == PAGE_DICTIONARY || field.id == PAGE_DATA_V2;
        if (field.id == PAGE_TYPE)
            header->type = (int)thrift_int(in);
        else if (field.id == PAGE_UNPACKED_BYTES)
            header->unpacked = thrift_int(in);
        else if (field.id == PAGE_PACKED_BYTES)
            header->packed = thrift_int(in);
        else if (field.id == PAGE_CRC)
            header->crc = (uint32_t)thrift_int(in), header->has_crc = true;
        else if (is_part && field.type == THRIFT_STRUCT)
            read_page_part(in, header, field.id);
        else
            thrift_skip(in, field.type);
    }
}

// Reads a header within n bytes; *used: bytes that it has, 0 when it is broken or longer.
static drv_status try_header(const parquet_reader *reader, unsigned char *bytes, size_t n,
        page_header *header, size_t *used) {
    thrift in = {.p = bytes, .end = bytes + n};
    DRV_TRY(parquet_read_at(&reader->file, reader->at, bytes, n));
    parse_header(&in, header);
    *used = in.bad ? 0 : (size_t)(in.p - bytes);
    return DRV_OK;
}

static drv_status read_header(parquet_reader *reader, page_header *header) {
    unsigned char bytes[4096];
    const int64_t left = reader->end - reader->at;
    size_t used;
    DRV_TRY(try_header(reader, bytes, left < (int64_t)sizeof bytes ? (size_t)left : sizeof bytes,
            header, &used));
    if (!used && left > (int64_t)sizeof bytes) { // statistics may be long
        unsigned char *more = mem_alloc(HEADER_BYTES);
        const drv_status status = try_header(reader, more,
                left < HEADER_BYTES ? (size_t)left : HEADER_BYTES, header, &used);
        free(more);
        DRV_TRY(status);
    }
    if (!used) return broken(reader, reader->at, "a broken page header");
    reader->at += (int64_t)used;
    if (header->packed < 0 || header->packed > reader->end - reader->at)
        return broken(reader, reader->at, "a page that is longer than its column");
    if (header->unpacked < 0 || header->unpacked > MAX_PAGE || header->values < 0 ||
            header->values > INT32_MAX)
        return broken(reader, reader->at, "a page of an impossible size");
    return DRV_OK;
}

// The bytes of a page, unpacked but for `plain_bytes` at the front.
static drv_status read_page(parquet_reader *reader, const page_header *header, int64_t plain_bytes,
        unsigned char **out, size_t *cap) {
    make_room(&reader->packed, &reader->cap_packed, (size_t)header->packed + 1);
    DRV_TRY(parquet_read_at(&reader->file, reader->at, reader->packed, (size_t)header->packed));
    if (header->has_crc && crc32(0, reader->packed, (uInt)header->packed) != header->crc)
        return broken(reader, reader->at, "a page whose checksum does not match");
    if (plain_bytes > header->packed || plain_bytes > header->unpacked)
        return broken(reader, reader->at, "levels that are longer than their page");
    make_room(out, cap, (size_t)header->unpacked + 1);
    memcpy(*out, reader->packed, (size_t)plain_bytes);
    const size_t packed = (size_t)(header->packed - plain_bytes),
                 unpacked = (size_t)(header->unpacked - plain_bytes);
    const char *why = NULL;
    if (packed || unpacked)
        why = page_unpack(header->is_packed ? reader->codec : CODEC_NONE,
                reader->packed + plain_bytes, packed, *out + plain_bytes, unpacked);
    return why ? broken(reader, reader->at, why) : DRV_OK;
}

static drv_status load_dictionary(parquet_reader *reader, const page_header *header) {
    DRV_TRY(read_page(reader, header, 0, &reader->dictionary_page, &reader->cap_dictionary));
    reader->dictionary.n = 0;
    const char *why = page_byte_arrays(PARQUET_PLAIN, reader->dictionary_page,
            (size_t)header->unpacked, header->values, &reader->dictionary);
    return why ? broken(reader, reader->at, why) : DRV_OK;
}

static drv_status load_values(parquet_reader *reader, int encoding, const unsigned char *p,
        size_t n_bytes, int64_t n) {
    reader->values.n = 0;
    if (n == 0) return DRV_OK;
    if (encoding != PARQUET_PLAIN_DICTIONARY && encoding != PARQUET_RLE_DICTIONARY) {
        const char *why = page_byte_arrays(encoding, p, n_bytes, n, &reader->values);
        return why ? broken(reader, reader->at, why) : DRV_OK;
    }
    MEM_GROW(reader->indexes, n, reader->cap_indexes);
    if (n_bytes < 1 || *p > 32 || !page_hybrid(p + 1, n_bytes - 1, *p, reader->indexes, n))
        return broken(reader, reader->at, "dictionary indexes that do not fit the page");
    MEM_GROW(reader->values.v, n, reader->values.cap);
    for (int64_t i = 0; i < n; i++) {
        if (reader->indexes[i] >= reader->dictionary.n)
            return broken(reader, reader->at, "an index that is not in the dictionary");
        reader->values.v[i] = reader->dictionary.v[reader->indexes[i]];
    }
    reader->values.n = n;
    return DRV_OK;
}

// Definition levels: which rows have a value.
static drv_status load_data(parquet_reader *reader, const page_header *header) {
    const bool v2 = header->type == DATA_PAGE_V2;
    if (v2 && (header->level_bytes < 0 || header->repetition_bytes != 0))
        return broken(reader, reader->at, "repetition levels in a column that does not repeat");
    DRV_TRY(read_page(reader, header, v2 ? header->level_bytes : 0, &reader->page,
            &reader->cap_page));
    const unsigned char *body = reader->page;
    size_t n_bytes = (size_t)header->unpacked, n_levels = (size_t)header->level_bytes;
    int64_t present = header->values;
    if (reader->column.max_definition) {
        if (!v2) {
            uint32_t k;
            if (!header->definition_is_rle)
                return broken(reader, reader->at,
                        "definition levels that are bit-packed (not supported)");
            if (n_bytes < 4 || (memcpy(&k, body, 4), k > n_bytes - 4))
                return broken(reader, reader->at, "definition levels that do not fit the page");
            n_levels = k;
            body += 4;
            n_bytes -= 4;
        }
        MEM_GROW(reader->levels, header->values, reader->cap_levels);
        const int bits = 32 - __builtin_clz((unsigned)reader->column.max_definition);
        if (!page_hybrid(body, n_levels, bits, reader->levels, header->values))
            return broken(reader, reader->at, "definition levels that do not fit the page");
        for (int64_t i = 0; i < header->values; i++)
            present -= reader->levels[i] != (uint32_t)reader->column.max_definition;
    }
    DRV_TRY(load_values(reader, header->encoding, body + n_levels, n_bytes - n_levels, present));
    reader->n_rows = header->values;
    reader->row = reader->value = 0;
    return DRV_OK;
}

static drv_status next_page(parquet_reader *reader) {
    page_header header;
    DRV_TRY(read_header(reader, &header));
    if (header.type == DICTIONARY_PAGE) DRV_TRY(load_dictionary(reader, &header));
    if (header.type == DATA_PAGE || header.type == DATA_PAGE_V2) {
        DRV_TRY(load_data(reader, &header));
        reader->values_left -= header.values;
    }
    reader->at += header.packed;
    return DRV_OK;
}

drv_status parquet_next(parquet_reader *reader, str *out, bool *null, bool *row) {
    *null = *row = false;
    while (reader->row == reader->n_rows) {
        if (reader->values_left > 0) {
            if (reader->at >= reader->end)
                return broken(reader, reader->at, "a column that ends before its last row");
            DRV_TRY(next_page(reader));
            continue;
        }
        if (reader->next_chunk == reader->column.n_chunks) return DRV_OK;
        const parquet_chunk *chunk = &reader->column.chunks[reader->next_chunk++];
        reader->at = chunk->from;
        reader->end = chunk->from + chunk->bytes;
        reader->values_left = chunk->values;
        reader->codec = chunk->codec;
        reader->dictionary.n = 0;
    }
    *row = true;
    *null = reader->column.max_definition &&
            reader->levels[reader->row] != (uint32_t)reader->column.max_definition;
    reader->row++;
    if (*null) return DRV_OK;
    const byte_array *v = &reader->values.v[reader->value++];
    str_add(out, v->p, v->n);
    return DRV_OK;
}
