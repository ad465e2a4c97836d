// Reads the messages of an Arrow stream in order, and the buffers of the current batch.
#include "data/read/arrow_stream.h"

#include <errno.h>
#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/file.h"

// The longest metadata of a message, and the longest decompressed buffer: a few bytes of zstd can
// decompress to any number.
enum { MAX_MESSAGE = 1 << 26, MAX_BUFFER = 1 << 30 };

// Message.fbs: fields of Message, kinds of header, fields of RecordBatch.
enum { MESSAGE_VERSION, MESSAGE_HEADER_KIND, MESSAGE_HEADER, MESSAGE_BODY_BYTES };
enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY = 2, HEADER_RECORD_BATCH = 3 };
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION, BATCH_VIEW_BUFFERS };
enum { DICTIONARY_ID, DICTIONARY_BATCH, DICTIONARY_IS_DELTA };
enum { N_TEXT_BUFFERS = 3 }; // validity, offsets, bytes
enum { CODEC_LZ4_FRAME, CODEC_ZSTD_FRAME };
enum { VERSION_4 = 3 }; // of the metadata; older versions have another layout of buffers

struct arrow_stream {
    const char *path;
    int fd;
    int64_t size, at; // at: of the next message
    arrow_schema schema;
    unsigned char *text; // metadata of the current message
    size_t cap;
    flatbuffer message;
    int64_t n_batches;
    // the current batch
    int64_t body, body_bytes; // in the file
    fb_vector nodes, buffers;
    fb_vector further; // the number of data buffers of each field of views
    int codec;         // -1: none
};

static drv_status read_at(const arrow_stream *stream, void *to, size_t n, int64_t at) {
    const int64_t got = file_read_at(stream->fd, to, (int64_t)n, at);
    if (got == (int64_t)n) return DRV_OK;
    if (errno) return file_fail("read", stream->path);
    return drv_fail(DRV_E_DATA, "%s: it ends at byte %lld, in the middle of an Arrow message",
            stream->path, (long long)(at + got));
}

static drv_status broken(const arrow_stream *stream, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: Arrow record batch %lld: %s", stream->path,
            (long long)stream->n_batches, what);
}

// Reads the length of the next message's metadata, after a marker that older streams lack; 0: the
// end of the stream.
static drv_status read_length(arrow_stream *stream, int64_t *length) {
    unsigned char head[8];
    const flatbuffer words = {.p = head, .n = sizeof head};
    *length = 0;
    if (stream->size - stream->at < 4) return DRV_OK;
    DRV_TRY(read_at(stream, head, 4, stream->at));
    stream->at += 4;
    *length = fb_number_at(&words, 0, 4);
    if (*length == -1) {
        DRV_TRY(read_at(stream, head, 4, stream->at));
        stream->at += 4;
        *length = fb_number_at(&words, 0, 4);
    }
    if (*length >= 0 && *length <= MAX_MESSAGE && *length <= stream->size - stream->at)
        return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: an Arrow message of %lld bytes at byte %lld, expected no more than the file has",
            stream->path, (long long)*length, (long long)stream->at);
}

// Reads the next message: its kind and the table of its header. *kind 0: the end of the stream.
static drv_status next_message(arrow_stream *stream, int64_t *kind, size_t *header) {
    int64_t length;
    *kind = 0;
    DRV_TRY(read_length(stream, &length));
    if (length == 0) return DRV_OK;
    if ((size_t)length > stream->cap) {
        free(stream->text);
        stream->cap = (size_t)length;
        stream->text = mem_alloc(stream->cap);
    }
    DRV_TRY(read_at(stream, stream->text, (size_t)length, stream->at));
    flatbuffer *message = &stream->message;
    *message = (flatbuffer){.p = stream->text, .n = (size_t)length};
    const size_t root = fb_root(message);
    const int64_t version = fb_int(message, root, MESSAGE_VERSION, 2, 0);
    *kind = fb_int(message, root, MESSAGE_HEADER_KIND, 1, 0);
    *header = fb_table(message, root, MESSAGE_HEADER);
    stream->body = stream->at + length;
    stream->body_bytes = fb_int(message, root, MESSAGE_BODY_BYTES, 8, 0);
    if (message->broken || !*header)
        return drv_fail(DRV_E_DATA, "%s: a broken Arrow message at byte %lld", stream->path,
                (long long)stream->at);
    if (version < VERSION_4)
        return drv_fail(DRV_E_DATA, "%s: Arrow metadata of version %lld, expected 4 or 5",
                stream->path, (long long)version + 1);
    if (stream->body_bytes < 0 || stream->body_bytes > stream->size - stream->body)
        return drv_fail(DRV_E_DATA,
                "%s: an Arrow message at byte %lld has a body of %lld bytes, expected no more than the file has",
                stream->path, (long long)stream->at, (long long)stream->body_bytes);
    stream->at = stream->body + stream->body_bytes;
    return DRV_OK;
}

static drv_status read_schema(arena *a, arrow_stream *stream) {
    static const char file_mark[] = "ARROW1\0";
    char mark[8] = "";
    int64_t kind;
    size_t header = 0;
    if (stream->size >= (int64_t)sizeof mark) DRV_TRY(read_at(stream, mark, sizeof mark, 0));
    if (memcmp(mark, file_mark, sizeof mark) == 0) stream->at = sizeof mark;
    DRV_TRY(next_message(stream, &kind, &header));
    if (kind != HEADER_SCHEMA)
        return drv_fail(DRV_E_DATA, "%s: no Arrow stream, expected a schema at its beginning",
                stream->path);
    return arrow_read_schema(a, stream->path, &stream->message, header, &stream->schema);
}

drv_status arrow_stream_open(arena *a, const char *path, arrow_stream **out) {
    arrow_stream *stream = ARENA_NEW(a, arrow_stream);
    *stream = (arrow_stream){.path = arena_strdup(a, path), .fd = -1};
    DRV_TRY(file_open_regular(path, &stream->fd, &stream->size));
    const drv_status status = read_schema(a, stream);
    if (status == DRV_OK)
        *out = stream;
    else
        arrow_stream_close(stream);
    return status;
}

void arrow_stream_close(arrow_stream *stream) {
    if (!stream) return;
    close(stream->fd);
    free(stream->text);
}

const arrow_schema *arrow_stream_schema(const arrow_stream *stream) {
    return &stream->schema;
}

// Counts the buffers that a batch has beyond those of its schema. False: the counts are impossible.
static bool count_further(arrow_stream *stream, int64_t *n) {
    *n = 0;
    if (stream->further.n != stream->schema.n_views) return false;
    for (int64_t i = 0; i < stream->further.n; i++) {
        const int64_t of = fb_number_at(&stream->message, stream->further.at + 8 * (size_t)i, 8);
        if (of < 0 || of > stream->buffers.n) return false;
        *n += of;
    }
    return true;
}

static drv_status open_batch(arrow_stream *stream, size_t header, bool is_dictionary,
        int64_t *rows) {
    flatbuffer *message = &stream->message;
    const int n_nodes = is_dictionary ? 1 : stream->schema.n_nodes,
              n_buffers = is_dictionary ? N_TEXT_BUFFERS : stream->schema.n_buffers;
    int64_t n_further = 0;
    *rows = fb_int(message, header, BATCH_LENGTH, 8, 0);
    stream->nodes = fb_elements(message, header, BATCH_NODES, 16);
    stream->buffers = fb_elements(message, header, BATCH_BUFFERS, 16);
    stream->further = fb_elements(message, header, BATCH_VIEW_BUFFERS, 8);
    const size_t compression = fb_table(message, header, BATCH_COMPRESSION);
    stream->codec = compression ? (int)fb_int(message, compression, 0, 1, CODEC_LZ4_FRAME) : -1;
    if (message->broken || !header) return broken(stream, "an offset leads out of its message");
    if (*rows < 0) return broken(stream, "a negative number of rows");
    if (!is_dictionary && !count_further(stream, &n_further))
        return broken(stream, "other buffers of views than its columns have");
    if (stream->nodes.n != n_nodes || stream->buffers.n != n_buffers + n_further)
        return drv_fail(DRV_E_DATA,
                "%s: Arrow record batch %lld: %lld columns and %lld buffers, expected %d and %lld by the schema",
                stream->path, (long long)stream->n_batches, (long long)stream->nodes.n,
                (long long)stream->buffers.n, n_nodes, (long long)(n_buffers + n_further));
    if (stream->codec > CODEC_ZSTD_FRAME)
        return drv_fail(DRV_E_DATA,
                "%s: Arrow record batch %lld: compression %d, expected LZ4 or zstd", stream->path,
                (long long)stream->n_batches, stream->codec);
    return DRV_OK;
}

static bool has_dictionary(const arrow_stream *stream, int64_t id) {
    for (int i = 1; i < stream->schema.n; i++)
        if (stream->schema.fields[i].coding == ARROW_DICTIONARY &&
                stream->schema.fields[i].dictionary == id)
            return true;
    return false;
}

static drv_status open_dictionary(arrow_stream *stream, size_t header, arrow_batch *out) {
    out->is_delta = fb_int(&stream->message, header, DICTIONARY_IS_DELTA, 1, 0) != 0;
    return open_batch(stream, fb_table(&stream->message, header, DICTIONARY_BATCH), true,
            &out->rows);
}

drv_status arrow_stream_next(arrow_stream *stream, arrow_batch *batch, bool *more) {
    int64_t kind;
    size_t header = 0;
    *more = false;
    for (;;) {
        DRV_TRY(next_message(stream, &kind, &header));
        if (kind == 0) return DRV_OK;
        *batch = (arrow_batch){.is_dictionary = kind == HEADER_DICTIONARY};
        *more = kind == HEADER_RECORD_BATCH;
        stream->n_batches += *more;
        if (*more) return open_batch(stream, header, false, &batch->rows);
        if (kind != HEADER_DICTIONARY) continue;
        batch->dictionary = fb_int(&stream->message, header, DICTIONARY_ID, 8, 0);
        if (!has_dictionary(stream, batch->dictionary)) continue;
        *more = true;
        return open_dictionary(stream, header, batch);
    }
}

int arrow_stream_first_buffer(const arrow_stream *stream, int field, int *n_further) {
    const arrow_field *fields = stream->schema.fields;
    int64_t first = fields[field].buffer, number = 0;
    *n_further = 0;
    for (int i = 1; i <= field; i++) {
        if (!fields[i].has_views) continue;
        const int64_t n =
                fb_number_at(&stream->message, stream->further.at + 8 * (size_t)number++, 8);
        if (i < field)
            first += n;
        else
            *n_further = (int)n;
    }
    return (int)first;
}

drv_status arrow_stream_node(const arrow_stream *stream, int node, arrow_node *out) {
    const size_t at = stream->nodes.at + 16 * (size_t)node;
    *out = (arrow_node){fb_number_at(&stream->message, at, 8),
            fb_number_at(&stream->message, at + 8, 8)};
    if (out->length < 0 || out->nulls < 0 || out->nulls > out->length)
        return broken(stream, "a column of negative length, or with more nulls than values");
    return DRV_OK;
}

static void make_room(arrow_buffer *out, size_t n) {
    if (n > out->cap) {
        free(out->p);
        out->p = mem_alloc(n);
        out->cap = n;
    }
    out->n = n;
}

// False: it is not an LZ4 frame that fits.
static bool unpack_lz4(const unsigned char *packed, size_t n_packed, arrow_buffer *out,
        size_t *made) {
    LZ4F_dctx *lz4;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&lz4, LZ4F_VERSION))) return false;
    size_t left = 1, taken = 0;
    for (*made = 0; left != 0 && !LZ4F_isError(left);) {
        size_t n_in = n_packed - taken, n_out = out->n - *made;
        left = LZ4F_decompress(lz4, out->p + *made, &n_out, packed + taken, &n_in, NULL);
        if (n_in == 0 && n_out == 0) break;
        taken += n_in;
        *made += n_out;
    }
    LZ4F_freeDecompressionContext(lz4);
    return left == 0;
}

static drv_status unpack(const arrow_stream *stream, const unsigned char *packed, size_t n_packed,
        arrow_buffer *out) {
    size_t made = 0;
    if (stream->codec == CODEC_ZSTD_FRAME) {
        made = ZSTD_decompress(out->p, out->n, packed, n_packed);
        if (ZSTD_isError(made)) return broken(stream, "a buffer that zstd does not unpack");
    } else {
        if (!unpack_lz4(packed, n_packed, out, &made))
            return broken(stream, "a buffer that LZ4 does not unpack");
    }
    return made == out->n ? DRV_OK : broken(stream, "a buffer of another length than it says");
}

drv_status arrow_stream_buffer(const arrow_stream *stream, int number, arrow_buffer *out) {
    const size_t entry = stream->buffers.at + 16 * (size_t)number;
    const int64_t at = fb_number_at(&stream->message, entry, 8),
                  bytes = fb_number_at(&stream->message, entry + 8, 8);
    if (at < 0 || bytes < 0 || at > stream->body_bytes || bytes > stream->body_bytes - at)
        return broken(stream, "a buffer outside its body");
    if (stream->codec < 0 || bytes == 0) {
        make_room(out, (size_t)bytes);
        return bytes ? read_at(stream, out->p, (size_t)bytes, stream->body + at) : DRV_OK;
    }
    // The decompressed length comes first; -1: the buffer is not compressed.
    unsigned char head[8];
    if (bytes < 8) return broken(stream, "a packed buffer without its length");
    DRV_TRY(read_at(stream, head, 8, stream->body + at));
    const int64_t whole = fb_number_at(&(flatbuffer){.p = head, .n = 8}, 0, 8);
    if (whole < -1 || whole > MAX_BUFFER)
        return broken(stream, "a packed buffer of more than 1 GiB, or of a length below zero");
    if (whole == -1) {
        make_room(out, (size_t)bytes - 8);
        return read_at(stream, out->p, (size_t)bytes - 8, stream->body + at + 8);
    }
    arrow_buffer packed = {0};
    make_room(&packed, (size_t)bytes - 8);
    make_room(out, (size_t)whole);
    drv_status status = read_at(stream, packed.p, packed.n, stream->body + at + 8);
    if (status == DRV_OK && whole > 0) status = unpack(stream, packed.p, packed.n, out);
    free(packed.p);
    return status;
}

int64_t arrow_stream_batch(const arrow_stream *stream) {
    return stream->n_batches;
}

int64_t arrow_stream_where(const arrow_stream *stream) {
    return stream->at;
}
