// Decodes ids to text.
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

// Returns the byte for which a token like "<0x0A>" stands, -1 for another token.
static int fallback_byte(const tokenizer *t, const token_bytes *token) {
    const char *p = (const char *)token->p;
    if (!t->decodes_bytes || token->n != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>') return -1;
    const int high = hex_digit(p[3]), low = hex_digit(p[4]);
    return high >= 0 && low >= 0 ? 16 * high + low : -1;
}

static const token_bytes *token_of(const tokenizer *t, int32_t id) {
    return id >= 0 && id < t->n_vocab && t->decoded[id].p ? &t->decoded[id] : NULL;
}

uint64_t tokenizer_texts_hash(const tokenizer *t, int64_t n) {
    str all = {0};
    for (int64_t id = 0; id < n; id++) {
        const token_bytes *token = id < t->n_vocab ? token_of(t, (int32_t)id) : NULL;
        const int32_t bytes = token ? (int32_t)token->n : -1;
        str_add(&all, &bytes, sizeof bytes);
        if (token) str_add(&all, token->p, (size_t)token->n);
    }
    const uint64_t hash = XXH3_64bits(all.p ? all.p : "", all.n);
    str_free(&all);
    return hash;
}

void tokenizer_add_bytes(const tokenizer *tok, int32_t id, str *out) {
    const token_bytes *token = token_of(tok, id);
    if (!token || tok->is_special[id]) return;
    const int byte = fallback_byte(tok, token);
    if (byte < 0)
        str_add(out, token->p, (size_t)token->n);
    else
        str_add(out, &(char){(char)byte}, 1);
}

// Ends a run of byte tokens: replaces each byte by U+FFFD if together they are not valid UTF-8.
static void end_bytes(str *raw, size_t *n_bytes) {
    const size_t n = *n_bytes;
    *n_bytes = 0;
    if (n == 0 || utf8_valid(raw->p + raw->n - n, n)) return;
    raw->n -= n;
    for (size_t i = 0; i < n; i++)
        str_puts(raw, "\xEF\xBF\xBD");
}

void tokenizer_decode(const tokenizer *tok, const int32_t *ids, int64_t n_ids, bool skip_special,
        str *out) {
    str raw = {0};
    size_t n_bytes = 0; // at the end of raw, from byte tokens
    bool first = true;
    for (int64_t i = 0; i < n_ids; i++) {
        const token_bytes *token = token_of(tok, ids[i]);
        if (!token || (skip_special && tok->is_special[ids[i]])) continue;
        if (tok->joins_by_space && !first) str_add(&raw, " ", 1);
        first = false;
        const int byte = fallback_byte(tok, token);
        if (byte < 0) end_bytes(&raw, &n_bytes);
        if (byte < 0)
            str_add(&raw, token->p, (size_t)token->n);
        else
            str_add(&raw, &(char){(char)byte}, 1);
        n_bytes += byte >= 0;
    }
    end_bytes(&raw, &n_bytes);
    const size_t skip = tok->strip_space && raw.n && raw.p[0] == ' ';
    if (raw.n) utf8_sanitize(raw.p + skip, raw.n - skip, out);
    str_free(&raw);
}

void stream_decoder_add(stream_decoder *stream, int32_t id, str *out) {
    const token_bytes *token = token_of(stream->t, id);
    if (!token) return;
    if (stream->t->joins_by_space) {
        if (stream->started) str_add(&stream->pending, " ", 1);
        stream->started = true;
    }
    const int byte = fallback_byte(stream->t, token);
    if (byte < 0)
        str_add(&stream->pending, token->p, (size_t)token->n);
    else
        str_add(&stream->pending, &(char){(char)byte}, 1);
    size_t skip = !stream->started && stream->t->strip_space && stream->pending.n &&
                  stream->pending.p[0] == ' ';
    // Keep back up to 3 bytes of a character that is not complete yet.
    const unsigned char *p = (const unsigned char *)stream->pending.p + skip;
    size_t n = stream->pending.n - skip, whole = n;
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
        stream->started = true;
    }
    size_t rest = n - whole;
    if (rest) memmove(stream->pending.p, p + whole, rest);
    stream->pending.n = rest;
}

// --- for messages
enum { TEXT_RING = 8, TEXT_BYTES = 64 };

const char *tokenizer_token_text(const tokenizer *tok, int32_t id) {
    static _Thread_local char ring[TEXT_RING][TEXT_BYTES];
    static _Thread_local unsigned next;
    for (int i = 0; i < tok->n_added; i++)
        if (tok->added[i].id == id) return tok->added[i].name;
    const token_bytes *token = token_of(tok, id);
    if (!token) return "?";
    char *out = ring[next++ % TEXT_RING];
    const unsigned char *p = token->p, *end = p + token->n;
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
