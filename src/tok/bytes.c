// GPT-2's table of printable stand-ins for bytes: printable Latin-1 characters stand for
// themselves, U+0100 and on for the other bytes, in order.
#include <pthread.h>

#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

static bool printable(int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

enum { N_CHARS = 0x100 + 68 }; // 68 bytes are not printable
static uint16_t to_char[256];
static int16_t to_byte[N_CHARS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
    for (int c = 0; c < N_CHARS; c++)
        to_byte[c] = -1;
    for (int b = 0, next = 0x100; b < 256; b++) {
        to_char[b] = (uint16_t)(printable(b) ? b : next++);
        to_byte[to_char[b]] = (int16_t)b;
    }
}

uint32_t byte_char(int byte) {
    pthread_once(&once, fill);
    return to_char[byte];
}

int char_byte(uint32_t cp) {
    pthread_once(&once, fill);
    return cp < N_CHARS ? to_byte[cp] : -1;
}

str_view byte_names(arena *a, const char *p, size_t n) {
    str text = {0};
    for (size_t i = 0; i < n; i++) {
        unsigned char bytes[4];
        str_add(&text, bytes, (size_t)utf8_put(byte_char((unsigned char)p[i]), bytes));
    }
    const str_view out = {arena_strndup(a, text.p, text.n), text.n};
    str_free(&text);
    return out;
}

int64_t utf8_sanitize(const void *text, size_t n_bytes, str *out) {
    const unsigned char *rest = text;
    int64_t bad = 0;
    while (n_bytes) {
        size_t ok = utf8_valid_prefix(rest, n_bytes);
        str_add(out, rest, ok);
        rest += ok;
        n_bytes -= ok;
        if (!n_bytes) break;
        // Skip the maximal part of an ill-formed sequence (Unicode 15, section 3.9, table 3-8).
        size_t skip = 1;
        if (rest[0] >= 0xC2 && rest[0] <= 0xF4) {
            size_t want = rest[0] < 0xE0 ? 2 : rest[0] < 0xF0 ? 3 : 4;
            unsigned char lo = rest[0] == 0xE0 ? 0xA0 : rest[0] == 0xF0 ? 0x90 : 0x80;
            unsigned char hi = rest[0] == 0xED ? 0x9F : rest[0] == 0xF4 ? 0x8F : 0xBF;
            while (skip < want && skip < n_bytes && rest[skip] >= lo && rest[skip] <= hi)
                skip++, lo = 0x80, hi = 0xBF;
        }
        str_puts(out, "\xEF\xBF\xBD");
        bad++;
        rest += skip;
        n_bytes -= skip;
    }
    return bad;
}
