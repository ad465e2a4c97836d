#include "data/read/parquet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "data/read/parquet_page.h"
#include "data/read/thrift.h"

enum { BYTE_ARRAY = 6, REQUIRED = 0, OPTIONAL = 1 };
enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2, DATA_PAGE_V2 = 3 };
enum { MOST_DEPTH = 32, HEADER_BYTES = 1 << 16, MOST_PAGE = 1 << 30 };

typedef struct chunk { // the column in one row group
    int64_t from, bytes, values;
    int codec;
} chunk;

typedef struct page_header {
    int type, encoding;
    int64_t unpacked, packed, values;
    int64_t level_bytes, repetition_bytes; // version 2: in front, not packed
    bool is_packed, has_crc, definition_is_rle;
    uint32_t crc;
} page_header;

struct parquet_reader {
    const char *path;
    arena *a;
    int fd;
    int64_t size;
    const char *column;
    int leaf, most_definition; // number among the leaves; 0: no value is null
    chunk *chunks;
    int n_chunks, next_chunk;
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
    return drv_fail(DRV_E_DATA, "%s: at byte %lld: %s", r->path, (long long)at, why);
}

static drv_status read_at(const parquet_reader *r, int64_t at, void *p, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t k = pread(r->fd, (char *)p + done, n - done, at + (int64_t)done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return drv_fail(DRV_E_IO, "could not read \"%s\" at byte %lld: %s", r->path,
                    (long long)at, k < 0 ? strerror(errno) : "the file has become shorter");
        done += (size_t)k;
    }
    return DRV_OK;
}

static void make_room(unsigned char **p, size_t *cap, size_t n) {
    if (n <= *cap) return;
    free(*p);
    *p = mem_alloc(*cap = n);
}

// --- the footer
typedef struct schema_node {
    const char *name;
    int64_t type, repetition, children;
} schema_node;

static schema_node read_schema_node(parquet_reader *r, thrift *t) {
    schema_node x = {.name = "", .type = -1};
    for (thrift_field f = {0}; thrift_next(t, &f);) {
        size_t n;
        const char *p;
        switch (f.id) {
        case 1:
            x.type = thrift_int(t);
            break;
        case 3:
            x.repetition = thrift_int(t);
            break;
        case 4:
            p = thrift_bytes(t, &n);
            x.name = arena_strndup(r->a, p, n);
            break;
        case 5:
            x.children = thrift_int(t);
            break;
        default:
            thrift_skip(t, f.type);
        }
    }
    return x;
}

// Walks the tree, which lies in the file parent before children, to the column that is wanted.
static drv_status read_schema(parquet_reader *r, thrift *t) {
    thrift_type type;
    const int64_t n = thrift_list(t, &type);
    struct {
        int64_t left;
        size_t path;
        int definition;
        bool repeated;
    } level[MOST_DEPTH] = {{0}};
    int depth = 0, leaves = 0;
    str path = {0}, strings = {0};
    const char *why = NULL;
    r->leaf = -1;
    for (int64_t i = 0; i < n && !t->bad && !why; i++) {
        const schema_node x = read_schema_node(r, t);
        if (i == 0) {
            level[0].left = x.children;
            continue;
        }
        while (depth > 0 && level[depth].left == 0)
            depth--;
        if (level[depth].left-- <= 0) {
            why = "a schema whose numbers of children do not fit";
            break;
        }
        path.n = level[depth].path;
        str_printf(&path, "%s%s", depth ? "." : "", x.name);
        const int definition = level[depth].definition + (x.repetition != REQUIRED);
        const bool repeated = level[depth].repeated || x.repetition > OPTIONAL;
        if (x.children > 0) {
            if (++depth == MOST_DEPTH) {
                why = "a schema nested too deeply";
                break;
            }
            level[depth].left = x.children;
            level[depth].path = path.n;
            level[depth].definition = definition;
            level[depth].repeated = repeated;
            continue;
        }
        const bool text = x.type == BYTE_ARRAY && !repeated;
        if (text) str_printf(&strings, "%s\"%s\"", strings.n ? ", " : "", path.p);
        if (text && r->leaf < 0 && str_is(&path, r->column)) {
            r->leaf = leaves;
            r->most_definition = definition;
        }
        leaves++;
    }
    drv_status s = DRV_OK;
    if (t->bad || why)
        s = broken(r, r->size, why ? why : "a footer that is broken");
    else if (r->leaf < 0)
        s = drv_fail(DRV_E_DATA, "%s: no string column \"%s\"; %s%s", r->path, r->column,
                strings.n ? "it has " : "it has none at all", strings.n ? strings.p : "");
    str_free(&path);
    str_free(&strings);
    return s;
}

static void read_column_data(thrift *t, chunk *c, int64_t *type) {
    int64_t data = -1, dictionary = -1;
    for (thrift_field f = {0}; thrift_next(t, &f);) {
        switch (f.id) {
        case 1:
            *type = thrift_int(t);
            break;
        case 4:
            c->codec = (int)thrift_int(t);
            break;
        case 5:
            c->values = thrift_int(t);
            break;
        case 7:
            c->bytes = thrift_int(t);
            break;
        case 9:
            data = thrift_int(t);
            break;
        case 11:
            dictionary = thrift_int(t);
            break;
        default:
            thrift_skip(t, f.type);
        }
    }
    c->from = dictionary > 0 && dictionary < data ? dictionary : data; // some writers write 0
}

static drv_status read_row_group(parquet_reader *r, thrift *t, chunk *c) {
    for (thrift_field f = {0}; thrift_next(t, &f);) {
        if (f.id != 1) {
            thrift_skip(t, f.type);
            continue;
        }
        thrift_type type;
        const int64_t n = thrift_list(t, &type);
        if (n <= r->leaf) t->bad = true;
        for (int64_t i = 0; i < n && !t->bad; i++) {
            int64_t physical = -1;
            chunk x = {0};
            for (thrift_field g = {0}; thrift_next(t, &g);) {
                if (g.id == 1 && i == r->leaf)
                    return drv_fail(DRV_E_DATA, "%s: column \"%s\" lies in another file", r->path,
                            r->column);
                if (g.id == 3)
                    read_column_data(t, &x, &physical);
                else
                    thrift_skip(t, g.type);
            }
            if (i != r->leaf) continue;
            *c = x;
            if (physical != BYTE_ARRAY) t->bad = true;
        }
    }
    if (!t->bad && c->values == 0) return DRV_OK; // it may have no pages, and no place
    if (t->bad || c->from < 4 || c->bytes < 0 || c->values < 0 || c->from > r->size ||
            c->bytes > r->size - c->from)
        return broken(r, c->from, "a column whose place is not in the file");
    return DRV_OK;
}

static drv_status read_footer(parquet_reader *r) {
    unsigned char tail[8];
    uint32_t n;
    if (r->size < 12) return drv_fail(DRV_E_DATA, "%s: too short for a Parquet file", r->path);
    DRV_TRY(read_at(r, r->size - 8, tail, 8));
    memcpy(&n, tail, 4);
    if (memcmp(tail + 4, "PARE", 4) == 0)
        return drv_fail(DRV_E_DATA, "%s: encrypted Parquet is not supported", r->path);
    if (memcmp(tail + 4, "PAR1", 4) != 0)
        return drv_fail(DRV_E_DATA, "%s: does not end with PAR1: no Parquet file, or cut short",
                r->path);
    if ((int64_t)n > r->size - 12)
        return drv_fail(DRV_E_DATA, "%s: the footer is said to have %u bytes, the file has %lld",
                r->path, n, (long long)r->size);
    unsigned char *footer = arena_alloc(r->a, (size_t)n + 1);
    DRV_TRY(read_at(r, r->size - 8 - n, footer, n));
    thrift t = {.p = footer, .end = footer + n}, groups = {.bad = true};
    bool schema = false;
    for (thrift_field f = {0}; thrift_next(&t, &f);) {
        if (f.id == 2 && f.type == THRIFT_LIST) {
            DRV_TRY(read_schema(r, &t));
            schema = true;
            continue;
        }
        if (f.id == 4 && f.type == THRIFT_LIST) groups = t;
        thrift_skip(&t, f.type);
    }
    if (t.bad || groups.bad || !schema)
        return broken(r, r->size - 8 - n, "a footer that is broken");
    thrift_type type;
    r->n_chunks = (int)thrift_list(&groups, &type);
    r->chunks = ARENA_ARRAY(r->a, chunk, r->n_chunks + 1);
    for (int i = 0; i < r->n_chunks; i++)
        DRV_TRY(read_row_group(r, &groups, &r->chunks[i]));
    return DRV_OK;
}

drv_status parquet_open(const char *path, const char *column, parquet_reader **out) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return drv_fail(DRV_E_IO, "could not open \"%s\": %s", path, strerror(errno));
    arena *a = arena_new("parquet");
    parquet_reader *r = ARENA_NEW(a, parquet_reader);
    *r = (parquet_reader){.path = path, .a = a, .fd = fd, .size = file_size(path), .column = column};
    drv_status s = read_footer(r);
    if (s == DRV_OK)
        *out = r;
    else
        parquet_close(r);
    return s;
}

void parquet_close(parquet_reader *r) {
    if (!r) return;
    close(r->fd);
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
static void read_page_part(thrift *t, page_header *h, int part) {
    for (thrift_field f = {0}; thrift_next(t, &f);) {
        const bool v2 = part == DATA_PAGE_V2;
        if (f.id == 1)
            h->values = thrift_int(t);
        else if (f.id == (v2 ? 4 : 2))
            h->encoding = (int)thrift_int(t);
        else if (v2 && f.id == 5)
            h->level_bytes = thrift_int(t);
        else if (v2 && f.id == 6)
            h->repetition_bytes = thrift_int(t);
        else if (v2 && f.id == 7)
            h->is_packed = f.type == THRIFT_TRUE;
        else if (part == DATA_PAGE && f.id == 3)
            h->definition_is_rle = thrift_int(t) == PARQUET_RLE;
        else
            thrift_skip(t, f.type);
    }
}

static drv_status read_header(parquet_reader *r, page_header *h) {
    unsigned char bytes[4096], *p = bytes;
    const int64_t left = r->end - r->at;
    size_t n = left < (int64_t)sizeof bytes ? (size_t)left : sizeof bytes;
    for (;; n = left < HEADER_BYTES ? (size_t)left : HEADER_BYTES) {
        thrift t = {.p = p, .end = p + n};
        *h = (page_header){.type = -1, .is_packed = true, .definition_is_rle = true};
        drv_status s = read_at(r, r->at, p, n);
        if (s != DRV_OK) {
            if (p != bytes) free(p);
            return s;
        }
        for (thrift_field f = {0}; thrift_next(&t, &f);) {
            if (f.id == 1)
                h->type = (int)thrift_int(&t);
            else if (f.id == 2)
                h->unpacked = thrift_int(&t);
            else if (f.id == 3)
                h->packed = thrift_int(&t);
            else if (f.id == 4)
                h->crc = (uint32_t)thrift_int(&t), h->has_crc = true;
            else if (f.type == THRIFT_STRUCT && (f.id == 5 || f.id == 7 || f.id == 8))
                read_page_part(&t, h, f.id - 5);
            else
                thrift_skip(&t, f.type);
        }
        const size_t used = (size_t)(t.p - p);
        const bool again = t.bad && p == bytes && (int64_t)n < left; // statistics may be long
        if (p != bytes) free(p);
        if (again) {
            p = mem_alloc(HEADER_BYTES);
            continue;
        }
        if (t.bad) return broken(r, r->at, "a page header that is broken");
        r->at += (int64_t)used;
        break;
    }
    if (h->packed < 0 || h->packed > r->end - r->at)
        return broken(r, r->at, "a page that is longer than its column");
    if (h->unpacked < 0 || h->unpacked > MOST_PAGE || h->values < 0 || h->values > INT32_MAX)
        return broken(r, r->at, "a page of an impossible size");
    return DRV_OK;
}

// The bytes of a page, unpacked but for `plain_bytes` at the front.
static drv_status read_page(parquet_reader *r, const page_header *h, int64_t plain_bytes,
        unsigned char **out, size_t *cap) {
    make_room(&r->packed, &r->cap_packed, (size_t)h->packed + 1);
    DRV_TRY(read_at(r, r->at, r->packed, (size_t)h->packed));
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
        why = page_unpack(h->is_packed ? r->codec : 0, r->packed + plain_bytes, packed,
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
    if (r->most_definition) {
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
        const int bits = 32 - __builtin_clz((unsigned)r->most_definition);
        if (!page_hybrid(p, n_levels, bits, r->levels, h->values))
            return broken(r, r->at, "definition levels that do not fit the page");
        for (int64_t i = 0; i < h->values; i++)
            present -= r->levels[i] != (uint32_t)r->most_definition;
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
        if (r->next_chunk == r->n_chunks) return DRV_OK;
        const chunk *c = &r->chunks[r->next_chunk++];
        r->at = c->from;
        r->end = c->from + c->bytes;
        r->values_left = c->values;
        r->codec = c->codec;
        r->dictionary.n = 0;
    }
    *row = true;
    *null = r->most_definition && r->levels[r->row] != (uint32_t)r->most_definition;
    r->row++;
    if (*null) return DRV_OK;
    const byte_array *v = &r->values.v[r->value++];
    str_add(out, v->p, v->n);
    return DRV_OK;
}
