// String functions that methods and filters share: code points, white space, searching, replacing.
#include <string.h>
#include <utf8proc.h>

#include "chat/jinja_text_internal.h"

bool text_is_space(utf8proc_int32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
    const utf8proc_property_t *p = utf8proc_get_property(c);
    return p->category == UTF8PROC_CATEGORY_ZS || p->category == UTF8PROC_CATEGORY_ZL ||
           p->category == UTF8PROC_CATEGORY_ZP || c == 0x85;
}

utf8proc_int32_t text_char_at(const char *p, size_t n, size_t *length) {
    utf8proc_int32_t c = 0;
    *length = 1;
    if (n && (unsigned char)*p < 0x80) return *p; // fast: a trim may read megabytes
    const utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &c);
    *length = k > 0 ? (size_t)k : 1;
    return k > 0 ? c : 0xFFFD;
}

size_t text_char_before(const char *p, size_t n) {
    do
        n--;
    while (n > 0 && ((unsigned char)p[n] & 0xC0) == 0x80);
    return n;
}

bool text_strips(const char *p, size_t n, const value *chars) {
    size_t length;
    if (!chars) return text_is_space(text_char_at(p, n, &length));
    text_char_at(p, n, &length);
    for (size_t i = 0, k; i < chars->s.n; i += k) {
        text_char_at(chars->s.p + i, chars->s.n - i, &k);
        if (k == length && memcmp(chars->s.p + i, p, k) == 0) return true;
    }
    return false;
}

bool text_ends_line(const char *p, const char *end, size_t *n) {
    size_t k;
    const utf8proc_int32_t c = text_char_at(p, (size_t)(end - p), &k);
    *n = c == '\r' && p + 1 < end && p[1] == '\n' ? 2 : k;
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

value text_strip(const value *v, const value *chars, bool left, bool right) {
    const char *p = v->s.p;
    size_t n = v->s.n, k;
    while (left && n && text_strips(p, n, chars)) {
        text_char_at(p, n, &k);
        p += k;
        n -= k;
    }
    while (right && n && text_strips(p + text_char_before(p, n), n - text_char_before(p, n), chars))
        n = text_char_before(p, n);
    return value_slice(p, n);
}

size_t text_encode(int64_t code, char out[5]) {
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
    const utf8proc_ssize_t n =
            utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
    out[n] = 0;
    return (size_t)n;
}

const char *text_find(const char *p, size_t n, const value *what) {
    return what->s.n == 0 ? p : n ? memmem(p, n, what->s.p, what->s.n) : NULL;
}

drv_status text_replace(jinja_context *c, const value *self, const value *from, const value *to,
        int64_t most, value *out) {
    str text = {0};
    const char *rest = self->s.p, *end = rest + self->s.n;
    DRV_TRY(jinja_charge(c, (int64_t)self->s.n / 16));
    for (int64_t n = 0; most < 0 || n < most; n++) {
        const char *hit = text_find(rest, (size_t)(end - rest), from);
        if (!hit) break;
        str_add(&text, rest, (size_t)(hit - rest));
        str_add(&text, to->s.p, to->s.n);
        if (text.n > JINJA_MAX_OUTPUT) {
            str_free(&text);
            return drv_fail(DRV_E_DATA, "replace makes a text of more than %s",
                    str_bytes(JINJA_MAX_OUTPUT));
        }
        rest = hit + from->s.n;
        if (from->s.n) continue;
        if (rest == end) break;
        size_t k; // the empty text is found before each character, and at the end
        text_char_at(rest, (size_t)(end - rest), &k);
        str_add(&text, rest, k);
        rest += k;
    }
    str_add(&text, rest, (size_t)(end - rest));
    return jinja_take(c, &text, out);
}
