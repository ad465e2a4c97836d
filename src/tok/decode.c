// Ids -> text.
#include <stdio.h>
#include <string.h>

#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The byte that a token like "<0x0A>" stands for, -1: another token.
static int fallback_byte(const tokenizer *t, int32_t id, const char *p, size_t n) {
    if (t->byte_level || n != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>') return -1;
    const int high = hex_digit(p[3]), low = hex_digit(p[4]);
    return high >= 0 && low >= 0 && t->byte_id[16 * high + low] == id ? 16 * high + low : -1;
}

// The bytes of one id.
static void add_id(const tokenizer *t, int32_t id, str *out) {
    if (id < 0 || id >= t->n_vocab || !t->bytes[id]) return;
    const char *p = (const char *)t->bytes[id];
    const size_t n = (size_t)t->n_bytes[id];
    const int byte = fallback_byte(t, id, p, n);
    if (byte >= 0)
        str_add(out, &(char){(char)byte}, 1);
    else
        str_add(out, p, n);
}

void tokenizer_decode(const tokenizer *t, const int32_t *ids, int64_t n, bool skip_special,
        str *out) {
    str raw = {0};
    for (int64_t i = 0; i < n; i++) {
        bool special = ids[i] >= 0 && ids[i] < t->n_vocab && t->is_special[ids[i]];
        if (!(special && skip_special)) add_id(t, ids[i], &raw);
    }
    size_t skip = t->strip_space && raw.n && raw.p[0] == ' ';
    if (raw.n) utf8_sanitize(raw.p + skip, raw.n - skip, out);
    str_free(&raw);
}

void stream_decoder_add(stream_decoder *d, int32_t id, str *out) {
    add_id(d->t, id, &d->pending);
    size_t skip = !d->started && d->t->strip_space && d->pending.n && d->pending.p[0] == ' ';
    // Keep back up to 3 bytes of a character that is not complete yet.
    const unsigned char *p = (const unsigned char *)d->pending.p + skip;
    size_t n = d->pending.n - skip, whole = n;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = p[n - back];
        if (c < 0x80) break;
        if (c >= 0xC0) {
            size_t want = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
            if (want > back) whole = n - back;
            break;
        }
    }
    if (whole) {
        utf8_sanitize(p, whole, out);
        d->started = true;
    }
    size_t rest = n - whole;
    if (rest) memmove(d->pending.p, p + whole, rest);
    d->pending.n = rest;
}

// --- for messages
enum { TEXT_RING = 8, TEXT_BYTES = 64 };

const char *tokenizer_token_text(const tokenizer *t, int32_t id) {
    static _Thread_local char ring[TEXT_RING][TEXT_BYTES];
    static _Thread_local unsigned next;
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].id == id) return t->added[i].name;
    if (id < 0 || id >= t->n_vocab || !t->bytes[id]) return "?";
    char *out = ring[next++ % TEXT_RING];
    const unsigned char *p = t->bytes[id], *end = p + t->n_bytes[id];
    size_t n = 0;
    while (p < end && n + 8 < TEXT_BYTES) {
        size_t k = utf8_valid_prefix(p, (size_t)(end - p) < 4 ? (size_t)(end - p) : 4);
        if (k && *p >= ' ' && *p != 0x7F) { // the first character of what is text
            const unsigned char *after = p;
            utf8_next(&after);
            k = (size_t)(after - p);
            memcpy(out + n, p, k);
            n += k;
            p = after;
        } else {
            n += (size_t)snprintf(out + n, TEXT_BYTES - n, "\\x%02X", *p++);
        }
    }
    snprintf(out + n, TEXT_BYTES - n, "%s", p < end ? "..." : "");
    return out;
}
