// Reads one file after the other: opens it, detects the format if the extension is unknown, and
// cuts lines, documents and pieces of long documents.
#include "data/read/reader.h"

#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "data/read/byte_stream.h"
#include "data/read/content.h"
#include "data/read/array_scan.h"
#include "data/read/csv_table.h"
#include "data/read/long_json.h"
#include "data/read/reader_options.h"
#include "tok/tokenizer.h"

enum { READ_BYTES = 1 << 20, PIECE_BYTES = 1 << 20, MAX_ROW_BYTES = 64 << 20 };
enum { LONG_JSON_BYTES = 4 << 20 }; // an object of more is decoded piece by piece

enum { NAMED_FILES = 10 }; // files that messages of one kind name at most

struct reader {
    arena *a;
    reader_opts o;
    input_file *files;
    int n_files, next, named;
    int64_t bytes_before, bytes_total; // of the files that are done; of all
    // the open file
    input_file *f;
    byte_stream *stream;
    record_source source; // of a format that cuts its records itself
    record_source first;  // of the first file, opened before its turn
    id_cutter cutter;     // of those that are token ids
    csv_table *table;     // of a CSV or TSV file; its rows
    csv_scan row;
    int64_t lines;    // lines of the table before the current row, which may have several
    bool eof, within; // within: a piece of the text was handed out
    bool is_array;    // its records are the elements of one JSON array
    array_scan array;
    long_json text;     // of a long object, while it is handed out
    size_t text_bytes;  // bytes of that object in the buffer; 0: none is being handed out
    const char *broken; // why nothing of the file can be read: it counts as one broken record
    bool nulls_said;
    int64_t number;
    str buffer; // read ahead, from `at`
    size_t at;
};

drv_status reader_open(arena *a, const char *const *inputs, int n_inputs, const reader_opts *opts,
        reader **out) {
    reader *in = ARENA_NEW(a, reader);
    *in = (reader){.a = a, .o = *opts};
    in->o.is_key_given = in->o.key != NULL;
    if (!in->o.key) in->o.key = "text";
    if (opts->separator) {
        char *separator = arena_strdup(a, opts->separator);
        if (!str_unescape(separator) || !*separator)
            return drv_fail(DRV_E_USAGE,
                    "the separator is \"%s\", expected a text, in which \\n, \\t, \\r and \\\\ "
                    "stand for a line's end, a tab, a carriage return and a backslash",
                    opts->separator);
        in->o.separator = separator;
    }
    DRV_TRY(inputs_list(a, inputs, n_inputs, &in->o.inputs, &in->files, &in->n_files));
    for (int i = 0; i < in->n_files; i++) {
        in->bytes_total += in->files[i].bytes;
        if (!in->files[i].guessed) continue;
        if (opts->inputs.tables == TABLES_ALL)
            in->files[i].kind = INPUT_CSV;
        else if (opts->key || opts->lines)
            in->files[i].kind = INPUT_JSONL;
    }
    *out = in;
    const drv_status status = reader_check_options(&in->o, in->files, in->n_files, &in->first);
    if (status != DRV_OK) record_source_close(&in->first);
    return status;
}

static void close_file(reader *in) {
    if (in->f) in->bytes_before += in->f->bytes;
    byte_stream_close(in->stream);
    record_source_close(&in->source);
    csv_table_close(in->table);
    in->table = NULL;
    in->f = NULL;
    in->stream = NULL;
}

void reader_close(reader *in) {
    close_file(in);
    record_source_close(&in->first);
    str_free(&in->buffer);
    id_cutter_free(&in->cutter);
    long_json_free(&in->text);
}

void reader_skip_files(reader *in, int n) {
    for (; in->next < n && in->next < in->n_files; in->next++)
        in->bytes_before += in->files[in->next].bytes;
}

// Reads more of the open file, after what the buffer holds; sets eof.
static drv_status fill(reader *in) {
    if (in->at) { // drop what was consumed
        memmove(in->buffer.p, in->buffer.p + in->at, in->buffer.n - in->at);
        in->buffer.n -= in->at;
        in->at = 0;
    }
    size_t got;
    str_reserve(&in->buffer, READ_BYTES);
    DRV_TRY(byte_stream_read(in->stream, in->buffer.p + in->buffer.n, READ_BYTES, &got));
    in->buffer.n += got;
    in->eof = got == 0;
    return DRV_OK;
}

// --- recognising a file by its content
// Prepares random access to the current file, which must be neither compressed nor a pipe.
static drv_status find_columns_file(reader *in, const char *format) {
    input_file *file = in->f;
    if (in->stream && byte_stream_packing(in->stream) != PACKED_NOT)
        return drv_fail(DRV_E_DATA, "\"%s\": a packed %s file; unpack it first", file->name,
                format);
    if (strcmp(file->path, "-") == 0) {
        struct stat st;
        if (fstat(0, &st) != 0 || !S_ISREG(st.st_mode))
            return drv_fail(DRV_E_DATA,
                    "standard input: %s, which cannot be read from a pipe, since it needs random access; give the file's path",
                    format);
        file->path = "/dev/stdin";
    }
    byte_stream_close(in->stream);
    in->stream = NULL;
    return DRV_OK;
}

drv_status reader_starts_with_labels(reader *in, bool *labelled) {
    const bool is_arrow = in->files[0].kind == INPUT_ARROW;
    if (is_arrow && !in->first.ops) DRV_TRY(record_source_open(&in->files[0], &in->o, &in->first));
    *labelled = is_arrow && in->first.labels;
    return DRV_OK;
}

static id_cut cut_of(const id_opts *ids, input_kind kind) {
    return kind == INPUT_BIN ? ids->bin : kind == INPUT_NPY ? ids->npy : ids->rows;
}

static drv_status open_source(reader *in) {
    const input_kind kind = in->f->kind;
    if (record_source_seeks(kind)) DRV_TRY(find_columns_file(in, record_source_format(kind)));
    in->eof = false; // of the bytes that detecting the format has read
    id_cutter_reset(&in->cutter);
    in->cutter.cut = cut_of(&in->o.ids, kind);
    if (in->f != in->files || !in->first.ops) return record_source_open(in->f, &in->o, &in->source);
    in->source = in->first;
    in->first = (record_source){0};
    return DRV_OK;
}

// Logs the recognised format of a file whose ending is unknown.
static void name_content(reader *in, input_packing packing) {
    static const char *const kinds[] = {[INPUT_TEXT] = "text",
            [INPUT_JSONL] = "JSON lines",
            [INPUT_PARQUET] = "Parquet",
            [INPUT_ARROW] = "Arrow",
            [INPUT_CSV] = "CSV",
            [INPUT_TSV] = "TSV"},
                             *const packings[] = {"", ", gzip", ", zstd"};
    if (!in->f->guessed && packing == in->f->packing) return;
    if (in->named++ < NAMED_FILES)
        log_info("%s: %s%s", in->f->name, in->is_array ? "a JSON array" : kinds[in->f->kind],
                packings[packing]);
    if (in->named == NAMED_FILES)
        log_info("further files whose format is detected from their content are not listed");
}

// Reads as much of the beginning of a file as detecting its format needs, with `line` also the
// first line or a good part of it.
static drv_status fill_front(reader *in, bool line) {
    enum { FRONT = 1 << 16 };
    while (!in->eof && (in->buffer.n < CONTENT_BYTES ||
                               (line && in->buffer.n < FRONT &&
                                       !memchr(in->buffer.p + 3, '\n', in->buffer.n - 3))))
        DRV_TRY(fill(in));
    return DRV_OK;
}

// Detects formats that drover does not read. A file with an unknown extension, which the user
// named, is refused; one with the extension of a text counts as a broken record.
static drv_status look_for_foreign(reader *in) {
    const char *unpack,
            *name = content_foreign(in->buffer.p ? in->buffer.p : "", in->buffer.n, &unpack);
    if (!name) return DRV_OK;
    if (!in->f->guessed) {
        in->broken = "is not text by its first bytes";
        return DRV_OK;
    }
    const bool piped = strcmp(in->f->path, "-") == 0;
    return drv_fail(DRV_E_DATA,
            "%s is %s, expected text, JSON lines, Parquet or Arrow, as it is or packed by gzip or zstd%s%s%s%s",
            in->f->name, name, unpack ? "; to unpack it: " : "", unpack ? unpack : "",
            unpack && !piped ? " " : "", unpack && !piped ? in->f->name : "");
}

static void pass_row(reader *in) {
    const char *p = in->buffer.p + in->at, *end = p + in->row.next;
    while ((p = memchr(p, '\n', (size_t)(end - p)))) {
        in->lines++;
        p++;
    }
    in->at += in->row.next;
}

// Finds the next row of a table, in->row; *done: there are no more.
static drv_status next_row(reader *in, bool *done) {
    for (*done = false;;) {
        const char *p = in->buffer.p ? in->buffer.p + in->at : "";
        const size_t n = in->buffer.n - in->at;
        const csv_event event = csv_scan_next(&in->row, p, n, in->eof);
        *done = event == CSV_END;
        if (*done) return DRV_OK;
        if (event == CSV_MORE) {
            if (n > MAX_ROW_BYTES)
                return drv_fail(DRV_E_DATA,
                        "%s:%lld: a row that is longer than %d MiB begins here: is a quote not closed?",
                        in->f->name, (long long)in->lines + 1, MAX_ROW_BYTES >> 20);
            DRV_TRY(fill(in));
            continue;
        }
        if (in->row.end > 0 || in->row.why) return DRV_OK;
        pass_row(in); // an empty line
    }
}

static input_kind kind_of_table(const reader *in) {
    const char *p = in->buffer.p ? in->buffer.p + in->at : "";
    const size_t n = in->buffer.n - in->at;
    const char *end = memchr(p, '\n', n);
    const size_t first = end ? (size_t)(end - p) : n;
    return memchr(p, '\t', first) && !memchr(p, ',', first) ? INPUT_TSV : INPUT_CSV;
}

static drv_status open_table(reader *in) {
    bool done;
    in->row = (csv_scan){.delimiter = in->f->kind == INPUT_TSV ? '\t' : ','};
    DRV_TRY(next_row(in, &done));
    if (done || in->row.why)
        return drv_fail(DRV_E_DATA, "%s: %s, expected a header row with the names of its columns",
                in->f->name, done ? "the file is empty" : in->row.why);
    const size_t at = in->at;
    pass_row(in);
    return csv_table_open(in->f->name, in->row.delimiter, in->buffer.p + at, in->row.end,
            in->o.lines ? NULL : in->o.key, in->o.fields, &in->table);
}

static drv_status look_at_content(reader *in) {
    input_file *file = in->f;
    const bool open = file->guessed && file->kind == INPUT_TEXT && !in->o.separator,
               table = file->kind == INPUT_CSV || file->kind == INPUT_TSV;
    DRV_TRY(fill_front(in, open || table || file->kind == INPUT_JSONL));
    const char *front = in->buffer.p ? in->buffer.p : "";
    const content_mark mark = content_mark_of(front, in->buffer.n);
    if (mark == MARK_UTF8) in->at = 3;
    if (mark == MARK_UTF16) in->broken = "is UTF-16, expected UTF-8";
    const bool parquet = content_is_parquet(front, in->buffer.n),
               arrow = content_is_arrow(front, in->buffer.n);
    if (!file->guessed && (parquet || arrow)) {
        in->broken =
                parquet ? "is a Parquet file by its first bytes, expected the extension .parquet"
                        : "is an Arrow file by its first bytes, expected the extension .arrow";
        return DRV_OK;
    }
    DRV_TRY(look_for_foreign(in));
    if (parquet)
        file->kind = INPUT_PARQUET;
    else if (arrow)
        file->kind = INPUT_ARROW;
    else if (open && content_is_json_lines(front + in->at, in->buffer.n - in->at, in->eof))
        file->kind = INPUT_JSONL;
    in->is_array = (open || file->kind == INPUT_JSONL) &&
                   content_is_json_array(front + in->at, in->buffer.n - in->at);
    if (in->is_array) file->kind = INPUT_JSONL;
    if (table && file->guessed && !parquet && !arrow) file->kind = kind_of_table(in);
    name_content(in, byte_stream_packing(in->stream));
    return parquet || arrow ? open_source(in) : table && !in->broken ? open_table(in) : DRV_OK;
}

// Looks at the beginning of a file that is read as it is: decompresses it, and tells the user if it
// has JSON lines, whose texts --json-key would take.
static drv_status look_as_is(reader *in) {
    if (!in->f->guessed) return DRV_OK;
    DRV_TRY(fill_front(in, true));
    const input_packing packing = byte_stream_packing(in->stream);
    if (packing != in->f->packing) name_content(in, packing);
    if (content_is_json_lines(in->buffer.p ? in->buffer.p : "", in->buffer.n, in->eof))
        log_info("%s: JSON lines, taken as they are; --json-key KEY takes the text under KEY of each",
                in->f->name);
    return DRV_OK;
}

static drv_status open_next(reader *in) {
    in->f = &in->files[in->next++];
    in->eof = in->within = in->is_array = false;
    in->array = (array_scan){0};
    in->broken = NULL;
    in->number = in->lines = 0;
    str_clear(&in->buffer);
    in->at = 0;
    if (record_source_format(in->f->kind)) return open_source(in);
    const bool as_is = in->o.as_is && in->f->kind == INPUT_TEXT;
    DRV_TRY(byte_stream_open(in->f, as_is && !in->f->guessed, &in->stream));
    return as_is ? look_as_is(in) : look_at_content(in);
}

// --- records
static void take(reader *in, size_t n, size_t skip, str *bytes) {
    str_add(bytes, in->buffer.p ? in->buffer.p + in->at : "", n);
    in->at += n + skip;
}

static void next_piece(reader *in, str *bytes, record *out) {
    out->json = false;
    out->begins = !in->within;
    out->ends = long_json_next(&in->text, PIECE_BYTES, bytes, &out->bad);
    in->within = !out->ends;
    if (in->within) return;
    in->at += in->text_bytes;
    in->text_bytes = 0;
}

// Takes the object of n bytes that begins `before` bytes further on in the buffer, and skips `skip`
// bytes after it. If a long object has a text, the pieces of the text are handed out instead.
static void take_object(reader *in, size_t before, size_t n, size_t skip, str *bytes, record *out) {
    const char *p = in->buffer.p ? in->buffer.p + in->at + before : "";
    if (n > LONG_JSON_BYTES && !in->o.lines && !in->o.whole &&
            long_json_open(&in->text, p, n, in->o.key)) {
        in->text_bytes = before + n + skip;
        next_piece(in, bytes, out);
        return;
    }
    str_add(bytes, p, n);
    in->at += before + n + skip;
}

// Takes what comes before the mark or the end of the file; of a long text, what comes before a
// place at which it may be cut.
static drv_status next_marked(reader *in, const char *mark, str *bytes, record *out) {
    const size_t n_mark = mark ? strlen(mark) : 0;
    size_t uncut = 0; // there is no place to cut before
    for (size_t searched = 0;;) {
        const size_t n_left = in->buffer.n - in->at;
        const char *left = in->buffer.p ? in->buffer.p + in->at : "";
        const char *found = mark && n_left > searched
                                    ? memmem(left + searched, n_left - searched, mark, n_mark)
                                    : NULL;
        out->begins = !in->within;
        out->ends = true;
        if (out->json && (found || in->eof)) {
            take_object(in, 0, found ? (size_t)(found - left) : n_left, found ? n_mark : 0, bytes,
                    out);
            return DRV_OK;
        }
        if (found || in->eof) {
            take(in, found ? (size_t)(found - left) : n_left, found ? n_mark : 0, bytes);
            in->within = false;
            return DRV_OK;
        }
        // A mark that is not all there yet must not be cut.
        if (!out->json && !in->o.whole && n_left > PIECE_BYTES + n_mark) {
            const size_t cut = split_cut(left + uncut, n_left - n_mark - uncut);
            if (cut) {
                take(in, uncut + cut, 0, bytes);
                in->within = true;
                out->ends = false;
                return DRV_OK;
            }
        }
        searched = n_left > n_mark ? n_left - n_mark : 0;
        if (n_left > PIECE_BYTES + n_mark) uncut = searched - 2; // a cut needs three bytes
        DRV_TRY(fill(in));
    }
}

// The next element of the array that the file is.
static drv_status next_element(reader *in, str *bytes, record *out, bool *done) {
    for (;;) {
        const char *p = in->buffer.p ? in->buffer.p + in->at : "";
        switch (array_scan_next(&in->array, p, in->buffer.n - in->at, in->eof)) {
        case ARRAY_ELEMENT:
            take_object(in, in->array.begin, in->array.end - in->array.begin, 0, bytes, out);
            return DRV_OK;
        case ARRAY_END:
            *done = true;
            return DRV_OK;
        case ARRAY_BROKEN:
            return drv_fail(DRV_E_DATA, "%s: a broken JSON array: after element %lld: %s",
                    in->f->name, (long long)in->number, in->array.why);
        case ARRAY_MORE:
            DRV_TRY(fill(in));
        }
    }
}

static bool blank(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r') return false;
    return true;
}

static void say_nulls(reader *in, const record *row) {
    if (!row->nulls_cut || in->nulls_said) return;
    in->nulls_said = true;
    log_info("%s: members of its structs that are null are left out of tools and their calls, where Arrow's schema "
             "gives them to every record; transformers prints them, TRL leaves them out as well",
            in->f->path);
}

// Warns of a file of token ids that becomes one document, since the token that separates documents
// does not occur in it.
static void say_uncut(const reader *in) {
    static int named;
    const id_cutter *cutter = &in->cutter;
    if (cutter->found || !cutter->within || named >= NAMED_FILES) return;
    log_warn("%s: id %d, with which a document %s, is not in it: it is one document; --cut-before and --cut-after name another",
            in->f->name, cutter->cut.token, cutter->cut.where == CUT_AFTER ? "ends" : "begins");
    if (++named == NAMED_FILES) log_warn("further files that are one document are not listed");
}

// The next piece of a document of token ids. The last one of a file may be empty.
static drv_status next_cut(reader *in, str *bytes, record *out, bool *done) {
    id_cutter *cutter = &in->cutter;
    out->ids = true;
    for (;;) {
        out->passed = cutter->passed;
        if (id_cutter_take(cutter, bytes, &out->begins, &out->ends)) return DRV_OK;
        *done = in->eof; // a source is not asked again after its end
        if (*done) return DRV_OK;
        str_clear(&cutter->ids);
        cutter->at = 0;
        record row = *out;
        DRV_TRY(record_source_next(&in->source, &cutter->ids, &row, done));
        if (!*done && (row.broken || !row.ids || row.labels)) {
            if (cutter->within && !row.broken)
                return drv_fail(DRV_E_DATA,
                        "%s: a text or labels among token ids that --cut-before or --cut-after joins",
                        in->f->name);
            str_add(bytes, cutter->ids.p ? cutter->ids.p : "", cutter->ids.n);
            str_clear(&cutter->ids);
            *out = row;
            return DRV_OK;
        }
        if (!*done) continue;
        in->eof = true;
        say_uncut(in);
        out->begins = false;
        *done = !cutter->within;
        cutter->within = false;
        return DRV_OK;
    }
}

// The next record of the open file; *done: it has no more.
static drv_status next_of_file(reader *in, str *bytes, record *out, bool *done) {
    *done = false;
    if (in->source.ops && in->cutter.cut.where != CUT_NOT) return next_cut(in, bytes, out, done);
    if (in->source.ops) {
        DRV_TRY(record_source_next(&in->source, bytes, out, done));
        say_nulls(in, out);
        return DRV_OK;
    }
    if (in->broken) {
        *done = in->number > 0;
        out->broken = in->broken;
        return DRV_OK;
    }
    if (in->text_bytes) {
        next_piece(in, bytes, out);
        return DRV_OK;
    }
    if (in->is_array) return next_element(in, bytes, out, done);
    if (in->table) {
        DRV_TRY(next_row(in, done));
        if (*done) return DRV_OK;
        out->broken =
                in->row.why ? in->row.why
                            : csv_table_take(in->table, in->buffer.p + in->at, in->row.end, bytes);
        in->number = in->lines; // those before it
        pass_row(in);
        return DRV_OK;
    }
    for (;;) {
        *done = in->eof && in->at >= in->buffer.n && !in->within;
        if (*done) return DRV_OK;
        DRV_TRY(next_marked(in, out->json ? "\n" : in->o.separator, bytes, out));
        // Nothing lies between two separators, nor after the last one.
        const size_t n = bytes->n - out->at;
        if (!out->begins || !out->ends || (out->json ? !blank(bytes->p + out->at, n) : n > 0))
            return DRV_OK;
        in->number += out->json;
        bytes->n = out->at;
    }
}

drv_status reader_next(reader *in, str *bytes, record *out, reader_event *event) {
    if (!in->f) {
        *event = READER_END;
        if (in->next == in->n_files) return DRV_OK;
        DRV_TRY(open_next(in));
    }
    *event = READER_RECORD;
    *out = (record){.at = bytes->n,
            .file = in->next - 1,
            .json = in->f->kind == INPUT_JSONL || (in->table && in->o.lines),
            .begins = true,
            .ends = true};
    bool done;
    DRV_TRY(next_of_file(in, bytes, out, &done));
    if (done) {
        close_file(in);
        *event = READER_FILE_DONE;
        return DRV_OK;
    }
    if (out->begins) in->number++;
    out->number = in->number;
    out->n = bytes->n - out->at;
    return DRV_OK;
}

int reader_files_done(const reader *in) {
    return in->f ? in->next - 1 : in->next;
}

const input_file *reader_files(const reader *in, int *n) {
    if (n) *n = in->n_files;
    return in->files;
}

const reader_opts *reader_options(const reader *in) {
    return &in->o;
}

int64_t reader_bytes(const reader *in, int64_t *total) {
    *total = in->bytes_total;
    const int64_t within = in->stream       ? byte_stream_where(in->stream)
                           : in->source.ops ? in->source.ops->where(in->source.state)
                                            : 0;
    return in->bytes_before + within;
}

drv_status reader_no_document(const reader *in, int64_t skipped) {
    const char *name = in->n_files ? in->files[0].name : "the input";
    str others = {0}, why = {0};
    if (in->n_files > 1)
        str_printf(&others, " and %d other file%s", in->n_files - 1, str_plural(in->n_files - 1));
    if (skipped)
        str_printf(&why, ": %s skipped", skipped == 1 ? "its one record was" : "all records were");
    const drv_status status = drv_fail(DRV_E_DATA, "%s%s: no document in %s%s", name,
            others.p ? others.p : "", in->n_files > 1 ? "them" : "it", why.p ? why.p : "");
    str_free(&others);
    str_free(&why);
    return status;
}
