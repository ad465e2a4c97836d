// Pages of a column, one at a time: headers, levels, dictionary and values.
#include "data/read/parquet_pages.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// A value takes up to 28 bytes while its page is read; writers end pages at 1 MiB or 20,000 rows.
enum { HEADER_BYTES = 1 << 16, MAX_PAGE = 1 << 30, MAX_PAGE_VALUES = 1 << 25 };

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
enum { DATA_ENCODING = 2, DATA_DEFINITION_ENCODING = 3, DATA_REPETITION_ENCODING = 4 };
enum { DICTIONARY_ENCODING = 2 };
enum { V2_ENCODING = 4, V2_DEFINITION_BYTES = 5, V2_REPETITION_BYTES = 6, V2_IS_PACKED = 7 };

typedef struct page_header {
    int type, encoding;
    int64_t unpacked, packed, values;
    int64_t level_bytes, repetition_bytes; // version 2: in front, not packed
    bool is_packed, has_crc, definition_is_rle, repetition_is_rle;
    uint32_t crc;
} page_header;

struct parquet_pages {
    const parquet_file *file;
    const parquet_column *column;
    int next_chunk;
    int64_t at, end, values_left; // of the chunk that is open
    int codec;
    unsigned char *packed, *page, *dictionary_page;
    size_t cap_packed, cap_page, cap_dictionary;
    page_values values, dictionary;
    uint32_t *definitions, *repetitions, *indexes;
    int64_t cap_definitions, cap_repetitions, cap_indexes;
    int64_t n_slots, slot, value; // of the page
};

static drv_status broken(const parquet_pages *pages, int64_t at, const char *why) {
    return parquet_broken(pages->file, at, why);
}

static void make_room(unsigned char **p, size_t *cap, size_t n) {
    if (n <= *cap) return;
    free(*p);
    *p = mem_alloc(*cap = n);
}

parquet_pages *parquet_pages_new(const parquet_file *file, const parquet_column *column) {
    parquet_pages *pages = mem_alloc(sizeof *pages);
    *pages = (parquet_pages){.file = file, .column = column};
    return pages;
}

void parquet_pages_free(parquet_pages *pages) {
    if (!pages) return;
    free(pages->packed);
    free(pages->page);
    free(pages->dictionary_page);
    free(pages->definitions);
    free(pages->repetitions);
    free(pages->indexes);
    page_values_free(&pages->values);
    page_values_free(&pages->dictionary);
    free(pages);
}

int64_t parquet_pages_where(const parquet_pages *pages) {
    return pages->next_chunk ? pages->at : 0;
}

// --- pages
// Reads the struct for the kind of page: PAGE_DATA, PAGE_DICTIONARY or PAGE_DATA_V2.
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
        else if (part == PAGE_DATA && field.id == DATA_REPETITION_ENCODING)
            header->repetition_is_rle = thrift_int(in) == PARQUET_RLE;
        else
            thrift_skip(in, field.type);
    }
}

static void parse_header(thrift *in, page_header *header) {
    *header = (page_header){.type = -1,
            .is_packed = true,
            .definition_is_rle = true,
            .repetition_is_rle = true};
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

// Reads a header from n bytes. *used: its length; 0: it is broken or longer.
static drv_status try_header(const parquet_pages *pages, unsigned char *bytes, size_t n,
        page_header *header, size_t *used) {
    thrift in = {.p = bytes, .end = bytes + n};
    DRV_TRY(parquet_read_at(pages->file, pages->at, bytes, n));
    parse_header(&in, header);
    *used = in.bad ? 0 : (size_t)(in.p - bytes);
    return DRV_OK;
}

static drv_status read_header(parquet_pages *pages, page_header *header) {
    unsigned char bytes[4096];
    const int64_t left = pages->end - pages->at;
    size_t used;
    DRV_TRY(try_header(pages, bytes, left < (int64_t)sizeof bytes ? (size_t)left : sizeof bytes,
            header, &used));
    if (!used && left > (int64_t)sizeof bytes) { // statistics may be long
        unsigned char *more = mem_alloc(HEADER_BYTES);
        const drv_status status = try_header(pages, more,
                left < HEADER_BYTES ? (size_t)left : HEADER_BYTES, header, &used);
        free(more);
        DRV_TRY(status);
    }
    if (!used) return broken(pages, pages->at, "a broken page header");
    pages->at += (int64_t)used;
    if (header->packed < 0 || header->packed > pages->end - pages->at)
        return broken(pages, pages->at, "a page that is longer than its column");
    if (header->unpacked < 0 || header->unpacked > MAX_PAGE || header->values < 0 ||
            header->values > MAX_PAGE_VALUES)
        return broken(pages, pages->at, "a page of an impossible size");
    return DRV_OK;
}

// Reads a page and decompresses it, except for its first `plain_bytes`.
static drv_status read_page(parquet_pages *pages, const page_header *header, int64_t plain_bytes,
        unsigned char **out, size_t *cap) {
    make_room(&pages->packed, &pages->cap_packed, (size_t)header->packed + 1);
    DRV_TRY(parquet_read_at(pages->file, pages->at, pages->packed, (size_t)header->packed));
    if (header->has_crc && crc32(0, pages->packed, (uInt)header->packed) != header->crc)
        return broken(pages, pages->at, "a page whose checksum does not match");
    if (plain_bytes > header->packed || plain_bytes > header->unpacked)
        return broken(pages, pages->at, "levels that are longer than their page");
    make_room(out, cap, (size_t)header->unpacked + 1);
    memcpy(*out, pages->packed, (size_t)plain_bytes);
    const size_t packed = (size_t)(header->packed - plain_bytes),
                 unpacked = (size_t)(header->unpacked - plain_bytes);
    const char *why = NULL, *lacks = page_lacks(header->is_packed ? pages->codec : CODEC_NONE);
    if (lacks)
        return drv_fail(DRV_E_IO, "%s: at byte %lld: %s", pages->file->path, (long long)pages->at,
                lacks);
    if (packed || unpacked)
        why = page_unpack(header->is_packed ? pages->codec : CODEC_NONE,
                pages->packed + plain_bytes, packed, *out + plain_bytes, unpacked);
    return why ? broken(pages, pages->at, why) : DRV_OK;
}

static const char *read_values(const parquet_pages *pages, int encoding, const unsigned char *p,
        size_t n_bytes, int64_t n, page_values *out) {
    const int type = pages->column->type;
    out->n = 0;
    return type == PARQUET_BYTE_ARRAY ? page_byte_arrays(encoding, p, n_bytes, n, out)
                                      : page_numbers(type, encoding, p, n_bytes, n, out);
}

static drv_status load_dictionary(parquet_pages *pages, const page_header *header) {
    DRV_TRY(read_page(pages, header, 0, &pages->dictionary_page, &pages->cap_dictionary));
    const char *why = read_values(pages, PARQUET_PLAIN, pages->dictionary_page,
            (size_t)header->unpacked, header->values, &pages->dictionary);
    return why ? broken(pages, pages->at, why) : DRV_OK;
}

static drv_status load_values(parquet_pages *pages, int encoding, const unsigned char *p,
        size_t n_bytes, int64_t n) {
    pages->values.n = 0;
    if (n == 0) return DRV_OK;
    if (encoding != PARQUET_PLAIN_DICTIONARY && encoding != PARQUET_RLE_DICTIONARY) {
        const char *why = read_values(pages, encoding, p, n_bytes, n, &pages->values);
        return why ? broken(pages, pages->at, why) : DRV_OK;
    }
    MEM_GROW(pages->indexes, n, pages->cap_indexes);
    if (n_bytes < 1 || *p > 32 || !page_hybrid(p + 1, n_bytes - 1, *p, pages->indexes, n))
        return broken(pages, pages->at, "dictionary indexes that do not fit the page");
    MEM_GROW(pages->values.v, n, pages->values.cap);
    for (int64_t i = 0; i < n; i++) {
        if (pages->indexes[i] >= pages->dictionary.n)
            return broken(pages, pages->at, "an index that is not in the dictionary");
        pages->values.v[i] = pages->dictionary.v[pages->indexes[i]];
    }
    pages->values.n = n;
    return DRV_OK;
}

// Reads n levels, one for each entry of the page.
static bool read_levels(const unsigned char *p, size_t n_bytes, int max, uint32_t **levels,
        int64_t *cap, int64_t n) {
    MEM_GROW(*levels, n, *cap);
    return page_hybrid(p, n_bytes, 32 - __builtin_clz((unsigned)max), *levels, n);
}

// Reads the length that precedes levels in a page of version 1.
static bool take_length(const unsigned char **p, size_t *left, size_t *n) {
    uint32_t k;
    if (*left < 4) return false;
    memcpy(&k, *p, 4);
    *p += 4;
    *left -= 4;
    *n = k;
    return k <= *left;
}

// Reads the levels at the beginning of a page and moves `cursor` and `left` past them.
static const char *load_levels(parquet_pages *pages, const page_header *header,
        const unsigned char **cursor, size_t *left) {
    const parquet_column *column = pages->column;
    const bool v2 = header->type == DATA_PAGE_V2;
    const struct {
        int max;
        int64_t bytes; // in version 2
        bool is_rle;
        uint32_t **levels;
        int64_t *cap;
    } kinds[] = {{column->max_repetition, header->repetition_bytes, header->repetition_is_rle,
                         &pages->repetitions, &pages->cap_repetitions},
            {column->max_definition, header->level_bytes, header->definition_is_rle,
                    &pages->definitions, &pages->cap_definitions}};
    for (int i = 0; i < 2; i++) {
        size_t n = v2 ? (size_t)kinds[i].bytes : 0;
        if (kinds[i].max && !v2) {
            if (!kinds[i].is_rle) return "levels that are bit-packed (not supported)";
            if (!take_length(cursor, left, &n)) return "levels that do not fit the page";
        }
        if (kinds[i].max && !read_levels(*cursor, n, kinds[i].max, kinds[i].levels, kinds[i].cap,
                                    header->values))
            return "levels that do not fit the page";
        *cursor += n;
        *left -= n;
    }
    return NULL;
}

static drv_status load_data(parquet_pages *pages, const page_header *header) {
    const bool v2 = header->type == DATA_PAGE_V2;
    if (v2 && (header->level_bytes < 0 || header->repetition_bytes < 0 ||
                      header->level_bytes > INT32_MAX || header->repetition_bytes > INT32_MAX))
        return broken(pages, pages->at, "levels of an impossible size");
    DRV_TRY(read_page(pages, header, v2 ? header->level_bytes + header->repetition_bytes : 0,
            &pages->page, &pages->cap_page));
    const unsigned char *p = pages->page;
    size_t left = (size_t)header->unpacked;
    int64_t present = header->values;
    const char *why = load_levels(pages, header, &p, &left);
    if (why) return broken(pages, pages->at, why);
    for (int64_t i = 0; pages->column->max_definition && i < header->values; i++)
        present -= pages->definitions[i] != (uint32_t)pages->column->max_definition;
    DRV_TRY(load_values(pages, header->encoding, p, left, present));
    pages->n_slots = header->values;
    pages->slot = pages->value = 0;
    return DRV_OK;
}

static drv_status next_page(parquet_pages *pages) {
    page_header header;
    DRV_TRY(read_header(pages, &header));
    if (header.type == DICTIONARY_PAGE) DRV_TRY(load_dictionary(pages, &header));
    if (header.type == DATA_PAGE || header.type == DATA_PAGE_V2) {
        DRV_TRY(load_data(pages, &header));
        pages->values_left -= header.values;
    }
    pages->at += header.packed;
    return DRV_OK;
}

drv_status parquet_pages_peek(parquet_pages *pages, parquet_slot *out, bool *there) {
    *there = false;
    while (pages->slot == pages->n_slots) {
        if (pages->values_left > 0) {
            if (pages->at >= pages->end)
                return broken(pages, pages->at, "a column that ends before its last row");
            DRV_TRY(next_page(pages));
            continue;
        }
        if (pages->next_chunk == pages->column->n_chunks) return DRV_OK;
        const parquet_chunk *chunk = &pages->column->chunks[pages->next_chunk++];
        pages->at = chunk->from;
        pages->end = chunk->from + chunk->bytes;
        pages->values_left = chunk->values;
        pages->codec = chunk->codec;
        pages->dictionary.n = 0;
    }
    const parquet_column *column = pages->column;
    *there = true;
    out->definition = column->max_definition ? (int)pages->definitions[pages->slot] : 0;
    out->repetition = column->max_repetition ? (int)pages->repetitions[pages->slot] : 0;
    out->present = out->definition == column->max_definition;
    if (out->present) out->value = pages->values.v[pages->value];
    return DRV_OK;
}

void parquet_pages_pass(parquet_pages *pages) {
    pages->value += !pages->column->max_definition ||
                    pages->definitions[pages->slot] == (uint32_t)pages->column->max_definition;
    pages->slot++;
}
