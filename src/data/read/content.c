// Marks, magic numbers and first lines by which content is recognised.
#include "data/read/content.h"

#include <string.h>

#include "base/json_cursor.h"

// Text in UTF-16 without a mark: of the first characters most are below U+0100, so that every other
// byte is NUL, which no text in UTF-8 has.
static bool looks_like_utf16(const char *p, size_t n) {
    enum { LOOKED_AT = 256, LEAST = 4 };
    size_t n_nul[2] = {0};
    const size_t n_pairs = (n < LOOKED_AT ? n : LOOKED_AT) / 2;
    for (size_t i = 0; i < 2 * n_pairs; i++)
        n_nul[i % 2] += p[i] == 0;
    return n_pairs >= LEAST &&
           ((n_nul[0] == 0 && n_nul[1] > n_pairs / 2) || (n_nul[1] == 0 && n_nul[0] > n_pairs / 2));
}

content_mark content_mark_of(const char *p, size_t n) {
    if (n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) return MARK_UTF8;
    if (n >= 2 && (memcmp(p, "\xFF\xFE", 2) == 0 || memcmp(p, "\xFE\xFF", 2) == 0))
        return MARK_UTF16;
    if (looks_like_utf16(p, n)) return MARK_UTF16;
    return MARK_NONE;
}

// After the magic number comes a Thrift struct, of a page or of the footer, whose first field is an
// i32 with number 1; a text may begin with "PAR1" too.
bool content_is_parquet(const char *p, size_t n) {
    return n >= 5 && memcmp(p, "PAR1\x15", 5) == 0;
}

bool content_is_arrow(const char *p, size_t n) {
    return n >= 8 && (memcmp(p, "\xFF\xFF\xFF\xFF", 4) == 0 || memcmp(p, "ARROW1\0", 8) == 0);
}

// Magic numbers as their formats specify them; of a tar archive at byte 257 (POSIX, ustar).
static const struct {
    const char *name, *unpack;
    size_t at, n;
    const char *magic;
} foreign[] = {
        {"xz", "xz -dc", 0, 6,
                "\xFD"
                "7zXZ"},
        {"bzip2", "bzip2 -dc", 4, 6, "1AY&SY"},
        {"lz4", "lz4 -dc", 0, 4, "\x04\x22\x4D\x18"},
        {"lzip", "lzip -dc", 0, 5, "LZIP\x01"},
        {"snappy", NULL, 0, 10, "\xFF\x06\0\0sNaPpY"},
        {"compress", "zcat", 0, 2, "\x1F\x9D"},
        {"gzip packed twice", "zcat", 0, 3, "\x1F\x8B\x08"},
        {"zstd packed twice", "zstd -dc", 0, 4, "\x28\xB5\x2F\xFD"},
        {"a zip archive", "unzip -p", 0, 4, "PK\3\4"},
        {"a 7z archive", "7z x -so", 0, 6, "7z\xBC\xAF\x27\x1C"},
        {"a rar archive", NULL, 0, 6, "Rar!\x1A\x07"},
        {"a tar archive", "tar -xO -f", 257, 5, "ustar"},
        {"PDF", "pdftotext", 0, 5, "%PDF-"},
        {"an Avro file", NULL, 0, 4, "Obj\x01"},
        {"HDF5", NULL, 0, 8, "\x89HDF\r\n\x1A\n"},
        {"an SQLite database", NULL, 0, 16, "SQLite format 3"},
        {"a NumPy array", NULL, 0, 6, "\x93NUMPY"},
        {"a GGUF model", NULL, 0, 4, "GGUF"},
        {"a PNG image", NULL, 0, 8, "\x89PNG\r\n\x1A\n"},
        {"a JPEG image", NULL, 0, 3, "\xFF\xD8\xFF"},
        {"a program", NULL, 0, 4,
                "\x7F"
                "ELF"},
};

const char *content_foreign(const char *p, size_t n, const char **unpack) {
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        if (n < foreign[i].at + foreign[i].n) continue;
        if (memcmp(p + foreign[i].at, foreign[i].magic, foreign[i].n) != 0) continue;
        *unpack = foreign[i].unpack;
        return foreign[i].name;
    }
    return NULL;
}

bool content_is_json_lines(const char *p, size_t n, bool whole) {
    const char *end = p + n;
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    json_cursor c = {.p = p, .end = newline ? newline : end};
    if (jc_peek(&c) != '{') return false;
    if (newline || whole) return jc_skip(&c) && jc_at_end(&c);
    // A long line: its beginning is an object with a key.
    bool first = true;
    return jc_next(&c, '{', &first, NULL) && !c.error;
}

bool content_is_json_array(const char *p, size_t n) {
    json_cursor c = {.p = p, .end = p + n};
    if (jc_peek(&c) != '[') return false;
    c.p++;
    if (jc_peek(&c) != '{') return false;
    c.p++;
    const char next = jc_peek(&c);
    return next == '"' || next == '}' || next == 0;
}
