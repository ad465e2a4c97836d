#include "data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "tok/tokenizer.h"

enum { PIECE = 1 << 20 };

struct reader {
    arena *a;
    reader_opts o;
    char **files;
    int n_files, cap_files, next;
    reader_progress p;
    // the open file
    int fd;
    gzFile gz;
    ZSTD_DStream *zstd;
    char *packed; // read but not yet decompressed zstd
    size_t n_packed, at_packed;
    const char *path;
    bool jsonl, eof, given; // given: some document of this file was handed out
    int64_t line, file_start;
    str buffer; // read ahead, from `at`
    size_t at;
};

static bool is_text(const char *name) {
    static const char *const endings[] = {".txt", ".jsonl", ".json", ".md"};
    char base[4096];
    snprintf(base, sizeof base, "%s", name);
    for (int i = 0; i < 2; i++) {
        const char *z = i ? ".zst" : ".gz";
        if (str_ends(base, z)) base[strlen(base) - strlen(z)] = 0;
    }
    for (int i = 0; i < 4; i++)
        if (str_ends(base, endings[i])) return true;
    return false;
}

static drv_status add_file(reader *r, const char *path) {
    char **bigger = r->files;
    MEM_GROW(bigger, r->n_files, r->cap_files);
    r->files = bigger;
    r->files[r->n_files++] = arena_strdup(r->a, path);
    if (strcmp(path, "-") != 0) r->p.bytes_total += file_size(path);
    return DRV_OK;
}

static drv_status add_input(reader *r, const char *path, bool named) {
    if (strcmp(path, "-") == 0) return add_file(r, path);
    if (!file_exists(path))
        return drv_fail(DRV_E_IO, "could not open \"%s\": %s", path, strerror(errno));
    if (!file_is_dir(path)) return named || is_text(path) ? add_file(r, path) : DRV_OK;
    char **names;
    int n;
    DRV_TRY(dir_list(r->a, path, &names, &n));
    for (int i = 0; i < n; i++)
        DRV_TRY(add_input(r, path_join(r->a, path, names[i]), false));
    return DRV_OK;
}

drv_status reader_open(
        arena *a, const char *const *inputs, int n, const reader_opts *o, reader **out) {
    reader *r = ARENA_NEW(a, reader);
    *r = (reader){.a = a, .o = *o, .fd = -1};
    if (!r->o.json_key) r->o.json_key = "text";
    for (int i = 0; i < n; i++) {
        drv_status s = add_input(r, inputs[i], true);
        if (s != DRV_OK) {
            reader_close(r);
            return s;
        }
    }
    if (r->n_files == 0) {
        reader_close(r);
        return drv_fail(DRV_E_DATA, "no .txt or .jsonl file (or .gz, .zst of one) in \"%s\"",
                n ? inputs[0] : "");
    }
    *out = r;
    return DRV_OK;
}

static void close_file(reader *r) {
    if (r->gz)
        gzclose(r->gz);
    else if (r->fd > 0)
        close(r->fd);
    ZSTD_freeDStream(r->zstd);
    free(r->packed);
    r->gz = NULL;
    r->zstd = NULL;
    r->packed = NULL;
    r->fd = -1;
}

void reader_close(reader *r) {
    close_file(r);
    free(r->files);
    str_free(&r->buffer);
    r->files = NULL;
}

static drv_status open_next(reader *r) {
    close_file(r);
    const char *path = r->path = r->files[r->next++];
    r->fd = strcmp(path, "-") == 0 ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0) return drv_fail(DRV_E_IO, "could not open \"%s\": %s", path, strerror(errno));
    char base[4096];
    snprintf(base, sizeof base, "%s", path);
    if (str_ends(base, ".gz")) {
        base[strlen(base) - 3] = 0;
        r->gz = gzdopen(r->fd, "rb");
        DRV_ASSERT(r->gz, "gzdopen");
        gzbuffer(r->gz, 1 << 17);
    } else if (str_ends(base, ".zst")) {
        base[strlen(base) - 4] = 0;
        r->zstd = ZSTD_createDStream();
        r->packed = mem_alloc(PIECE);
        r->n_packed = r->at_packed = 0;
    }
    r->jsonl = str_ends(base, ".jsonl") || str_ends(base, ".json");
    r->eof = r->given = false;
    r->line = 0;
    str_clear(&r->buffer);
    r->at = 0;
    return DRV_OK;
}

static drv_status read_plain(reader *r, char *p, size_t n, size_t *got) {
    ssize_t k;
    do
        k = read(r->fd, p, n);
    while (k < 0 && errno == EINTR);
    if (k < 0) return drv_fail(DRV_E_IO, "could not read \"%s\": %s", r->path, strerror(errno));
    r->p.bytes_done += k;
    *got = (size_t)k;
    return DRV_OK;
}

static drv_status read_zstd(reader *r, char *p, size_t n, size_t *got) {
    ZSTD_outBuffer out = {p, n, 0};
    size_t hint = 1;
    while (out.pos == 0) {
        if (r->at_packed == r->n_packed) {
            DRV_TRY(read_plain(r, r->packed, PIECE, &r->n_packed));
            r->at_packed = 0;
            if (r->n_packed == 0) {
                if (hint != 1 && hint != 0)
                    return drv_fail(
                            DRV_E_DATA, "\"%s\" ends in the middle of a zstd frame", r->path);
                break;
            }
        }
        ZSTD_inBuffer in = {r->packed, r->n_packed, r->at_packed};
        hint = ZSTD_decompressStream(r->zstd, &out, &in);
        if (ZSTD_isError(hint))
            return drv_fail(
                    DRV_E_DATA, "\"%s\" is no valid zstd: %s", r->path, ZSTD_getErrorName(hint));
        r->at_packed = in.pos;
    }
    *got = out.pos;
    return DRV_OK;
}

// Reads more of the open file behind the buffer; sets eof.
static drv_status fill(reader *r) {
    if (r->at > PIECE) { // drop what was consumed
        memmove(r->buffer.p, r->buffer.p + r->at, r->buffer.n - r->at);
        r->buffer.n -= r->at;
        r->at = 0;
    }
    char *piece = mem_alloc(PIECE);
    size_t got = 0;
    drv_status s = DRV_OK;
    if (r->gz) {
        int k = gzread(r->gz, piece, PIECE);
        int code;
        const char *why = gzerror(r->gz, &code);
        if (k < 0 || (k == 0 && code != Z_OK && code != Z_STREAM_END))
            s = drv_fail(DRV_E_DATA, "\"%s\" is no valid gzip: %s", r->path, why);
        else
            got = (size_t)k;
        int64_t now = gzoffset(r->gz);
        if (now > r->file_start) r->p.bytes_done += now - r->file_start, r->file_start = now;
    } else if (r->zstd) {
        s = read_zstd(r, piece, PIECE, &got);
    } else {
        s = read_plain(r, piece, PIECE, &got);
    }
    if (s == DRV_OK) {
        str_add(&r->buffer, piece, got);
        r->eof = got == 0;
        if (r->eof) r->file_start = 0;
    }
    free(piece);
    return s;
}

// Up to the next `mark` (found = true) or the end of the file.
static drv_status take_until(
        reader *r, const char *mark, size_t n_mark, const char **p, size_t *n, bool *found) {
    size_t searched = r->at;
    for (;;) {
        char *at = r->buffer.n > searched
                           ? memmem(r->buffer.p + searched, r->buffer.n - searched, mark, n_mark)
                           : NULL;
        if (at || r->eof) {
            *p = r->buffer.p ? r->buffer.p + r->at : "";
            *n = at ? (size_t)(at - *p) : r->buffer.n - r->at;
            *found = at != NULL;
            r->at += *n + (at ? n_mark : 0);
            return DRV_OK;
        }
        size_t kept = r->buffer.n - r->at;
        DRV_TRY(fill(r));
        searched = r->at + (kept > n_mark ? kept - n_mark : 0);
    }
}

// One line of JSON. *ok: a document was found.
static drv_status json_line(reader *r, const char *p, size_t n, str *doc, bool *ok) {
    json_error_t e;
    json_t *v = json_loadb(p, n, JSON_ALLOW_NUL, &e);
    const json_t *text = json_object_get(v, r->o.json_key);
    *ok = json_is_string(text);
    if (*ok) {
        r->p.replaced += utf8_sanitize(json_string_value(text), json_string_length(text), doc);
        json_decref(v);
        return DRV_OK;
    }
    drv_status s = v ? drv_fail(DRV_E_DATA, "%s:%lld: no string under key \"%s\"", r->path,
                               (long long)r->line, r->o.json_key)
                     : drv_fail(DRV_E_DATA, "%s:%lld: not valid JSON: %s", r->path,
                               (long long)r->line, e.text);
    json_decref(v);
    if (r->o.strict) return s;
    if (r->p.skipped++ < 10) log_warn("skipped: %s", drv_message());
    return DRV_OK;
}

static bool blank(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", p[i])) return false;
    return true;
}

drv_status reader_next(reader *r, str *doc, bool *more) {
    const char *p;
    size_t n;
    bool found;
    str_clear(doc);
    for (;;) {
        if (r->fd < 0 || (r->eof && r->at >= r->buffer.n)) {
            if (r->next == r->n_files) {
                *more = false;
                return DRV_OK;
            }
            DRV_TRY(open_next(r));
        }
        const char *mark = r->jsonl ? "\n" : r->o.separator;
        if (mark) {
            DRV_TRY(take_until(r, mark, strlen(mark), &p, &n, &found));
        } else {
            while (!r->eof)
                DRV_TRY(fill(r));
            p = r->buffer.p ? r->buffer.p + r->at : "";
            n = r->buffer.n - r->at;
            r->at = r->buffer.n;
        }
        r->line++;
        bool ok = true;
        if (r->jsonl && blank(p, n)) continue;
        if (!r->jsonl && n == 0) continue;
        if (r->jsonl)
            DRV_TRY(json_line(r, p, n, doc, &ok));
        else
            r->p.replaced += utf8_sanitize(p, n, doc);
        if (!ok) continue;
        *more = true;
        return DRV_OK;
    }
}

reader_progress reader_where(const reader *r) {
    return r->p;
}
