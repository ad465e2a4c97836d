#include "data/read/byte_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { PACKED_BYTES = 1 << 18 };

struct byte_stream {
    const input_file *f;
    int fd;
    z_stream gzip;
    ZSTD_DStream *zstd;
    char *packed; // read but not yet unpacked
    size_t n, at;
    bool inside; // of a gzip member or zstd frame
    int64_t where;
};

drv_status byte_stream_open(const input_file *f, byte_stream **out) {
    const bool standard = strcmp(f->path, "-") == 0;
    const int fd = standard ? dup(0) : open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return drv_fail(DRV_E_IO, "could not open \"%s\": %s", f->path, strerror(errno));
    byte_stream *s = mem_alloc(sizeof *s);
    *s = (byte_stream){.f = f, .fd = fd};
    if (f->packing == PACKED_ZSTD) s->zstd = ZSTD_createDStream();
    if (f->packing == PACKED_GZIP) // 15 + 32: the largest window, gzip or zlib header
        DRV_ASSERT(inflateInit2(&s->gzip, 15 + 32) == Z_OK, "zlib");
    if (f->packing != PACKED_NOT) s->packed = mem_alloc(PACKED_BYTES);
    *out = s;
    return DRV_OK;
}

void byte_stream_close(byte_stream *s) {
    if (!s) return;
    close(s->fd);
    ZSTD_freeDStream(s->zstd);
    if (s->f->packing == PACKED_GZIP) inflateEnd(&s->gzip);
    free(s->packed);
    free(s);
}

static drv_status read_plain(byte_stream *s, char *p, size_t n, size_t *got) {
    ssize_t k;
    do
        k = read(s->fd, p, n);
    while (k < 0 && errno == EINTR);
    if (k < 0) return drv_fail(DRV_E_IO, "could not read \"%s\": %s", s->f->path, strerror(errno));
    s->where += k;
    *got = (size_t)k;
    return DRV_OK;
}

static drv_status broken(const byte_stream *s, const char *why) {
    return drv_fail(DRV_E_DATA, "\"%s\": broken %s before byte %lld: %s", s->f->path,
            s->f->packing == PACKED_GZIP ? "gzip" : "zstd", (long long)s->where, why);
}

// One call of the library on what is there.
static drv_status unpack_gzip(byte_stream *s, char *p, size_t n, size_t *got) {
    z_stream *z = &s->gzip;
    z->next_in = (Bytef *)s->packed + s->at;
    z->avail_in = (uInt)(s->n - s->at);
    z->next_out = (Bytef *)p;
    z->avail_out = (uInt)n;
    const int code = inflate(z, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return broken(s, z->msg ? z->msg : "not valid");
    s->at = s->n - z->avail_in;
    s->inside = code != Z_STREAM_END;
    if (code == Z_STREAM_END) inflateReset(z); // another member may follow
    *got = n - z->avail_out;
    return DRV_OK;
}

static drv_status unpack_zstd(byte_stream *s, char *p, size_t n, size_t *got) {
    ZSTD_outBuffer out = {p, n, 0};
    ZSTD_inBuffer in = {s->packed, s->n, s->at};
    const size_t left = ZSTD_decompressStream(s->zstd, &out, &in);
    if (ZSTD_isError(left)) return broken(s, ZSTD_getErrorName(left));
    s->at = in.pos;
    s->inside = left != 0;
    *got = out.pos;
    return DRV_OK;
}

drv_status byte_stream_read(byte_stream *s, char *p, size_t n, size_t *got) {
    if (s->f->packing == PACKED_NOT) return read_plain(s, p, n, got);
    if (n > 1 << 30) n = 1 << 30;
    *got = 0;
    while (*got == 0) {
        if (s->at == s->n) {
            DRV_TRY(read_plain(s, s->packed, PACKED_BYTES, &s->n));
            s->at = 0;
        }
        if (s->n == 0) return s->inside ? broken(s, "the file is cut short") : DRV_OK;
        DRV_TRY(s->f->packing == PACKED_GZIP ? unpack_gzip(s, p, n, got)
                                             : unpack_zstd(s, p, n, got));
    }
    return DRV_OK;
}

int64_t byte_stream_where(const byte_stream *s) {
    return s->where;
}
