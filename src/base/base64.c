// Four characters at a time.
#include "base/base64.h"

static int value_of(char c) { // -1: no character of the alphabet
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(const char *text, size_t n, str *out) {
    if (n % 4) return false;
    for (size_t i = 0; i < n; i += 4) {
        int n_pad = 0;
        uint32_t bits = 0;
        while (i + 4 == n && n_pad < 2 && text[i + 3 - (size_t)n_pad] == '=')
            n_pad++;
        for (int k = 0; k < 4; k++) {
            const int value = k < 4 - n_pad ? value_of(text[i + (size_t)k]) : 0;
            if (value < 0) return false;
            bits = bits << 6 | (uint32_t)value;
        }
        const char bytes[3] = {(char)(bits >> 16), (char)(bits >> 8), (char)bits};
        if (bits & ((1u << 8 * n_pad) - 1)) return false; // bits beyond the last byte
        str_add(out, bytes, (size_t)(3 - n_pad));
    }
    return true;
}

void base64_encode(const void *bytes, size_t n, str *out) {
    static const char alphabet[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    str_reserve(out, n / 3 * 4 + 4);
    for (size_t i = 0; i < n; i += 3) {
        const size_t k = n - i < 3 ? n - i : 3;
        const uint32_t bits = (uint32_t)p[i] << 16 | (k > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                              (k > 2 ? p[i + 2] : 0);
        const char four[4] = {alphabet[bits >> 18], alphabet[bits >> 12 & 63],
                k > 1 ? alphabet[bits >> 6 & 63] : '=', k > 2 ? alphabet[bits & 63] : '='};
        str_add(out, four, 4);
    }
}
