// Files -> records, one file after the other: opens them, looks at the content of those whose
// ending says nothing, cuts lines, documents and pieces of long documents.
#include "data/read/reader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "data/read/byte_stream.h"
#include "data/read/content.h"
#include "data/read/parquet.h"
#include "tok/tokenizer.h"

enum { READ_BYTES = 1 << 20, PIECE_BYTES = 1 << 20 };

enum { NAMED_FILES = 10 }; // of which it is said what they were taken for

struct reader {
    arena *a;
    reader_opts o;
    input_file *files;
    int n_files, next, named;
    int64_t bytes_before, bytes_total; // of the files that are done; of all
    // the open file
    input_file *f;
    byte_stream *stream;
    parquet_reader *parquet;
    bool eof, within;   // within: a piece of the text was handed out
    const char *broken; // why none of the file can be read; it is one broken record
    int64_t number;
    str buffer; // read ahead, from `at`
    size_t at;
};

drv_status reader_open(arena *a, const char *const *inputs, int n, const reader_opts *o,
        reader **out) {
    reader *r = ARENA_NEW(a, reader);
    *r = (reader){.a = a, .o = *o};
    if (!r->o.key) r->o.key = "text";
    if (o->separator) {
        char *separator = arena_strdup(a, o->separator);
        if (!str_unescape(separator) || !*separator)
            return drv_fail(DRV_E_USAGE,
                    "the separator is \"%s\", expected some text, in which \\n, \\t, \\r and \\\\ "
                    "stand for a line's end, a tab, a carriage return and a backslash",
                    o->separator);
        r->o.separator = separator;
    }
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
}

void reader_skip_files(reader *r, int n) {
    for (; r->next < n && r->next < r->n_files; r->next++)
        r->bytes_before += r->files[r->next].bytes;
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

// --- what a file is, by its content
// Parquet is read from its end, so a pipe cannot hold it.
static drv_status open_parquet(reader *r) {
    const input_file *f = r->f;
    const char *path = f->path;
    if (r->stream && byte_stream_packing(r->stream) != PACKED_NOT)
        return drv_fail(DRV_E_DATA, "\"%s\": a packed Parquet file; unpack it first", f->name);
    if (strcmp(path, "-") == 0) {
        struct stat st;
        if (fstat(0, &st) != 0 || !S_ISREG(st.st_mode))
            return drv_fail(DRV_E_DATA,
                    "standard input: Parquet, which is read from its end and so not from a pipe; "
                    "give the file's path");
        path = "/dev/stdin";
    }
    byte_stream_close(r->stream);
    r->stream = NULL;
    return parquet_open(path, r->o.key, &r->parquet);
}

// Says what was found where the ending did not say it.
static void name_content(reader *r, input_packing packing) {
    static const char *const kinds[] = {"text", "JSON lines", "Parquet"}, *const packings[] = {"",
                                                                                  ", gzip",
                                                                                  ", zstd"};
    if (!r->f->guessed && packing == r->f->packing) return;
    if (r->named++ < NAMED_FILES)
        log_info("%s: %s%s", r->f->name, kinds[r->f->kind], packings[packing]);
    if (r->named == NAMED_FILES) log_info("more files are recognised by their content, not named");
}

// Enough of the front to tell: a first line, or a good part of it.
static drv_status fill_front(reader *r, bool line) {
    enum { FRONT = 1 << 16 };
    while (!r->eof && (r->buffer.n < 4 || (line && r->buffer.n < FRONT &&
                                                  !memchr(r->buffer.p + 3, '\n', r->buffer.n - 3))))
        DRV_TRY(fill(r));
    return DRV_OK;
}

static drv_status look_at_content(reader *r) {
    input_file *f = r->f;
    const bool open = f->guessed && f->kind == INPUT_TEXT && !r->o.separator;
    DRV_TRY(fill_front(r, open));
    const char *p = r->buffer.p ? r->buffer.p : "";
    const content_mark mark = content_mark_of(p, r->buffer.n);
    if (mark == MARK_UTF8) r->at = 3;
    if (mark == MARK_UTF16) r->broken = "is UTF-16, expected UTF-8";
    const bool parquet = f->guessed && content_is_parquet(p, r->buffer.n);
    if (parquet)
        f->kind = INPUT_PARQUET;
    else if (open && content_is_json_lines(p + r->at, r->buffer.n - r->at, r->eof))
        f->kind = INPUT_JSONL;
    name_content(r, byte_stream_packing(r->stream));
    return parquet ? open_parquet(r) : DRV_OK;
}

static drv_status open_next(reader *r) {
    r->f = &r->files[r->next++];
    r->eof = r->within = false;
    r->broken = NULL;
    r->number = 0;
    str_clear(&r->buffer);
    r->at = 0;
    if (r->f->kind == INPUT_PARQUET) return open_parquet(r);
    const bool as_is = r->o.as_is && r->f->kind == INPUT_TEXT;
    DRV_TRY(byte_stream_open(r->f, as_is, &r->stream));
    return as_is ? DRV_OK : look_at_content(r);
}

// --- records
static void take(reader *r, size_t n, size_t skip, str *bytes) {
    str_add(bytes, r->buffer.p ? r->buffer.p + r->at : "", n);
    r->at += n + skip;
}

// Up to the mark or the end of the file; a long text up to a place where it may be cut.
static drv_status next_marked(reader *r, const char *mark, str *bytes, record *out) {
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
            take(r, found ? (size_t)(found - p) : n, found ? n_mark : 0, bytes);
            r->within = false;
            return DRV_OK;
        }
        // A mark that is not all there yet must not be cut.
        if (!out->json && !r->o.whole && n > PIECE_BYTES + n_mark) {
            const size_t cut = split_cut(p + uncut, n - n_mark - uncut);
            if (cut) {
                take(r, uncut + cut, 0, bytes);
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

static bool blank(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r') return false;
    return true;
}

// The next record of the open file; *done: it has no more.
static drv_status next_of_file(reader *r, str *bytes, record *out, bool *done) {
    *done = false;
    if (r->parquet) {
        bool row, null;
        DRV_TRY(parquet_next(r->parquet, bytes, &null, &row));
        *done = !row;
        if (null) out->broken = "is null";
        return DRV_OK;
    }
    if (r->broken) {
        *done = r->number > 0;
        out->broken = r->broken;
        return DRV_OK;
    }
    for (;;) {
        *done = r->eof && r->at >= r->buffer.n && !r->within;
        if (*done) return DRV_OK;
        DRV_TRY(next_marked(r, out->json ? "\n" : r->o.separator, bytes, out));
        // Nothing lies between two separators, nor behind the last one.
        const size_t n = bytes->n - out->at;
        if (!out->begins || !out->ends || (out->json ? !blank(bytes->p + out->at, n) : n > 0))
            return DRV_OK;
        r->number += out->json;
        bytes->n = out->at;
    }
}

drv_status reader_next(reader *r, str *bytes, record *out, reader_event *event) {
    if (!r->f) {
        *event = READER_END;
        if (r->next == r->n_files) return DRV_OK;
        DRV_TRY(open_next(r));
    }
    *event = READER_RECORD;
    *out = (record){.at = bytes->n,
            .file = r->next - 1,
            .json = r->f->kind == INPUT_JSONL,
            .begins = true,
            .ends = true};
    bool done;
    DRV_TRY(next_of_file(r, bytes, out, &done));
    if (done) {
        close_file(r);
        *event = READER_FILE_DONE;
        return DRV_OK;
    }
    if (out->begins) r->number++;
    out->number = r->number;
    out->n = bytes->n - out->at;
    return DRV_OK;
}

int reader_files_done(const reader *r) {
    return r->f ? r->next - 1 : r->next;
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
