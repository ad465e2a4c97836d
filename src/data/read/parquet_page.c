// Codecs, integers in runs and deltas, and byte arrays of one Parquet page.
#include "data/read/parquet_page.h"

#include <lz4.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/arena.h"
#include "base/library.h"
#include "data/read/parquet_schema.h"

void page_values_free(page_values *v) {
    free(v->v);
    free(v->joined);
    *v = (page_values){0};
}

// --- codecs
static bool gunzip(const unsigned char *p, size_t n, unsigned char *out, size_t n_out) {
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 32) != Z_OK) return false;
    z.next_in = (Bytef *)(uintptr_t)p; // zlib does not write there
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)n_out;
    int code;
    do { // one member after the other
        code = inflate(&z, Z_FINISH);
        if (code == Z_STREAM_END && z.avail_in && z.avail_out) inflateReset(&z);
    } while (code == Z_STREAM_END && z.avail_in && z.avail_out);
    inflateEnd(&z);
    return code == Z_STREAM_END && z.avail_out == 0;
}

// snappy is opened at the first page that is packed with it.
static struct { __typeof__(snappy_uncompress) *uncompress; } table;
static const library_call call = {"snappy_uncompress", 0};
static library snappy = {.file = LIBRARY_FILE, .calls = &call, .n_calls = 1, .table = &table};

const char *page_lacks(int codec) {
    return codec != CODEC_SNAPPY || library_ready(&snappy) ? NULL : snappy.why;
}

static const char *unsnap(const unsigned char *p, size_t n, unsigned char *out, size_t n_out) {
    size_t k = n_out;
    if (page_lacks(CODEC_SNAPPY)) return snappy.why;
    const bool good = table.uncompress((const char *)p, n, (char *)out, &k) == SNAPPY_OK;
    return good && k == n_out ? NULL : "broken snappy";
}

const char *page_unpack(int codec, const unsigned char *packed, size_t n_packed, unsigned char *out,
        size_t n_out) {
    size_t k = n_out;
    switch (codec) {
    case CODEC_NONE:
        if (n_packed != n_out) return "an uncompressed page whose size is not what its header says";
        memcpy(out, packed, n_packed);
        return NULL;
    case CODEC_SNAPPY:
        return unsnap(packed, n_packed, out, n_out);
    case CODEC_GZIP:
        return gunzip(packed, n_packed, out, n_out) ? NULL : "broken gzip";
    case CODEC_ZSTD:
        k = ZSTD_decompress(out, n_out, packed, n_packed);
        return !ZSTD_isError(k) && k == n_out ? NULL : "broken zstd";
    case CODEC_LZ4_RAW:
        if (n_packed > INT32_MAX || n_out > INT32_MAX) return "an LZ4 page that is too large";
        return LZ4_decompress_safe((const char *)packed, (char *)out, (int)n_packed, (int)n_out) ==
                               (int)n_out
                       ? NULL
                       : "broken LZ4_RAW";
    case CODEC_LZO:
        return "compression LZO is not supported (none, snappy, gzip, zstd and LZ4_RAW are)";
    case CODEC_BROTLI:
        return "compression brotli is not supported (none, snappy, gzip, zstd and LZ4_RAW are)";
    case CODEC_LZ4_HADOOP:
        return "compression LZ4 in Hadoop's frames is not supported (LZ4_RAW is)";
    default:
        return "an unknown compression";
    }
}

// --- integers
// Returns the `bits` bits from bit `at` on, the lowest first.
static uint64_t take_bits(const unsigned char *p, uint64_t at, int bits) {
    uint64_t v = 0;
    for (int got = 0; got < bits;) {
        const uint64_t b = at + (uint64_t)got;
        const int here = 8 - (int)(b % 8), k = here < bits - got ? here : bits - got;
        v |= (uint64_t)(p[b / 8] >> b % 8 & ((1 << k) - 1)) << got;
        got += k;
    }
    return v;
}

bool page_hybrid(const unsigned char *coded, size_t n_coded, int bits, uint32_t *out,
        int64_t n_out) {
    thrift in = {.p = coded, .end = coded + n_coded};
    const size_t value_bytes = (size_t)(bits + 7) / 8;
    for (int64_t i = 0; i < n_out;) {
        const uint64_t head = thrift_varint(&in), left = (uint64_t)(n_out - i);
        const size_t rest = (size_t)(in.end - in.p);
        if (in.bad || head >> 1 == 0) return false;
        if (head & 1) { // groups of eight, bit-packed
            const uint64_t groups = head >> 1, want = groups * 8 < left ? groups * 8 : left;
            if (groups > UINT32_MAX || (want * (uint64_t)bits + 7) / 8 > rest) return false;
            for (uint64_t k = 0; k < want; k++)
                out[i + (int64_t)k] = (uint32_t)take_bits(in.p, k * (uint64_t)bits, bits);
            const uint64_t bytes = groups * (uint64_t)bits;
            in.p += bytes < rest ? bytes : rest;
            i += (int64_t)want;
        } else { // a run of one value
            if (value_bytes > rest) return false;
            const uint32_t v = (uint32_t)take_bits(in.p, 0, bits);
            in.p += value_bytes;
            for (uint64_t k = head >> 1; k && i < n_out; k--)
                out[i++] = v;
        }
    }
    return true;
}

typedef struct delta_state { // DELTA_BINARY_PACKED: each value is the one before, the least delta
                             // of its block and an offset
    int64_t value, min_delta;
    int64_t *out;
    int64_t i, n;
} delta_state;

// Reads n_values offsets of `bits` bits, or as many as are still needed, and skips the others.
static bool delta_mini_block(thrift *in, int bits, int64_t n_values, delta_state *d) {
    const uint64_t bytes = (uint64_t)n_values * (uint64_t)bits / 8;
    if (bits > 64 || bytes > (uint64_t)(in->end - in->p)) return false;
    for (int64_t k = 0; k < n_values && d->i < d->n; k++) {
        const uint64_t offset = take_bits(in->p, (uint64_t)k * (uint64_t)bits, bits);
        d->value = (int64_t)((uint64_t)d->value + (uint64_t)d->min_delta + offset);
        d->out[d->i++] = d->value;
    }
    in->p += bytes;
    return true;
}

// Reads the n values that the page must contain.
static bool delta_ints(thrift *in, int64_t *out, int64_t n) {
    const uint64_t block = thrift_varint(in), minis = thrift_varint(in), total = thrift_varint(in);
    delta_state d = {.value = thrift_int(in), .out = out, .n = n};
    if (in->bad || total != (uint64_t)n || minis == 0 || minis > 1024 || block % minis ||
            block / minis % 8 || block == 0 || block > 1 << 20)
        return false;
    if (n > 0) d.out[d.i++] = d.value;
    while (d.i < n) {
        d.min_delta = thrift_int(in);
        const unsigned char *widths = in->p;
        if (in->bad || (uint64_t)(in->end - in->p) < minis) return false;
        in->p += minis;
        for (uint64_t m = 0; m < minis && d.i < n; m++)
            if (!delta_mini_block(in, widths[m], (int64_t)(block / minis), &d)) return false;
    }
    return true;
}

// --- byte arrays
static bool plain(const unsigned char *p, size_t n_bytes, int64_t n, byte_array *out) {
    const unsigned char *end = p + n_bytes;
    for (int64_t i = 0; i < n; i++) {
        uint32_t k;
        if (end - p < 4) return false;
        memcpy(&k, p, 4);
        p += 4;
        if (k > (size_t)(end - p)) return false;
        out[i] = (byte_array){p, k};
        p += k;
    }
    return true;
}

static bool delta_length(thrift *in, int64_t n, int64_t *lengths, byte_array *out) {
    if (!delta_ints(in, lengths, n)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (lengths[i] < 0 || lengths[i] > in->end - in->p) return false;
        out[i] = (byte_array){in->p, (uint32_t)lengths[i]};
        in->p += lengths[i];
    }
    return true;
}

// Makes room for values that do not lie in the page as they are.
static unsigned char *room_to_join(page_values *values, size_t n) {
    if (n > values->cap_joined) {
        free(values->joined);
        values->joined = mem_alloc(values->cap_joined = n);
    }
    return values->joined;
}

// Each value consists of the first bytes of the previous one and a suffix.
static bool join_prefixes(const int64_t *prefix, int64_t n_values, page_values *suffixes,
        byte_array *out) {
    size_t total = 0, before = 0;
    for (int64_t i = 0; i < n_values; i++) {
        if (prefix[i] < 0 || (uint64_t)prefix[i] > before) return false;
        before = (size_t)prefix[i] + out[i].n;
        total += before;
        if (before > UINT32_MAX || total > (size_t)1 << 31) return false;
    }
    unsigned char *to = room_to_join(suffixes, total);
    for (int64_t i = 0; i < n_values; i++) {
        const size_t n = (size_t)prefix[i];
        if (n) memcpy(to, out[i - 1].p, n);
        if (out[i].n) memcpy(to + n, out[i].p, out[i].n);
        out[i] = (byte_array){to, (uint32_t)n + out[i].n};
        to += out[i].n;
    }
    return true;
}

const char *page_byte_arrays(int encoding, const unsigned char *bytes, size_t n_bytes,
        int64_t n_values, page_values *out) {
    // Each has its length before it: room is made for as many as there can be.
    if (encoding == PARQUET_PLAIN && (uint64_t)n_values > n_bytes / sizeof(uint32_t))
        return "values that do not fit the page";
    MEM_GROW(out->v, out->n + n_values, out->cap);
    byte_array *to = out->v + out->n;
    thrift in = {.p = bytes, .end = bytes + n_bytes};
    bool ok = false;
    if (encoding == PARQUET_PLAIN) {
        ok = plain(bytes, n_bytes, n_values, to);
    } else if (encoding == PARQUET_DELTA_LENGTH || encoding == PARQUET_DELTA_BYTE_ARRAY) {
        int64_t *lengths = mem_alloc(sizeof *lengths * (size_t)(2 * n_values + 1));
        if (encoding == PARQUET_DELTA_LENGTH)
            ok = delta_length(&in, n_values, lengths, to);
        else
            ok = delta_ints(&in, lengths, n_values) &&
                 delta_length(&in, n_values, lengths + n_values, to) &&
                 join_prefixes(lengths, n_values, out, to);
        free(lengths);
    } else {
        return "an encoding that byte arrays do not have";
    }
    out->n += ok ? n_values : 0;
    return ok ? NULL : "values that do not fit the page";
}

// --- numbers
static bool split_streams(const unsigned char *p, size_t n_bytes, size_t width, size_t n,
        page_values *out) {
    if (n_bytes / width < n) return false;
    unsigned char *to = room_to_join(out, n * width + 1);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            to[i * width + k] = p[k * n + i];
    return true;
}

static bool delta_numbers(const unsigned char *p, size_t n_bytes, size_t width, int64_t n,
        page_values *out) {
    thrift in = {.p = p, .end = p + n_bytes};
    int64_t *numbers = mem_alloc(sizeof *numbers * (size_t)(n + 1));
    const bool ok = delta_ints(&in, numbers, n);
    unsigned char *to = room_to_join(out, (size_t)n * width + 1);
    for (int64_t i = 0; ok && i < n; i++)
        memcpy(to + (size_t)i * width, &numbers[i], width);
    free(numbers);
    return ok;
}

// A bit each, or runs with the number of their bytes in front.
static bool booleans(int encoding, const unsigned char *p, size_t n_bytes, int64_t n,
        page_values *out) {
    unsigned char *to = room_to_join(out, (size_t)n + 1);
    if (encoding == PARQUET_PLAIN) {
        if ((uint64_t)n > (uint64_t)n_bytes * 8) return false;
        for (int64_t i = 0; i < n; i++)
            to[i] = p[i / 8] >> i % 8 & 1;
        return true;
    }
    uint32_t n_coded, *bits;
    if (n_bytes < sizeof n_coded) return false;
    memcpy(&n_coded, p, sizeof n_coded);
    if (n_coded > n_bytes - sizeof n_coded) return false;
    bits = mem_alloc(sizeof *bits * (size_t)(n + 1));
    const bool ok = page_hybrid(p + sizeof n_coded, n_coded, 1, bits, n);
    for (int64_t i = 0; ok && i < n; i++)
        to[i] = bits[i] != 0;
    free(bits);
    return ok;
}

const char *page_numbers(int type, int encoding, const unsigned char *bytes, size_t n_bytes,
        int64_t n_values, page_values *out) {
    const size_t width = type == PARQUET_BOOLEAN                          ? 1
                         : type == PARQUET_INT32 || type == PARQUET_FLOAT ? 4
                                                                          : 8;
    const bool is_whole = type == PARQUET_INT32 || type == PARQUET_INT64;
    bool ok = true;
    if (type == PARQUET_BOOLEAN && (encoding == PARQUET_PLAIN || encoding == PARQUET_RLE))
        ok = booleans(encoding, bytes, n_bytes, n_values, out);
    else if (type != PARQUET_BOOLEAN && encoding == PARQUET_PLAIN)
        ok = (uint64_t)n_values <= n_bytes / width;
    else if (type != PARQUET_BOOLEAN && encoding == PARQUET_BYTE_STREAM_SPLIT)
        ok = split_streams(bytes, n_bytes, width, (size_t)n_values, out);
    else if (is_whole && encoding == PARQUET_DELTA_BINARY)
        ok = delta_numbers(bytes, n_bytes, width, n_values, out);
    else
        return "an encoding that numbers do not have";
    if (!ok) return "values that do not fit the page";
    const unsigned char *from =
            encoding == PARQUET_PLAIN && type != PARQUET_BOOLEAN ? bytes : out->joined;
    MEM_GROW(out->v, out->n + n_values, out->cap);
    for (int64_t i = 0; i < n_values; i++)
        out->v[out->n++] = (byte_array){from + (size_t)i * width, (uint32_t)width};
    return NULL;
}
