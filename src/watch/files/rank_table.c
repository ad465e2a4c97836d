// Writes and reads the columns of ranks/status.
#include "watch/files/rank_table.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/str.h"

enum { SUM_DIGITS = 8, CONTENT = RANK_LINE - SUM_DIGITS - 2, HEAD_LINES = 2, TRIES = 4 };

// The columns in the order of the line; a space separates them.
typedef enum column_type { RANK, TEXT, COUNT, KIB, TENTHS, THOUSANDTHS, HEARD } column_type;
typedef struct column {
    const char *title;
    int width;
    column_type type;
    size_t offset;   // in rank_row
    const char *key; // as JSON
} column;
#define MEMBER(name) offsetof(rank_row, name)
static const column columns[] = {{"rank", 6, RANK, 0, "rank"},
        {"host", 20, TEXT, MEMBER(host), "host"}, {"process", 7, COUNT, MEMBER(pid), "pid"},
        {"step", 9, COUNT, MEMBER(step), "step"}, {"program", 8, TEXT, MEMBER(program), "program"},
        {"operation", 24, TEXT, MEMBER(op), "operation"},
        {"since s", 7, TENTHS, MEMBER(since_s), "since_s"},
        {"heard s", 6, HEARD, MEMBER(heard_s), "heard_s"},
        {"compute", 7, THOUSANDTHS, MEMBER(compute_s), "compute_s"},
        {"wait", 7, THOUSANDTHS, MEMBER(wait_s), "wait_s"},
        {"data", 7, THOUSANDTHS, MEMBER(data_s), "data_s"},
        {"save", 7, THOUSANDTHS, MEMBER(save_s), "save_s"},
        {"held KiB", 10, KIB, MEMBER(resident), "resident_bytes"},
        {"plan KiB", 10, KIB, MEMBER(planned), "planned_bytes"},
        {"dev. KiB", 10, KIB, MEMBER(device), "device_bytes"},
        {"sent KiB", 10, KIB, MEMBER(sent), "sent_bytes"},
        {"arithmetic", 11, TEXT, MEMBER(arithmetic), "arithmetic"}};
enum { N_COLUMNS = sizeof columns / sizeof *columns, WIDEST = 24 };

// --- lines
static uint32_t sum_of(const char *line) { // FNV-1a, 32 bit
    uint32_t h = 2166136261u;
    for (int i = 0; i < CONTENT; i++)
        h = (h ^ (unsigned char)line[i]) * 16777619u;
    return h;
}

static void close_line(char *line) {
    char digits[SUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08x", sum_of(line));
    line[CONTENT] = ' ';
    memcpy(line + CONTENT + 1, digits, SUM_DIGITS);
    line[RANK_LINE - 1] = '\n';
}

static bool line_is_whole(const char *line) {
    char digits[SUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08x", sum_of(line));
    return line[CONTENT] == ' ' && line[RANK_LINE - 1] == '\n' &&
           memcmp(line + CONTENT + 1, digits, SUM_DIGITS) == 0;
}

static void put_text(char *cell, int width, const char *text) {
    for (int i = 0; i < width && text[i]; i++)
        cell[i] = (char)(text[i] >= ' ' && text[i] < 127 ? text[i] : '?');
}

// Aligns a number to the right of its cell. One that is too wide loses decimals, then becomes nines.
static void put_number(char *cell, int width, double value, int decimals) {
    char text[64];
    if (!(value >= 0)) return;
    int n = snprintf(text, sizeof text, "%.*f", decimals, fmin(value, 1e18));
    if (n > width) n = snprintf(text, sizeof text, "%.0f", fmin(value, 1e18));
    if (n > width) {
        memset(text, '9', (size_t)width);
        n = width;
    }
    memcpy(cell + width - n, text, (size_t)n);
}

static void put_cell(char *cell, const column *col, int rank, const rank_row *row) {
    const void *from = (const char *)row + col->offset;
    switch (col->type) {
    case RANK:
        put_number(cell, col->width, rank, 0);
        break;
    case TEXT:
        put_text(cell, col->width, from);
        break;
    case COUNT:
        put_number(cell, col->width, (double)*(const int64_t *)from, 0);
        break;
    case KIB:
        put_number(cell, col->width, (double)(*(const int64_t *)from >> 10), 0);
        break;
    case HEARD:
    case TENTHS:
    case THOUSANDTHS:
        if (col->type == HEARD && row->ended)
            put_text(cell, col->width, "ended");
        else
            put_number(cell, col->width, *(const double *)from, col->type == THOUSANDTHS ? 3 : 1);
    }
}

static void put_row(char *line, int rank, const rank_row *row) {
    char *cell = line;
    memset(line, ' ', RANK_LINE);
    for (int i = 0; i < N_COLUMNS; cell += columns[i++].width + 1)
        put_cell(cell, &columns[i], rank, row);
    close_line(line);
}

void rank_table_format(const rank_row *rows, int n, double time, char *out) {
    char text[RANK_LINE];
    memset(out, ' ', HEAD_LINES * RANK_LINE);
    snprintf(text, sizeof text, "drover ranks %d: %d ranks, %d bytes a line, time %.3f",
            RANK_TABLE_VERSION, n, RANK_LINE, time);
    put_text(out, CONTENT, text);
    close_line(out);
    char *cell = out + RANK_LINE;
    for (int i = 0; i < N_COLUMNS; cell += columns[i++].width + 1)
        put_text(cell, columns[i].width, columns[i].title);
    close_line(out + RANK_LINE);
    for (int i = 0; i < n; i++)
        put_row(out + (HEAD_LINES + i) * RANK_LINE, i, &rows[i]);
}

// --- writing
struct rank_table_writer {
    int fd, n;
    const char *path;
    char *bytes;
};

// Replaces the file by a symbolic link to one in status_dir.
static drv_status link_to(arena *a, const char *run_dir, const char *status_dir, const char *path,
        const char **target) {
    DRV_TRY(dir_make(status_dir));
    char *full_run = realpath(run_dir, NULL), *full_dir = realpath(status_dir, NULL);
    const drv_status found = !full_run   ? file_fail("find", run_dir)
                             : !full_dir ? file_fail("find", status_dir)
                                         : DRV_OK;
    if (found == DRV_OK)
        *target = arena_printf(a, "%s/drover-ranks-%016llx", full_dir,
                (unsigned long long)hash_name(full_run));
    free(full_run);
    free(full_dir);
    if (found != DRV_OK) return found;
    if (unlink(path) != 0 && errno != ENOENT) return file_fail("remove", path);
    return symlink(*target, path) == 0 ? DRV_OK : file_fail("link", path);
}

static drv_status open_file(rank_table_writer *w) {
    struct stat is;
    // O_NONBLOCK: the file may be a pipe that nobody reads.
    w->fd = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (w->fd < 0) return file_fail("open", w->path);
    drv_status status = DRV_OK;
    if (fstat(w->fd, &is) != 0 || !S_ISREG(is.st_mode))
        status = drv_fail(DRV_E_IO, "could not write \"%s\": expected a file on a disk", w->path);
    else if (ftruncate(w->fd, (off_t)(w->n + HEAD_LINES) * RANK_LINE) != 0)
        status = file_fail("write", w->path);
    if (status != DRV_OK) close(w->fd);
    return status;
}

drv_status rank_table_open(arena *a, const char *run_dir, const char *status_dir, int n_ranks,
        rank_table_writer **out) {
    const char *dir = path_join(a, run_dir, "ranks"), *path = path_join(a, dir, "status");
    struct stat is;
    DRV_ASSERT(n_ranks > 0 && n_ranks <= RANK_TABLE_MAX, "%d ranks", n_ranks);
    DRV_TRY(dir_make(dir));
    if (*status_dir)
        DRV_TRY(link_to(a, run_dir, status_dir, path, &path));
    else if (lstat(path, &is) == 0 && S_ISLNK(is.st_mode) && unlink(path) != 0)
        return file_fail("remove", path);
    rank_table_writer *w = ARENA_NEW(a, rank_table_writer);
    *w = (rank_table_writer){.n = n_ranks,
            .path = path,
            .bytes = arena_alloc(a, (size_t)(n_ranks + HEAD_LINES) * RANK_LINE)};
    DRV_TRY(open_file(w));
    *out = w;
    return DRV_OK;
}

drv_status rank_table_write(rank_table_writer *w, const rank_row *rows) {
    rank_table_format(rows, w->n, clock_utc_s(), w->bytes);
    return file_write_at(w->fd, w->path, w->bytes, (size_t)(w->n + HEAD_LINES) * RANK_LINE, 0);
}

void rank_table_close(rank_table_writer *w) {
    if (w) close(w->fd);
}

// --- reading
// Copies the text of a cell without the spaces around it.
static void get_text(const char *cell, int width, char *out) {
    int n = width;
    for (; n > 0 && cell[n - 1] == ' '; n--) {
    }
    for (; n > 0 && *cell == ' '; cell++, n--) {
    }
    memcpy(out, cell, (size_t)n);
    out[n] = 0;
    for (char *p = out; p < out + n; p++)
        if (*p < ' ' || *p > '~') *p = '?';
}

// Reads a cell; an empty one leaves the field as it is.
static bool get_cell(const char *cell, const column *col, int rank, rank_row *row) {
    char text[WIDEST + 1];
    void *to = (char *)row + col->offset;
    int64_t count = -1;
    double number = -1;
    get_text(cell, col->width, text);
    if (col->type == TEXT) {
        memcpy(to, text, (size_t)col->width + 1);
        return true;
    }
    if (col->type == HEARD) row->ended = strcmp(text, "ended") == 0;
    if (!*text || (col->type == HEARD && row->ended)) return col->type != RANK;
    if (col->type == TENTHS || col->type == THOUSANDTHS || col->type == HEARD) {
        if (!str_to_f64(text, &number) || number < 0) return false;
        *(double *)to = number;
        return true;
    }
    if (!str_to_i64(text, &count) || count < 0) return false;
    if (col->type == RANK) return count == rank;
    *(int64_t *)to = col->type == KIB ? count * 1024 : count; // ten digits at most
    return true;
}

static bool get_row(const char *line, int rank, rank_row *row) {
    rank_row read = {.known = true, .pid = -1, .step = -1};
    const char *cell = line;
    bool good = line_is_whole(line);
    for (int i = 0; i < N_COLUMNS && good; cell += columns[i++].width + 1)
        good = get_cell(cell, &columns[i], rank, &read);
    if (good) *row = read;
    return good;
}

static json_t *cell_json(const column *col, int rank, const rank_row *row) {
    const void *from = (const char *)row + col->offset;
    switch (col->type) {
    case RANK:
        return json_integer(rank);
    case TEXT:
        return json_of_text(from);
    case COUNT:
    case KIB:
        return json_of_count(*(const int64_t *)from);
    default:
        return json_of_f64(*(const double *)from);
    }
}

json_t *rank_row_json(const rank_row *row, int rank) {
    json_t *object = json_object();
    json_object_set_new(object, "known", json_boolean(row->known));
    for (int i = 0; i < (row->known ? N_COLUMNS : 1); i++) // the first is the rank
        json_object_set_new(object, columns[i].key, cell_json(&columns[i], rank, row));
    if (row->known) json_object_set_new(object, "ended", json_boolean(row->ended));
    return object;
}

static drv_status read_head(const char *path, const char *p, size_t n, rank_table *out) {
    char text[RANK_LINE] = "";
    int version = 0, ranks = 0, width = 0, used = 0;
    double time = 0;
    if (n >= RANK_LINE) memcpy(text, p, CONTENT);
    const int found = sscanf(text, "drover ranks %9d: %9d ranks, %9d bytes a line, time %lf%n",
            &version, &ranks, &width, &time, &used);
    if (found < 1)
        return drv_fail(DRV_E_DATA,
                "\"%s\" is not a table of ranks: expected \"drover ranks %d\" first", path,
                RANK_TABLE_VERSION);
    if (version != RANK_TABLE_VERSION)
        return drv_fail(DRV_E_DATA, "\"%s\" is a table of ranks of version %d, expected %d", path,
                version, RANK_TABLE_VERSION);
    if (found < 4 || !line_is_whole(p) || width != RANK_LINE || ranks < 1 ||
            ranks > RANK_TABLE_MAX || !isfinite(time))
        return drv_fail(DRV_E_DATA, "\"%s\": the first line is torn, or not one of drover's", path);
    out->time = time;
    out->n = ranks;
    return DRV_OK;
}

drv_status rank_table_parse(arena *a, const char *path, const char *p, size_t n, rank_table *out) {
    rank_table read = {0};
    DRV_TRY(read_head(path, p, n, &read));
    read.rows = ARENA_ARRAY(a, rank_row, read.n);
    for (int i = 0; i < read.n; i++) {
        const size_t offset = (size_t)(HEAD_LINES + i) * RANK_LINE;
        const bool good = offset + RANK_LINE <= n && get_row(p + offset, i, &read.rows[i]);
        read.n_torn += !good;
    }
    *out = read;
    return DRV_OK;
}

drv_status rank_table_read(arena *a, const char *run_dir, rank_table *out) {
    const char *path = arena_printf(a, "%s/ranks/status", run_dir);
    drv_status status = DRV_OK;
    *out = (rank_table){.n_torn = 1};
    for (int i = 0; i < TRIES && out->n_torn; i++) {
        int fd;
        int64_t bytes;
        DRV_TRY(file_open_regular(path, &fd, &bytes));
        close(fd);
        if (bytes > (int64_t)(RANK_TABLE_MAX + HEAD_LINES) * RANK_LINE)
            return drv_fail(DRV_E_DATA,
                    "\"%s\" has %lld bytes, more than a table of ranks can have", path,
                    (long long)bytes);
        char *p;
        size_t n;
        DRV_TRY(file_read(a, path, &p, &n));
        status = rank_table_parse(a, path, p, n, out);
    }
    return status;
}
