// Writes and reads the columns of ranks/status.
#include "watch/files/rank_table.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
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
enum {
    RANK,
    HOST,
    PID,
    STEP,
    PROGRAM,
    OPERATION,
    SINCE,
    HEARD,
    COMPUTE,
    WAIT,
    DATA,
    SAVE,
    RESIDENT,
    PLANNED,
    DEVICE,
    SENT,
    ARITHMETIC,
    N_COLUMNS
};
static const struct {
    const char *title;
    int width;
} columns[N_COLUMNS] = {
        [RANK] = {"rank", 6},
        [HOST] = {"host", 20},
        [PID] = {"process", 7},
        [STEP] = {"step", 9},
        [PROGRAM] = {"program", 8},
        [OPERATION] = {"operation", 24},
        [SINCE] = {"since s", 7},
        [HEARD] = {"heard s", 6},
        [COMPUTE] = {"compute", 7},
        [WAIT] = {"wait", 7},
        [DATA] = {"data", 7},
        [SAVE] = {"save", 7},
        [RESIDENT] = {"held KiB", 10},
        [PLANNED] = {"plan KiB", 10},
        [DEVICE] = {"dev. KiB", 10},
        [SENT] = {"sent KiB", 10},
        [ARITHMETIC] = {"arithmetic", 11},
};

static int column_offset(int column) {
    int offset = 0;
    for (int i = 0; i < column; i++)
        offset += columns[i].width + 1;
    return offset;
}

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

static void put_text(char *line, int offset, int width, const char *text) {
    for (int i = 0; i < width && text[i]; i++)
        line[offset + i] = (char)(text[i] >= ' ' && text[i] < 127 ? text[i] : '?');
}

// Aligns a number to the right of its column. One that is too wide loses decimals, then becomes
// nines.
static void put_number(char *line, int column, double value, int decimals) {
    const int width = columns[column].width;
    char text[64];
    if (!(value >= 0)) return;
    int n = snprintf(text, sizeof text, "%.*f", decimals, fmin(value, 1e18));
    if (n > width) n = snprintf(text, sizeof text, "%.0f", fmin(value, 1e18));
    if (n > width) {
        memset(text, '9', (size_t)width);
        n = width;
    }
    memcpy(line + column_offset(column) + width - n, text, (size_t)n);
}

static void put_count(char *line, int column, int64_t value) {
    put_number(line, column, (double)value, 0);
}

static void put_word(char *line, int column, const char *text) {
    put_text(line, column_offset(column), columns[column].width, text);
}

static void put_row(char *line, int rank, const rank_row *row) {
    memset(line, ' ', RANK_LINE);
    put_count(line, RANK, rank);
    put_word(line, HOST, row->host);
    put_count(line, PID, row->pid);
    put_count(line, STEP, row->step);
    put_word(line, PROGRAM, row->program);
    put_word(line, OPERATION, row->op);
    put_number(line, SINCE, row->since_s, 1);
    if (row->ended)
        put_word(line, HEARD, "ended");
    else
        put_number(line, HEARD, row->heard_s, 1);
    put_number(line, COMPUTE, row->compute_s, 3);
    put_number(line, WAIT, row->wait_s, 3);
    put_number(line, DATA, row->data_s, 3);
    put_number(line, SAVE, row->save_s, 3);
    put_count(line, RESIDENT, row->resident >> 10);
    put_count(line, PLANNED, row->planned >> 10);
    put_count(line, DEVICE, row->device >> 10);
    put_count(line, SENT, row->sent >> 10);
    put_word(line, ARITHMETIC, row->arithmetic);
    close_line(line);
}

void rank_table_format(const rank_row *rows, int n, double time, char *out) {
    char text[RANK_LINE];
    memset(out, ' ', HEAD_LINES * RANK_LINE);
    snprintf(text, sizeof text, "drover ranks %d: %d ranks, %d bytes a line, time %.3f",
            RANK_TABLE_VERSION, n, RANK_LINE, time);
    put_text(out, 0, CONTENT, text);
    close_line(out);
    for (int i = 0; i < N_COLUMNS; i++)
        put_word(out + RANK_LINE, i, columns[i].title);
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
// Returns a field without the spaces around it.
static void get_word(const char *line, int column, char *out, size_t size) {
    const char *cell = line + column_offset(column);
    int n = columns[column].width;
    for (; n > 0 && cell[n - 1] == ' '; n--) {
    }
    for (; n > 0 && *cell == ' '; cell++, n--) {
    }
    if (n > (int)size - 1) n = (int)size - 1;
    memcpy(out, cell, (size_t)n);
    out[n] = 0;
    for (char *p = out; p < out + n; p++)
        if (*p < ' ' || *p > '~') *p = '?';
}

// Reads a number; an empty field leaves *out as it is.
static bool get_number(const char *line, int column, double *out) {
    char text[32];
    double value;
    get_word(line, column, text, sizeof text);
    if (!*text) return true;
    if (!str_to_f64(text, &value) || value < 0) return false;
    *out = value;
    return true;
}

static bool get_count(const char *line, int column, int64_t *out) {
    char text[32];
    int64_t value;
    get_word(line, column, text, sizeof text);
    if (!*text) return true;
    if (!str_to_i64(text, &value) || value < 0) return false;
    *out = value;
    return true;
}

static bool get_kib(const char *line, int column, int64_t *out) {
    int64_t kib = 0;
    if (!get_count(line, column, &kib)) return false;
    *out = kib * 1024; // ten digits at most
    return true;
}

static bool get_row(const char *line, int rank, rank_row *row) {
    char heard[8];
    int64_t number = -1;
    rank_row read = {.known = true, .pid = -1, .step = -1};
    get_word(line, HOST, read.host, sizeof read.host);
    get_word(line, PROGRAM, read.program, sizeof read.program);
    get_word(line, OPERATION, read.op, sizeof read.op);
    get_word(line, ARITHMETIC, read.arithmetic, sizeof read.arithmetic);
    get_word(line, HEARD, heard, sizeof heard);
    read.ended = strcmp(heard, "ended") == 0;
    const bool good =
            line_is_whole(line) && get_count(line, RANK, &number) && number == rank &&
            get_count(line, PID, &read.pid) && get_count(line, STEP, &read.step) &&
            get_number(line, SINCE, &read.since_s) &&
            (read.ended || get_number(line, HEARD, &read.heard_s)) &&
            get_number(line, COMPUTE, &read.compute_s) && get_number(line, WAIT, &read.wait_s) &&
            get_number(line, DATA, &read.data_s) && get_number(line, SAVE, &read.save_s) &&
            get_kib(line, RESIDENT, &read.resident) && get_kib(line, PLANNED, &read.planned) &&
            get_kib(line, DEVICE, &read.device) && get_kib(line, SENT, &read.sent);
    if (good) *row = read;
    return good;
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
