#include "data/read/reader.h"

#include <stdlib.h>
#include <string.h>

#include "data/read/byte_stream.h"
#include "data/read/parquet.h"
#include "tok/tokenizer.h"

enum { READ_BYTES = 1 << 20, PIECE_BYTES = 1 << 20 };

struct reader {
    arena *a;
    reader_opts o;
    input_file *files;
    int n_files, next;
    int64_t bytes_before, bytes_total; // of the files that are done; of all
    // the open file
    const input_file *f;
    byte_stream *stream;
    parquet_reader *parquet;
    bool eof, within; // within: a piece of the text was handed out
    int64_t number;
    str buffer; // read ahead, from `at`
    size_t at;
    record back;
    bool has_back;
};

drv_status reader_open(arena *a, const char *const *inputs, int n, const reader_opts *o,
        reader **out) {
    reader *r = ARENA_NEW(a, reader);
    *r = (reader){.a = a, .o = *o};
    if (!r->o.key) r->o.key = "text";
    DRV_TRY(inputs_list(a, inputs, n, &r->files, &r->n_files));
    for (int i = 0; i < r->n_files; i++) {
        r->bytes_total += r->files[i].bytes;
        if (r->files[i].guessed && o->key) r->files[i].kind = INPUT_JSONL;
    }
    *out = r;
    return DRV_OK;
}

static void close_file(reader *r) {
    if (r->f) r->bytes_before += r->f->bytes;
    byte_stream_close(r->stream);
    parquet_close(r->parquet);
    r->f = NULL;
    r->stream = NULL;
    r->parquet = NULL;
}

void reader_close(reader *r) {
    close_file(r);
    str_free(&r->buffer);
    str_free(&r->back.bytes);
}

void reader_skip_files(reader *r, int n) {
    for (; r->next < n && r->next < r->n_files; r->next++)
        r->bytes_before += r->files[r->next].bytes;
}

static drv_status open_next(reader *r) {
    r->f = &r->files[r->next++];
    r->eof = r->within = false;
    r->number = 0;
    str_clear(&r->buffer);
    r->at = 0;
    if (r->f->kind == INPUT_PARQUET) return parquet_open(r->f->path, r->o.key, &r->parquet);
    return byte_stream_open(r->f, &r->stream);
}

// Reads more of the open file behind the buffer; sets eof.
static drv_status fill(reader *r) {
    if (r->at) { // drop what was consumed
        memmove(r->buffer.p, r->buffer.p + r->at, r->buffer.n - r->at);
        r->buffer.n -= r->at;
        r->at = 0;
    }
    size_t got;
    str_reserve(&r->buffer, READ_BYTES);
    DRV_TRY(byte_stream_read(r->stream, r->buffer.p + r->buffer.n, READ_BYTES, &got));
    r->buffer.n += got;
    r->eof = got == 0;
    return DRV_OK;
}

static void take(reader *r, size_t n, size_t skip, record *out) {
    str_add(&out->bytes, r->buffer.p ? r->buffer.p + r->at : "", n);
    r->at += n + skip;
}

// Up to the mark or the end of the file; a long text up to a place where it may be cut.
static drv_status next_marked(reader *r, const char *mark, record *out) {
    const size_t n_mark = mark ? strlen(mark) : 0;
    size_t uncut = 0; // there is no place to cut before
    for (size_t searched = 0;;) {
        const size_t n = r->buffer.n - r->at;
        const char *p = r->buffer.p ? r->buffer.p + r->at : "";
        const char *found =
                mark && n > searched ? memmem(p + searched, n - searched, mark, n_mark) : NULL;
        out->begins = !r->within;
        out->ends = true;
        if (found || r->eof) {
            take(r, found ? (size_t)(found - p) : n, found ? n_mark : 0, out);
            r->within = false;
            return DRV_OK;
        }
        // A mark that is not all there yet must not be cut.
        if (!out->json && !r->o.whole && n > PIECE_BYTES + n_mark) {
            const size_t cut = split_cut(p + uncut, n - n_mark - uncut);
            if (cut) {
                take(r, uncut + cut, 0, out);
                r->within = true;
                out->ends = false;
                return DRV_OK;
            }
        }
        searched = n > n_mark ? n - n_mark : 0;
        if (n > PIECE_BYTES + n_mark) uncut = searched - 2; // a cut needs three bytes
        DRV_TRY(fill(r));
    }
}

static bool blank(const str *s) {
    for (size_t i = 0; i < s->n; i++)
        if (!strchr(" \t\r", s->p[i])) return false;
    return true;
}

static void swap_records(record *x, record *y) {
    const record t = *x;
    *x = *y;
    *y = t;
}

void reader_put_back(reader *r, record *x) {
    swap_records(x, &r->back);
    r->has_back = true;
}

drv_status reader_next(reader *r, record *out, bool *more) {
    if (r->has_back) {
        swap_records(out, &r->back);
        r->has_back = false;
        *more = true;
        return DRV_OK;
    }
    for (*more = true;;) {
        const bool done = r->f && !r->parquet && r->eof && r->at >= r->buffer.n && !r->within;
        if (done) close_file(r);
        if (!r->f) {
            if (r->next == r->n_files) {
                *more = false;
                return DRV_OK;
            }
            DRV_TRY(open_next(r));
        }
        str_clear(&out->bytes);
        *out = (record){.bytes = out->bytes,
                .file = r->next - 1,
                .json = r->f->kind == INPUT_JSONL,
                .begins = true,
                .ends = true};
        if (r->parquet) {
            bool row, null;
            DRV_TRY(parquet_next(r->parquet, &out->bytes, &null, &row));
            if (!row) {
                close_file(r);
                continue;
            }
            if (null) out->broken = "is null";
        } else {
            DRV_TRY(next_marked(r, out->json ? "\n" : r->o.separator, out));
            // Nothing lies between two separators, nor behind the last one.
            if (out->begins && out->ends && blank(&out->bytes) &&
                    (out->json || out->bytes.n == 0)) {
                r->number += out->json;
                continue;
            }
        }
        if (out->begins) r->number++;
        out->number = r->number;
        return DRV_OK;
    }
}

const input_file *reader_files(const reader *r, int *n) {
    if (n) *n = r->n_files;
    return r->files;
}

const reader_opts *reader_options(const reader *r) {
    return &r->o;
}

int64_t reader_bytes(const reader *r, int64_t *total) {
    *total = r->bytes_total;
    const int64_t within = r->stream    ? byte_stream_where(r->stream)
                           : r->parquet ? parquet_where(r->parquet)
                                        : 0;
    return r->bytes_before + within;
}
