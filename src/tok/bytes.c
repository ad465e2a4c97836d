// GPT-2's table of printable stand-ins for bytes: printable Latin-1 stands for itself, the rest for
// U+0100 and on, in order.
#include "tok/tokenizer.h"
#include "tok/unicode.h"

static bool printable(int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

uint32_t byte_char(int byte) {
    if (printable(byte)) return (uint32_t)byte;
    uint32_t next = 0x100;
    for (int b = 0; b < byte; b++)
        next += !printable(b);
    return next;
}

int char_byte(uint32_t cp) {
    if (cp < 0x100) return printable((int)cp) ? (int)cp : -1;
    for (int b = 0; b < 256; b++)
        if (!printable(b) && byte_char(b) == cp) return b;
    return -1;
}

int64_t utf8_sanitize(const void *text, size_t n, str *out) {
    const unsigned char *s = text;
    int64_t bad = 0;
    while (n) {
        size_t ok = utf8_valid_prefix(s, n);
        str_add(out, s, ok);
        s += ok;
        n -= ok;
        if (!n) break;
        // The maximal part of an ill-formed sequence (Unicode 15, section 3.9, table 3-8).
        size_t skip = 1;
        if (s[0] >= 0xC2 && s[0] <= 0xF4) {
            size_t want = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
            unsigned char lo = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
            unsigned char hi = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
            while (skip < want && skip < n && s[skip] >= lo && s[skip] <= hi)
                skip++, lo = 0x80, hi = 0xBF;
        }
        str_puts(out, "\xEF\xBF\xBD");
        bad++;
        s += skip;
        n -= skip;
    }
    return bad;
}
