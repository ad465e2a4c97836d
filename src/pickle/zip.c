// Reads a zip's directory, and checks each entry against its local header.
// Legend: d the directory, e an entry, n bytes.
#include "pickle/zip.h"

#include <stdlib.h>
#include <string.h>

enum {
    END_BYTES = 22,
    MAX_COMMENT = 65535,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    ZIP64_EXTRA = 1,
    MAX_DIRECTORY = 256 << 20,
    ENCRYPTED = 1,
};
#define ALL_ONES_16 0xFFFFu
#define ALL_ONES_32 0xFFFFFFFFu // the value is in the zip64 record

static const char end_mark[] = "PK\5\6", locator_mark[] = "PK\6\7", end64_mark[] = "PK\6\6",
                  central_mark[] = "PK\1\2", local_mark[] = "PK\3\4";

// The place of the directory, and what it claims.
typedef struct directory {
    uint64_t n, bytes, offset;
    int64_t end; // the directory and all data lie before this byte
} directory;

static uint64_t number(const unsigned char *p, int bytes) {
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

static bool is_mark(const unsigned char *p, const char *mark) {
    return memcmp(p, mark, 4) == 0;
}

static drv_status bad(const file_part *part, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: is a zip file %s", part->path, what);
}

static drv_status bad_entry(const file_part *part, const char *name, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: entry \"%.200s\" of the zip file %s", part->path, name, what);
}

bool zip_is_zip(const file_part *part) {
    unsigned char p[4];
    return part->size >= 4 && file_part_read(part, 0, 4, p) == DRV_OK && is_mark(p, local_mark);
}

// --- the end of the file
static drv_status read_end64(const file_part *part, directory *d) {
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];
    if (d->end < LOCATOR_BYTES + END64_BYTES) return bad(part, "without its zip64 record");
    DRV_TRY(file_part_read(part, d->end - LOCATOR_BYTES, LOCATOR_BYTES, locator));
    if (!is_mark(locator, locator_mark)) return bad(part, "without its zip64 record");
    const uint64_t at = number(locator + 8, 8);
    if (at > (uint64_t)(d->end - LOCATOR_BYTES - END64_BYTES))
        return bad(part, "whose zip64 record lies beyond its end");
    DRV_TRY(file_part_read(part, (int64_t)at, END64_BYTES, end));
    if (!is_mark(end, end64_mark)) return bad(part, "without its zip64 record");
    d->n = number(end + 32, 8);
    d->bytes = number(end + 40, 8);
    d->offset = number(end + 48, 8);
    d->end = (int64_t)at;
    return DRV_OK;
}

static drv_status read_end(const file_part *part, directory *d) {
    const int64_t most = END_BYTES + MAX_COMMENT, n = part->size < most ? part->size : most;
    unsigned char *tail = mem_alloc((size_t)n + 1);
    const drv_status status = file_part_read(part, part->size - n, n, tail);
    int64_t i = status == DRV_OK ? n - END_BYTES : -1;
    while (i >= 0 && !(is_mark(tail + i, end_mark) &&
                             (int64_t)number(tail + i + 20, 2) == n - END_BYTES - i))
        i--;
    if (i >= 0) {
        d->n = number(tail + i + 10, 2);
        d->bytes = number(tail + i + 12, 4);
        d->offset = number(tail + i + 16, 4);
        d->end = part->size - n + i;
    }
    free(tail);
    DRV_TRY(status);
    if (i < 0) return bad(part, "without its directory: is it truncated?");
    if (d->n == ALL_ONES_16 || d->bytes == ALL_ONES_32 || d->offset == ALL_ONES_32)
        DRV_TRY(read_end64(part, d));
    if (d->bytes <= (uint64_t)d->end && d->offset <= (uint64_t)d->end - d->bytes &&
            d->bytes <= MAX_DIRECTORY && d->n <= d->bytes / CENTRAL_BYTES)
        return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: the directory of the zip file has %llu entries in %llu bytes from byte %llu, which "
            "does not fit a file of %lld bytes",
            part->path, (unsigned long long)d->n, (unsigned long long)d->bytes,
            (unsigned long long)d->offset, (long long)part->size);
}

// --- entries
// Replaces the sizes and the place that a zip64 extra field has.
static drv_status read_extra(const file_part *part, const char *name, const unsigned char *p,
        size_t n, uint64_t *fields[3]) {
    for (size_t at = 0; n - at >= 4;) {
        const size_t id = (size_t)number(p + at, 2), bytes = (size_t)number(p + at + 2, 2);
        at += 4;
        if (bytes > n - at) return bad_entry(part, name, "has a broken extra field");
        size_t used = 0;
        for (int i = 0; id == ZIP64_EXTRA && i < 3; i++) {
            if (*fields[i] != ALL_ONES_32) continue;
            if (bytes - used < 8) return bad_entry(part, name, "has a broken zip64 field");
            *fields[i] = number(p + at + used, 8);
            used += 8;
        }
        at += bytes;
    }
    return DRV_OK;
}

static drv_status place_data(const file_part *part, const directory *d, uint64_t header_at,
        uint64_t bytes, zip_entry *e) {
    unsigned char local[LOCAL_BYTES];
    const int64_t end = (int64_t)d->offset; // of all data
    const size_t n_name = strlen(e->name);
    if (header_at > (uint64_t)end || end - (int64_t)header_at < (int64_t)(LOCAL_BYTES + n_name))
        return bad_entry(part, e->name, "lies beyond the data of the file");
    e->header_at = (int64_t)header_at;
    DRV_TRY(file_part_read(part, e->header_at, LOCAL_BYTES, local));
    char *name = mem_alloc(n_name + 1);
    const drv_status status =
            file_part_read(part, e->header_at + LOCAL_BYTES, (int64_t)n_name, name);
    const bool same = is_mark(local, local_mark) && number(local + 26, 2) == n_name &&
                      memcmp(name, e->name, n_name) == 0;
    free(name);
    DRV_TRY(status);
    if (!same) return bad_entry(part, e->name, "has another local header than the directory says");
    e->offset = e->header_at + LOCAL_BYTES + (int64_t)n_name + (int64_t)number(local + 28, 2);
    e->bytes = (int64_t)bytes;
    if (e->offset > end || bytes > (uint64_t)(end - e->offset))
        return drv_fail(DRV_E_DATA,
                "%s: entry \"%.200s\" of the zip file has %llu bytes from byte %lld, but the data end "
                "at byte %lld",
                part->path, e->name, (unsigned long long)bytes, (long long)e->offset,
                (long long)end);
    return DRV_OK;
}

// Reads one header of the directory; *used: its bytes.
static drv_status read_central(arena *a, const file_part *part, const directory *d,
        const unsigned char *p, size_t n, zip_entry *e, size_t *used) {
    if (n < CENTRAL_BYTES || !is_mark(p, central_mark)) return bad(part, "with a broken directory");
    const size_t n_name = (size_t)number(p + 28, 2), n_extra = (size_t)number(p + 30, 2),
                 n_comment = (size_t)number(p + 32, 2);
    *used = CENTRAL_BYTES + n_name + n_extra + n_comment;
    if (*used > n) return bad(part, "with a broken directory");
    e->name = arena_strndup(a, (const char *)p + CENTRAL_BYTES, n_name);
    if (n_name == 0 || strlen(e->name) != n_name) return bad(part, "with an entry without a name");
    uint64_t stored = number(p + 20, 4), bytes = number(p + 24, 4), header_at = number(p + 42, 4);
    DRV_TRY(read_extra(part, e->name, p + CENTRAL_BYTES + n_name, n_extra,
            (uint64_t *[3]){&bytes, &stored, &header_at}));
    if (number(p + 8, 2) & ENCRYPTED) return bad_entry(part, e->name, "is encrypted");
    if (number(p + 10, 2) != 0 || stored != bytes)
        return bad_entry(part, e->name,
                "is compressed, expected it stored as torch.save does; torch.save(torch.load(...)) "
                "writes it anew");
    return place_data(part, d, header_at, bytes, e);
}

static int by_place(const void *x, const void *y) {
    const zip_entry *a = x, *b = y;
    return a->header_at < b->header_at ? -1 : a->header_at > b->header_at;
}

static drv_status check_entries(arena *a, const file_part *part, zip_file *zip) {
    if (zip->n) qsort(zip->entries, (size_t)zip->n, sizeof *zip->entries, by_place);
    zip->by_name = (name_map){.a = a};
    for (int i = 0; i < zip->n; i++) {
        zip_entry *e = &zip->entries[i];
        if (i && e->header_at < e[-1].offset + e[-1].bytes)
            return bad_entry(part, e->name, "overlaps another one");
        if (name_map_get(&zip->by_name, e->name)) return bad_entry(part, e->name, "is there twice");
        name_map_set(&zip->by_name, e->name, e);
    }
    return DRV_OK;
}

drv_status zip_read(arena *a, const file_part *part, zip_file *out) {
    directory d = {0};
    *out = (zip_file){0};
    DRV_TRY(read_end(part, &d));
    unsigned char *bytes = mem_alloc((size_t)d.bytes + 1);
    drv_status status = file_part_read(part, (int64_t)d.offset, (int64_t)d.bytes, bytes);
    out->entries = ARENA_ARRAY(a, zip_entry, d.n + 1);
    size_t at = 0, used = 0;
    for (uint64_t i = 0; status == DRV_OK && i < d.n; i++) {
        status = read_central(a, part, &d, bytes + at, (size_t)d.bytes - at,
                &out->entries[out->n++], &used);
        at += used;
    }
    free(bytes);
    return status == DRV_OK ? check_entries(a, part, out) : status;
}

const zip_entry *zip_find(const zip_file *zip, const char *name) {
    return name_map_get(&zip->by_name, name);
}
