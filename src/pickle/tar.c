// Fields of a header: name 0-100, size 124-136, checksum 148-156, type 156, magic 257-263, prefix
// 345-500.
#include "pickle/tar.h"

#include <string.h>

#include "base/str.h"

enum { BLOCK = 512, MOST_TEXT = 1 << 20, MOST_MEMBERS = 1 << 20 };

// The name and size that headers before that of a member give it.
typedef struct tar_said {
    const char *name;
    int64_t bytes; // -1: nothing
} tar_said;

// --- fields
// Numbers are octal digits; GNU tar has large ones in base 256, marked by the highest bit.
static bool read_number(const unsigned char *p, int n, int64_t *out) {
    int i = 0;
    *out = 0;
    if (p[0] == 0x80) {
        for (i = 1; i < n; i++) {
            if (*out >> 54) return false;
            *out = *out * 256 + p[i];
        }
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        *out = *out * 8 + (p[i] - '0');
    return i == n || p[i] == ' ' || p[i] == 0;
}

static bool checksum_fits(const unsigned char *header) {
    int64_t sum = 0, expected;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : header[i];
    return read_number(header + 148, 8, &expected) && sum == expected;
}

static bool is_header(const unsigned char *header) {
    return memcmp(header + 257, "ustar", 5) == 0 && checksum_fits(header);
}

bool tar_is_tar(const file_part *part) {
    unsigned char header[BLOCK];
    return part->size >= BLOCK && file_part_read(part, 0, BLOCK, header) == DRV_OK &&
           is_header(header);
}

static const char *name_of(arena *a, const unsigned char *header) {
    const char *name = arena_strndup(a, (const char *)header, 100),
               *prefix = arena_strndup(a, (const char *)header + 345, 155);
    const bool posix = memcmp(header + 257, "ustar\0", 6) == 0;
    return posix && *prefix ? arena_printf(a, "%s/%s", prefix, name) : name;
}

// --- headers before that of a member
// Records of pax: "LENGTH KEY=VALUE\n", where the length is that of the whole record.
static bool read_pax(arena *a, const char *text, size_t n, tar_said *said) {
    for (size_t i = 0; i < n;) {
        size_t length = 0, k = i;
        for (; k < n && k - i < 8 && text[k] >= '0' && text[k] <= '9'; k++)
            length = length * 10 + (size_t)(text[k] - '0');
        if (k == i || k >= n || text[k] != ' ' || length <= k + 1 - i || length > n - i ||
                text[i + length - 1] != '\n')
            return false;
        const char *record = arena_strndup(a, text + k + 1, i + length - 1 - (k + 1));
        if (str_starts(record, "path=")) said->name = record + 5;
        if (str_starts(record, "size=") &&
                (!str_to_i64(record + 5, &said->bytes) || said->bytes < 0))
            return false;
        i += length;
    }
    return true;
}

static drv_status read_said(arena *a, const file_part *part, int64_t at, int64_t bytes, char type,
        tar_said *said) {
    if (bytes > MOST_TEXT)
        return drv_fail(DRV_E_DATA, "%s: at byte %lld is a name of %lld bytes, expected at most %d",
                part->path, (long long)at, (long long)bytes, MOST_TEXT);
    char *text = arena_alloc(a, (size_t)bytes + 1);
    DRV_TRY(file_part_read(part, at, bytes, text));
    if (type == 'L') said->name = text;
    if (type == 'x' && !read_pax(a, text, (size_t)bytes, said))
        return drv_fail(DRV_E_DATA, "%s: at byte %lld is no header of pax", part->path,
                (long long)at);
    return DRV_OK;
}

// --- members
static drv_status add_member(arena *a, const file_part *part, const char *name, int64_t at,
        int64_t bytes, tar_file *out) {
    while (str_starts(name, "./"))
        name += 2;
    if (out->n == MOST_MEMBERS)
        return drv_fail(DRV_E_DATA, "%s: has more than %d files", part->path, MOST_MEMBERS);
    ARENA_GROW(a, out->members, out->n, out->cap);
    out->members[out->n] = (tar_member){.name = name, .part = *part};
    out->members[out->n].part.base += at;
    out->members[out->n++].part.size = bytes;
    return DRV_OK;
}

static drv_status broken(const file_part *part, int64_t at, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: the tar header at byte %lld %s", part->path, (long long)at,
            what);
}

drv_status tar_read(arena *a, const file_part *part, tar_file *out) {
    static const unsigned char end[BLOCK];
    unsigned char header[BLOCK];
    tar_said said = {.bytes = -1};
    *out = (tar_file){0};
    for (int64_t at = 0, bytes; part->size - at >= BLOCK;
            at += (bytes + BLOCK - 1) / BLOCK * BLOCK) {
        DRV_TRY(file_part_read(part, at, BLOCK, header));
        if (memcmp(header, end, BLOCK) == 0) return DRV_OK;
        if (!is_header(header)) return broken(part, at, "has a wrong checksum");
        if (!read_number(header + 124, 12, &bytes)) return broken(part, at, "has no size");
        const char type = (char)header[156];
        const bool is_text = type == 'L' || type == 'x' || type == 'K' || type == 'g';
        if (!is_text && said.bytes >= 0) bytes = said.bytes;
        at += BLOCK;
        if (bytes > part->size - at)
            return broken(part, at - BLOCK, "is of a file that is longer than the archive");
        if (is_text) {
            DRV_TRY(read_said(a, part, at, bytes, type, &said));
            continue;
        }
        if (type == '0' || type == 0)
            DRV_TRY(add_member(a, part, said.name ? said.name : name_of(a, header), at, bytes,
                    out));
        said = (tar_said){.bytes = -1};
    }
    return drv_fail(DRV_E_DATA, "%s: has no end of the tar archive; is it truncated?", part->path);
}
