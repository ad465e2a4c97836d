// Pages of the column, one at a time: headers, levels, dictionary and values.
#include "data/read/parquet.h"

#include <errno.h>
#include <fcntl.h>
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

static drv_status broken(const parquet_reader *r, int64_t at, const char *why) {
    return parquet_broken(&r->file, at, why);
}

static void make_room(unsigned char **p, size_t *cap, size_t n) {
    if (n <= *cap) return;
    free(*p);
    *p = mem_alloc(*cap = n);
}

drv_status parquet_open(const char *path, const char *column, parquet_reader **out) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return drv_fail(DRV_E_IO, "could not open \"%s\": %s", path, strerror(errno));
    arena *a = arena_new("parquet");
    parquet_reader *r = ARENA_NEW(a, parquet_reader);
    *r = (parquet_reader){.a = a, .file = {path, fd, file_size(path)}};
    const drv_status status = parquet_read_footer(a, &r->file, column, &r->column);
    if (status == DRV_OK)
        *out = r;
    else
        parquet_close(r);
    return status;
}

void parquet_close(parquet_reader *r) {
    if (!r) return;
    close(r->file.fd);
    free(r->packed);
    free(r->page);
    free(r->dictionary_page);
    free(r->levels);
    free(r->indexes);
    page_values_free(&r->values);
    page_values_free(&r->dictionary);
    arena_free(r->a);
}

int64_t parquet_where(const parquet_reader *r) {
    return r->next_chunk ? r->at : 0;
}

// --- pages
// The struct of the page's own kind; PAGE_DATA, PAGE_DICTIONARY or PAGE_DATA_V2.
static void read_page_part(thrift *t, page_header *h, int part) {
    static const int encoding_fields[] = {[PAGE_DATA] = DATA_ENCODING,
            [PAGE_DICTIONARY] = DICTIONARY_ENCODING,
            [PAGE_DATA_V2] = V2_ENCODING};
    const bool v2 = part == PAGE_DATA_V2;
    for (thrift_field f = {0}; thrift_next(t, &f);) {
        if (f.id == PART_VALUES)
            h->values = thrift_int(t);
        else if (f.id == encoding_fields[part])
            h->encoding = (int)thrift_int(t);
        else if (v2 && f.id == V2_DEFINITION_BYTES)
            h->level_bytes = thrift_int(t);
        else if (v2 && f.id == V2_REPETITION_BYTES)
            h->repetition_bytes = thrift_int(t);
        else if (v2 && f.id == V2_IS_PACKED)
            h->is_packed = f.type == THRIFT_TRUE;
        else if (part == PAGE_DATA && f.id == DATA_DEFINITION_ENCODING)
            h->definition_is_rle = thrift_int(t) == PARQUET_RLE;
        else
            thrift_skip(t, f.type);
    }
}

static void parse_header(thrift *t, page_header *h) {
    *h = (page_header){.type = -1, .is_packed = true, .definition_is_rle = true};
    for (thrift_field f = {0}; thrift_next(t, &f);) {
        const bool is_part = f.id == PAGE_DATA || f.id == PAGE_DICTIONARY || f.id == PAGE_DATA_V2;
        if (f.id == PAGE_TYPE)
            h->type = (int)thrift_int(t);
        else if (f.id == PAGE_UNPACKED_BYTES)
            h->unpacked = thrift_int(t);
        else if (f.id == PAGE_PACKED_BYTES)
            h->packed = thrift_int(t);
        else if (f.id == PAGE_CRC)
            h->crc = (uint32_t)thrift_int(t), h->has_crc = true;
        else if (is_part && f.type == THRIFT_STRUCT)
            read_page_part(t, h, f.id);
        else
            thrift_skip(t, f.type);
    }
}

// Reads a header within n bytes; *used: bytes that it has, 0 when it is broken or longer.
static drv_status try_header(const parquet_reader *r, unsigned char *bytes, size_t n,
        page_header *h, size_t *used) {
    thrift t = {.p = bytes, .end = bytes + n};
    DRV_TRY(parquet_read_at(&r->file, r->at, bytes, n));
    parse_header(&t, h);
    *used = t.bad ? 0 : (size_t)(t.p - bytes);
    return DRV_OK;
}

static drv_status read_header(parquet_reader *r, page_header *h) {
    unsigned char bytes[4096];
    const int64_t left = r->end - r->at;
    size_t used;
    DRV_TRY(try_header(r, bytes, left < (int64_t)sizeof bytes ? (size_t)left : sizeof bytes, h,
            &used));
    if (!used && left > (int64_t)sizeof bytes) { // statistics may be long
        unsigned char *more = mem_alloc(HEADER_BYTES);
        const drv_status status =
                try_header(r, more, left < HEADER_BYTES ? (size_t)left : HEADER_BYTES, h, &used);
        free(more);
        DRV_TRY(status);
    }
    if (!used) return broken(r, r->at, "a page header that is broken");
    r->at += (int64_t)used;
    if (h->packed < 0 || h->packed > r->end - r->at)
        return broken(r, r->at, "a page that is longer than its column");
    if (h->unpacked < 0 || h->unpacked > MAX_PAGE || h->values < 0 || h->values > INT32_MAX)
        return broken(r, r->at, "a page of an impossible size");
    return DRV_OK;
}

// The bytes of a page, unpacked but for `plain_bytes` at the front.
static drv_status read_page(parquet_reader *r, const page_header *h, int64_t plain_bytes,
        unsigned char **out, size_t *cap) {
    make_room(&r->packed, &r->cap_packed, (size_t)h->packed + 1);
    DRV_TRY(parquet_read_at(&r->file, r->at, r->packed, (size_t)h->packed));
    if (h->has_crc && crc32(0, r->packed, (uInt)h->packed) != h->crc)
        return broken(r, r->at, "a page whose checksum is another");
    if (plain_bytes > h->packed || plain_bytes > h->unpacked)
        return broken(r, r->at, "levels that are longer than their page");
    make_room(out, cap, (size_t)h->unpacked + 1);
    memcpy(*out, r->packed, (size_t)plain_bytes);
    const size_t packed = (size_t)(h->packed - plain_bytes),
                 unpacked = (size_t)(h->unpacked - plain_bytes);
    const char *why = NULL;
    if (packed || unpacked)
        why = page_unpack(h->is_packed ? r->codec : CODEC_NONE, r->packed + plain_bytes, packed,
                *out + plain_bytes, unpacked);
    return why ? broken(r, r->at, why) : DRV_OK;
}

static drv_status load_dictionary(parquet_reader *r, const page_header *h) {
    DRV_TRY(read_page(r, h, 0, &r->dictionary_page, &r->cap_dictionary));
    r->dictionary.n = 0;
    const char *why = page_byte_arrays(PARQUET_PLAIN, r->dictionary_page, (size_t)h->unpacked,
            h->values, &r->dictionary);
    return why ? broken(r, r->at, why) : DRV_OK;
}

static drv_status load_values(parquet_reader *r, int encoding, const unsigned char *p,
        size_t n_bytes, int64_t n) {
    r->values.n = 0;
    if (n == 0) return DRV_OK;
    if (encoding != PARQUET_PLAIN_DICTIONARY && encoding != PARQUET_RLE_DICTIONARY) {
        const char *why = page_byte_arrays(encoding, p, n_bytes, n, &r->values);
        return why ? broken(r, r->at, why) : DRV_OK;
    }
    MEM_GROW(r->indexes, n, r->cap_indexes);
    if (n_bytes < 1 || *p > 32 || !page_hybrid(p + 1, n_bytes - 1, *p, r->indexes, n))
        return broken(r, r->at, "dictionary indexes that do not fit the page");
    MEM_GROW(r->values.v, n, r->values.cap);
    for (int64_t i = 0; i < n; i++) {
        if (r->indexes[i] >= r->dictionary.n)
            return broken(r, r->at, "an index that is not in the dictionary");
        r->values.v[i] = r->dictionary.v[r->indexes[i]];
    }
    r->values.n = n;
    return DRV_OK;
}

// Definition levels: which rows have a value.
static drv_status load_data(parquet_reader *r, const page_header *h) {
    const bool v2 = h->type == DATA_PAGE_V2;
    if (v2 && (h->level_bytes < 0 || h->repetition_bytes != 0))
        return broken(r, r->at, "repetition levels in a column that does not repeat");
    DRV_TRY(read_page(r, h, v2 ? h->level_bytes : 0, &r->page, &r->cap_page));
    const unsigned char *p = r->page;
    size_t n = (size_t)h->unpacked, n_levels = (size_t)h->level_bytes;
    int64_t present = h->values;
    if (r->column.max_definition) {
        if (!v2) {
            uint32_t k;
            if (!h->definition_is_rle)
                return broken(r, r->at, "definition levels that are bit-packed (not supported)");
            if (n < 4 || (memcpy(&k, p, 4), k > n - 4))
                return broken(r, r->at, "definition levels that do not fit the page");
            n_levels = k;
            p += 4;
            n -= 4;
        }
        MEM_GROW(r->levels, h->values, r->cap_levels);
        const int bits = 32 - __builtin_clz((unsigned)r->column.max_definition);
        if (!page_hybrid(p, n_levels, bits, r->levels, h->values))
            return broken(r, r->at, "definition levels that do not fit the page");
        for (int64_t i = 0; i < h->values; i++)
            present -= r->levels[i] != (uint32_t)r->column.max_definition;
    }
    DRV_TRY(load_values(r, h->encoding, p + n_levels, n - n_levels, present));
    r->n_rows = h->values;
    r->row = r->value = 0;
    return DRV_OK;
}

static drv_status next_page(parquet_reader *r) {
    page_header h;
    DRV_TRY(read_header(r, &h));
    if (h.type == DICTIONARY_PAGE) DRV_TRY(load_dictionary(r, &h));
    if (h.type == DATA_PAGE || h.type == DATA_PAGE_V2) {
        DRV_TRY(load_data(r, &h));
        r->values_left -= h.values;
    }
    r->at += h.packed;
    return DRV_OK;
}

drv_status parquet_next(parquet_reader *r, str *out, bool *null, bool *row) {
    *null = *row = false;
    while (r->row == r->n_rows) {
        if (r->values_left > 0) {
            if (r->at >= r->end) return broken(r, r->at, "a column that ends before its last row");
            DRV_TRY(next_page(r));
            continue;
        }
        if (r->next_chunk == r->column.n_chunks) return DRV_OK;
        const parquet_chunk *c = &r->column.chunks[r->next_chunk++];
        r->at = c->from;
        r->end = c->from + c->bytes;
        r->values_left = c->values;
        r->codec = c->codec;
        r->dictionary.n = 0;
    }
    *row = true;
    *null = r->column.max_definition && r->levels[r->row] != (uint32_t)r->column.max_definition;
    r->row++;
    if (*null) return DRV_OK;
    const byte_array *v = &r->values.v[r->value++];
    str_add(out, v->p, v->n);
    return DRV_OK;
}
