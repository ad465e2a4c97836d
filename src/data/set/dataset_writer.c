// Two growing files, tokens and lengths of documents; the index is made of the lengths at the end.
#include "data/set/dataset_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/set/dataset.h"

enum { BUFFER_BYTES = 1 << 20, WRITE_BACK_BYTES = 8 << 20 };

typedef struct sink { // a file that grows
    const char *path; // PREFIX.END FILE_ASIDE
    const char *final;
    int fd;
    unsigned char *buffer;
    size_t n;
    int64_t at,
            on_its_way; // bytes written, and those of them that the kernel was told to write back
} sink;

struct dataset_writer {
    const char *prefix;
    sink tokens, lengths; // lengths: int32 per document
    sink roles;           // a byte per token; fd -1: none
    bool wide;            // i32 instead of u16
    int64_t n_tokens, n_documents, in_document;
};

static drv_status sink_open(arena *a, sink *s, const char *prefix, const char *end, int64_t keep) {
    s->final = arena_printf(a, "%s.%s", prefix, end);
    s->path = arena_printf(a, "%s" FILE_ASIDE, s->final);
    int fd;
    DRV_TRY(file_append(s->path, &fd)); // refuses what is not a file on a disk
    s->fd = fd;
    s->buffer = mem_alloc(BUFFER_BYTES);
    s->at = s->on_its_way = keep;
    if (file_size(s->path) < keep)
        return drv_fail(DRV_E_DATA, "%s: %lld bytes long, expected %lld or more to resume", s->path,
                (long long)file_size(s->path), (long long)keep);
    return ftruncate(s->fd, keep) == 0 ? DRV_OK : file_fail("write", s->path);
}

// Starts writing to the disk early, so that a later sync is short.
static drv_status sink_flush(sink *s) {
    const size_t n = s->n;
    s->n = 0;
    DRV_TRY(file_write_all(s->fd, s->path, s->buffer, n));
    s->at += (int64_t)n;
    if (s->at - s->on_its_way < WRITE_BACK_BYTES) return DRV_OK;
    sync_file_range(s->fd, s->on_its_way, s->at - s->on_its_way, SYNC_FILE_RANGE_WRITE);
    s->on_its_way = s->at;
    return DRV_OK;
}

static drv_status sink_sync(sink *s) {
    DRV_TRY(sink_flush(s));
    if (fsync(s->fd) != 0) return file_fail("sync", s->path);
    return DRV_OK;
}

static drv_status sink_add(sink *s, const void *p, size_t n_bytes) {
    const char *from = p;
    for (size_t k; n_bytes; from += k, n_bytes -= k) {
        if (s->n == BUFFER_BYTES) DRV_TRY(sink_flush(s));
        k = n_bytes < BUFFER_BYTES - s->n ? n_bytes : BUFFER_BYTES - s->n;
        memcpy(s->buffer + s->n, from, k);
        s->n += k;
    }
    return DRV_OK;
}

static void sink_close(sink *s, bool keep) {
    if (s->fd >= 0) {
        close(s->fd);
        if (!keep) unlink(s->path);
    }
    s->fd = -1;
    free(s->buffer);
    s->buffer = NULL;
}

drv_status dataset_writer_open(arena *a, const char *prefix, int64_t n_vocab, int64_t n_tokens,
        int64_t n_documents, bool roles, dataset_writer **out) {
    dataset_writer *writer = ARENA_NEW(a, dataset_writer);
    *writer = (dataset_writer){.prefix = prefix,
            .wide = n_vocab >= 65500,
            .tokens.fd = -1,
            .lengths.fd = -1,
            .roles.fd = -1,
            .n_tokens = n_tokens,
            .n_documents = n_documents};
    drv_status status =
            sink_open(a, &writer->tokens, prefix, "bin", n_tokens * (writer->wide ? 4 : 2));
    if (status == DRV_OK)
        status = sink_open(a, &writer->lengths, prefix, "lengths", n_documents * 4);
    if (status == DRV_OK && roles) status = sink_open(a, &writer->roles, prefix, "roles", n_tokens);
    if (!roles) {
        writer->roles.final = arena_printf(a, "%s.roles", prefix);
        unlink(arena_printf(a, "%s.roles" FILE_ASIDE, prefix)); // of a killed build of another kind
    }
    if (status == DRV_OK)
        *out = writer;
    else
        dataset_writer_close(writer, true);
    return status;
}

drv_status dataset_writer_add(dataset_writer *writer, const int32_t *ids, int64_t n_tokens) {
    if (n_tokens > INT32_MAX - writer->in_document)
        return drv_fail(DRV_E_DATA, "%s: a document of %lld tokens, at most 2^31 - 1",
                writer->tokens.final, (long long)(n_tokens + writer->in_document));
    writer->in_document += n_tokens;
    writer->n_tokens += n_tokens;
    if (writer->wide) return sink_add(&writer->tokens, ids, (size_t)n_tokens * 4);
    uint16_t narrow[2048];
    for (int64_t k; n_tokens; ids += k, n_tokens -= k) {
        k = n_tokens < 2048 ? n_tokens : 2048;
        for (int64_t i = 0; i < k; i++)
            narrow[i] = (uint16_t)ids[i];
        DRV_TRY(sink_add(&writer->tokens, narrow, (size_t)k * 2));
    }
    return DRV_OK;
}

drv_status dataset_writer_add_roles(dataset_writer *writer, const char *roles, int64_t n) {
    return sink_add(&writer->roles, roles, (size_t)n);
}

drv_status dataset_writer_end_document(dataset_writer *writer) {
    const int32_t n = (int32_t)writer->in_document;
    writer->in_document = 0;
    writer->n_documents++;
    return sink_add(&writer->lengths, &n, sizeof n);
}

drv_status dataset_writer_sync(dataset_writer *writer) {
    DRV_TRY(sink_sync(&writer->tokens));
    if (writer->roles.fd >= 0) DRV_TRY(sink_sync(&writer->roles));
    return sink_sync(&writer->lengths);
}

static drv_status put_in_place(const sink *s) {
    return rename(s->path, s->final) == 0 ? DRV_OK : file_fail("rename into place", s->path);
}

static drv_status next_length(const dataset_writer *writer, FILE *lengths, int32_t *out) {
    if (fread(out, sizeof *out, 1, lengths) == 1) return DRV_OK;
    if (ferror(lengths)) return file_fail("read", writer->lengths.path);
    return drv_fail(DRV_E_IO, "%s: cut short while it was read, expected %lld lengths",
            writer->lengths.path, (long long)writer->n_documents);
}

// Writes the index (docs/formats.md) from the lengths, beside its place.
static drv_status write_index(dataset_writer *writer, arena *a, sink *out) {
    const int64_t n_documents = writer->n_documents, entries = n_documents + 1, version = 1;
    unsigned char head[DATASET_HEADER];
    memcpy(head, dataset_magic, 9);
    memcpy(head + 9, &version, 8);
    head[17] = writer->wide ? 4 : 8;
    memcpy(head + 18, &n_documents, 8);
    memcpy(head + 26, &entries, 8);
    FILE *lengths = fopen(writer->lengths.path, "rbe");
    if (!lengths) return file_fail("open", writer->lengths.path);
    drv_status status = sink_open(a, out, writer->prefix, "idx", 0);
    if (status == DRV_OK) status = sink_add(out, head, sizeof head);
    int64_t at = 0;
    int32_t k;
    for (int64_t i = 0; status == DRV_OK && i < n_documents; i++) {
        status = next_length(writer, lengths, &k);
        if (status == DRV_OK) status = sink_add(out, &k, sizeof k);
    }
    rewind(lengths);
    for (int64_t i = 0; status == DRV_OK && i < n_documents; i++) {
        status = next_length(writer, lengths, &k);
        if (status == DRV_OK) status = sink_add(out, &at, 8);
        at += (int64_t)k * (writer->wide ? 4 : 2);
    }
    for (int64_t i = 0; status == DRV_OK && i <= n_documents; i++)
        status = sink_add(out, &i, 8);
    if (status == DRV_OK) status = sink_sync(out);
    fclose(lengths);
    return status;
}

// Replaces what lies at the prefix. The old index would not fit the new tokens: it goes first, with
// what belongs to it. Tokens without an index are no set, and no build would replace them: none stay.
static drv_status put_all_in_place(const dataset_writer *writer, arena *a, const sink *index) {
    static const char *const old[] = {"idx", "idx.json", "pairs", "roles"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        unlink(arena_printf(a, "%s.%s", writer->prefix, old[i]));
    drv_status status = put_in_place(&writer->tokens);
    if (status == DRV_OK && writer->roles.fd >= 0) status = put_in_place(&writer->roles);
    if (status == DRV_OK) status = put_in_place(index);
    if (status == DRV_OK) return DRV_OK;
    unlink(writer->tokens.final);
    unlink(writer->roles.final);
    return status;
}

drv_status dataset_writer_finish(dataset_writer *writer) {
    DRV_TRY(dataset_writer_sync(writer));
    arena *a = arena_new("index");
    sink index = {.fd = -1};
    drv_status status = write_index(writer, a, &index);
    if (status == DRV_OK) status = put_all_in_place(writer, a, &index);
    sink_close(&index, false);
    arena_free(a);
    if (status == DRV_OK) dataset_writer_close(writer, false);
    return status;
}

void dataset_writer_close(dataset_writer *writer, bool keep) {
    sink_close(&writer->tokens, keep);
    sink_close(&writer->lengths, keep);
    sink_close(&writer->roles, keep);
}
