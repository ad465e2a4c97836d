// Reads a file, and decompresses it with zlib or zstd. Keeps the bytes that detecting the
// compression has read.
#include "data/read/byte_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/file.h"

enum { RAW_BYTES = 1 << 18 };
// The longest window that the zstd tool writes (--long=31); its memory is that of the text that
// lies in it.
enum { MAX_WINDOW_LOG = 31 };

struct byte_stream {
    const input_file *f;
    input_packing packing;
    int fd;
    z_stream gzip;
    ZSTD_DStream *zstd;
    char *raw; // as read, not yet handed out or unpacked
    size_t n, at;
    bool inside; // of a gzip member or zstd frame
    bool ended;  // a gzip member is behind
    int64_t where;
};

static drv_status read_file(byte_stream *s, char *p, size_t n, size_t *got) {
    ssize_t k;
    do
        k = read(s->fd, p, n);
    while (k < 0 && errno == EINTR);
    if (k < 0) return file_fail("read", s->f->name);
    s->where += k;
    *got = (size_t)k;
    return DRV_OK;
}

// Returns whether it is a skippable frame (RFC 8878, 3.1.2), with which files of pzstd begin.
static bool is_skippable_frame(const char *p) {
    return (p[0] & 0xF0) == 0x50 && memcmp(p + 1, "\x2A\x4D\x18", 3) == 0;
}

// Detects the compression by the extension, or else by the first bytes.
static drv_status find_packing(byte_stream *s) {
    static const unsigned char gzip[] = {0x1F, 0x8B, 8}, zstd[] = {0x28, 0xB5, 0x2F, 0xFD};
    s->packing = s->f->packing;
    if (s->packing != PACKED_NOT) return DRV_OK;
    for (size_t got = 1; s->n < sizeof zstd && got;) {
        DRV_TRY(read_file(s, s->raw + s->n, RAW_BYTES - s->n, &got));
        s->n += got;
    }
    if (s->n >= sizeof gzip && memcmp(s->raw, gzip, sizeof gzip) == 0) s->packing = PACKED_GZIP;
    if (s->n >= sizeof zstd && memcmp(s->raw, zstd, sizeof zstd) == 0) s->packing = PACKED_ZSTD;
    if (s->n >= sizeof zstd && is_skippable_frame(s->raw)) s->packing = PACKED_ZSTD;
    return DRV_OK;
}

static void begin_unpacking(byte_stream *s) {
    static const char state[] = "the state of a decoder, some KiB";
    if (s->packing == PACKED_ZSTD) {
        s->zstd = ZSTD_createDStream();
        DRV_MEMORY(s->zstd, state);
        ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, MAX_WINDOW_LOG);
    }
    if (s->packing == PACKED_GZIP) // 15 + 32: the largest window, gzip or zlib header
        DRV_MEMORY(inflateInit2(&s->gzip, 15 + 32) == Z_OK, state);
}

drv_status byte_stream_open(const input_file *file, bool as_is, byte_stream **out) {
    const bool standard = strcmp(file->path, "-") == 0;
    const int fd = standard ? dup(0) : open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return file_fail("open", file->name);
    byte_stream *s = mem_alloc(sizeof *s);
    *s = (byte_stream){.f = file, .packing = file->packing, .fd = fd, .raw = mem_alloc(RAW_BYTES)};
    const drv_status status = as_is ? DRV_OK : find_packing(s);
    if (status != DRV_OK) {
        s->packing = PACKED_NOT;
        byte_stream_close(s);
        return status;
    }
    begin_unpacking(s);
    *out = s;
    return DRV_OK;
}

input_packing byte_stream_packing(const byte_stream *s) {
    return s->packing;
}

void byte_stream_close(byte_stream *s) {
    if (!s) return;
    close(s->fd);
    ZSTD_freeDStream(s->zstd);
    if (s->packing == PACKED_GZIP) inflateEnd(&s->gzip);
    free(s->raw);
    free(s);
}

static drv_status broken(const byte_stream *s, const char *why) {
    return drv_fail(DRV_E_DATA, "\"%s\": broken %s before byte %lld: %s", s->f->name,
            s->packing == PACKED_GZIP ? "gzip" : "zstd", (long long)s->where, why);
}

// Calls the library once on the input that is available.
static drv_status unpack_gzip(byte_stream *s, char *p, size_t n, size_t *got) {
    z_stream *z = &s->gzip;
    while (!s->inside && s->ended && s->at < s->n && s->raw[s->at] == 0)
        s->at++; // zeros after a member pad its block on a tape; gzip ignores them too
    if (s->at == s->n) return DRV_OK;
    z->next_in = (Bytef *)s->raw + s->at;
    z->avail_in = (uInt)(s->n - s->at);
    z->next_out = (Bytef *)p;
    z->avail_out = (uInt)n;
    const int code = inflate(z, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return broken(s, z->msg ? z->msg : "not valid");
    s->at = s->n - z->avail_in;
    s->inside = code != Z_STREAM_END;
    s->ended = code == Z_STREAM_END;
    if (s->ended) inflateReset(z); // another member may follow
    *got = n - z->avail_out;
    return DRV_OK;
}

static drv_status refuse_zstd(const byte_stream *s, ZSTD_ErrorCode code) {
    if (code == ZSTD_error_frameParameter_windowTooLarge)
        return drv_fail(DRV_E_DATA,
                "\"%s\": a zstd frame with a window of more than 2 GiB, expected at most the window of zstd --long=31",
                s->f->name);
    if (code == ZSTD_error_memory_allocation)
        return drv_fail(DRV_E_IO,
                "\"%s\": not enough memory for the window of this zstd frame, which was compressed with --long",
                s->f->name);
    return broken(s, ZSTD_getErrorString(code));
}

static drv_status unpack_zstd(byte_stream *s, char *p, size_t n, size_t *got) {
    ZSTD_outBuffer out = {p, n, 0};
    ZSTD_inBuffer in = {s->raw, s->n, s->at};
    const size_t left = ZSTD_decompressStream(s->zstd, &out, &in);
    if (ZSTD_isError(left)) return refuse_zstd(s, ZSTD_getErrorCode(left));
    s->at = in.pos;
    s->inside = left != 0;
    *got = out.pos;
    return DRV_OK;
}

static drv_status read_plain(byte_stream *s, char *p, size_t n, size_t *got) {
    if (s->at == s->n) return read_file(s, p, n, got);
    *got = s->n - s->at < n ? s->n - s->at : n; // what find_packing read
    memcpy(p, s->raw + s->at, *got);
    s->at += *got;
    return DRV_OK;
}

drv_status byte_stream_read(byte_stream *s, char *p, size_t n, size_t *got) {
    if (s->packing == PACKED_NOT) return read_plain(s, p, n, got);
    if (n > 1 << 30) n = 1 << 30;
    *got = 0;
    while (*got == 0) {
        if (s->at == s->n) {
            DRV_TRY(read_file(s, s->raw, RAW_BYTES, &s->n));
            s->at = 0;
        }
        if (s->n == 0) return s->inside ? broken(s, "the file is cut short") : DRV_OK;
        DRV_TRY(s->packing == PACKED_GZIP ? unpack_gzip(s, p, n, got) : unpack_zstd(s, p, n, got));
    }
    return DRV_OK;
}

drv_status byte_stream_read_all(byte_stream *s, char *p, size_t n, size_t *got) {
    size_t more = 1;
    for (*got = 0; *got < n && more; *got += more)
        DRV_TRY(byte_stream_read(s, p + *got, n - *got, &more));
    return DRV_OK;
}

int64_t byte_stream_where(const byte_stream *s) {
    return s->where;
}
