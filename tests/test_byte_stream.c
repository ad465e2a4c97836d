// Packed streams as RFC 1952 and RFC 8878 allow them, put together by hand: members and frames one
// after the other, windows of every size, frames that are passed over, zeros after the last member;
// by an ending, without one, and by a pipe.
#include "harness.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "data/read/byte_stream.h"

static uint64_t draw(uint64_t *seed, uint64_t below) {
    const double x = (noise(*seed, 0) + 1) / 2;
    ++*seed;
    return (uint64_t)(x * (double)below) % below;
}

static void add_le(str *out, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++)
        str_add(out, &(char){(char)(x >> 8 * i)}, 1);
}

// A member whose one block is stored.
static void add_member(str *out, const char *text, size_t n) {
    str_add(out, "\x1F\x8B\x08\0\0\0\0\0\0\x03\x01", 11);
    add_le(out, n, 2);
    add_le(out, ~n, 2);
    str_add(out, text, n);
    add_le(out, crc32(0, (const Bytef *)text, (uInt)n), 4);
    add_le(out, n, 4);
}

// A frame with one raw block and a window of 2^log bytes, whose own size it does not say.
static void add_frame(str *out, const char *text, size_t n, int log) {
    add_le(out, 0xFD2FB528, 4);
    add_le(out, 0, 1);
    add_le(out, (uint64_t)(log - 10) << 3, 1);
    add_le(out, n << 3 | 1, 3);
    str_add(out, text, n);
}

static void add_skipped(str *out, uint64_t *seed) {
    const uint64_t n = draw(seed, 40);
    add_le(out, 0x184D2A50 + draw(seed, 16), 4);
    add_le(out, n, 4);
    for (uint64_t i = 0; i < n; i++)
        add_le(out, draw(seed, 256), 1);
}

static void make(uint64_t *seed, bool zstd, str *packed, str *text) {
    const uint64_t parts = 1 + draw(seed, 4);
    for (uint64_t i = 0; i < parts; i++) {
        char line[64];
        const size_t n = draw(seed, 60);
        memset(line, (int)('a' + draw(seed, 26)), n);
        if (zstd && draw(seed, 3) == 0) add_skipped(packed, seed);
        if (zstd)
            add_frame(packed, line, n, 10 + (int)draw(seed, 20));
        else
            add_member(packed, line, n);
        str_add(text, line, n);
        for (uint64_t k = zstd || draw(seed, 2) ? 0 : draw(seed, 700); k > 0; k--)
            str_add(packed, "", 1);
    }
    if (zstd && draw(seed, 3) == 0) add_skipped(packed, seed);
}

static drv_status read_all(const input_file *file, str *out) {
    byte_stream *stream;
    char some[48];
    size_t got = 1;
    DRV_TRY(byte_stream_open(file, false, &stream));
    drv_status status = DRV_OK;
    while (status == DRV_OK && got) {
        status = byte_stream_read(stream, some, sizeof some, &got);
        if (status == DRV_OK) str_add(out, some, got);
    }
    byte_stream_close(stream);
    return status;
}

// How a stream is met: by its ending, by its content, as standard input.
enum { BY_ENDING, BY_CONTENT, BY_PIPE, N_WAYS };

static drv_status read_by(int way, const char *path, const str *packed, input_packing packing,
        str *out) {
    input_file file = {.path = path, .name = "x"};
    if (way == BY_ENDING) file.packing = packing;
    if (way != BY_PIPE) return read_all(&file, out);
    int ends[2];
    const int before = dup(0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], packed->p, packed->n), packed->n); // a pipe holds 64 KiB
    close(ends[1]);
    dup2(ends[0], 0);
    close(ends[0]);
    file.path = "-";
    const drv_status status = read_all(&file, out);
    dup2(before, 0);
    close(before);
    return status;
}

TEST(as_they_were_packed) {
    const char *path = path_join(a, temporary_dir(a), "x");
    uint64_t seed = 1;
    for (int i = 0; i < 300; i++) {
        str packed = {0}, text = {0};
        const bool zstd = i % 2;
        make(&seed, zstd, &packed, &text);
        OK(file_write_atomic(path, packed.p, packed.n));
        for (int way = 0; way < N_WAYS; way++) {
            str got = {0};
            OK(read_by(way, path, &packed, zstd ? PACKED_ZSTD : PACKED_GZIP, &got));
            assert_int_equal(got.n, text.n);
            if (text.n) assert_memory_equal(got.p, text.p, text.n);
            str_free(&got);
        }
        str_free(&packed);
        str_free(&text);
    }
}

TEST(windows_are_read_or_named) {
    const char *path = path_join(a, temporary_dir(a), "x");
    for (int log = 27; log <= 41; log += 2) {
        str packed = {0}, got = {0};
        add_frame(&packed, "text", 4, log);
        OK(file_write_atomic(path, packed.p, packed.n));
        const input_file file = {.path = path, .name = "x", .packing = PACKED_ZSTD};
        const drv_status status = read_all(&file, &got);
        if (log <= 31)
            assert_true(
                    status == DRV_OK || strstr(drv_message(), "not enough memory for the window"));
        else
            assert_true(status == DRV_E_DATA && strstr(drv_message(), "of more than 2 GiB"));
        str_free(&packed);
        str_free(&got);
    }
}
