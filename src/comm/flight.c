// The record of a rank's last operations: a file with lines of equal width, written in place, so
// that it is complete after kill -9. A line costs about a microsecond. It is not a memory map,
// since that would end the rank (SIGBUS) when somebody cuts the file short.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "comm/comm_internal.h"

enum { LINES = 64, WIDTH = 128 };

struct flight { // the file has a line of titles, then LINES
    int fd;
    char line[LINES][WIDTH]; // as they are in the file, to be completed when an operation ends
    double began[LINES];
};

static void fill_line(char line[WIDTH], const char *text) {
    memset(line, ' ', WIDTH);
    memcpy(line, text, strnlen(text, WIDTH - 1));
    line[WIDTH - 1] = '\n';
}

// A line that cannot be written is lost: the record is not worth the run.
static void write_line(const struct flight *f, int index, const char line[WIDTH]) {
    if (pwrite(f->fd, line, WIDTH, (off_t)index * WIDTH) < 0) return;
}

drv_status comm_record(comm *self, const char *dir) {
    if (self->size == 1) return DRV_OK;
    DRV_TRY(dir_make(dir));
    const char *path = arena_printf(self->a, "%s/rank-%05d.txt", dir, self->rank);
    char line[WIDTH], title[WIDTH];
    struct flight *f = ARENA_NEW(self->a, struct flight);
    f->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0) return file_fail("create", path);
    const int full = posix_fallocate(f->fd, 0, (LINES + 1) * WIDTH); // does not set errno
    if (full) {
        close(f->fd);
        errno = full;
        return file_fail("write", path);
    }
    snprintf(title, sizeof title,
            "rank %d, %s, process %d: number, step, program, operation, bytes, time", self->rank,
            self->info[self->rank].host, self->info[self->rank].pid);
    for (int i = 0; i <= LINES; i++) {
        fill_line(line, i == 0 ? title : "");
        write_line(f, i, line);
    }
    self->flight = f;
    return DRV_OK;
}

void flight_begin(struct flight *f, uint64_t sequence, const rank_status *now, int64_t bytes) {
    if (!f) return;
    char text[WIDTH], clock[16];
    struct timespec t;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &t);
    localtime_r(&t.tv_sec, &local);
    strftime(clock, sizeof clock, "%H:%M:%S", &local);
    const int at = (int)(sequence % LINES);
    f->began[at] = clock_s();
    snprintf(text, sizeof text, "%10llu  step %-8lld %-8s %-28s %12lld bytes  %s.%03d  under way",
            (unsigned long long)sequence, (long long)now->step, now->program, now->op,
            (long long)bytes, clock, (int)(t.tv_nsec / 1000000));
    fill_line(f->line[at], text);
    write_line(f, 1 + at, f->line[at]);
}

void flight_end(struct flight *f, uint64_t sequence) {
    if (!f) return;
    char text[16];
    const int at = (int)(sequence % LINES);
    char *line = f->line[at], *words = memmem(line, WIDTH, "under way", 9);
    if (!words) return;
    const int n = snprintf(text, sizeof text, "%.6f s", clock_s() - f->began[at]);
    memset(words, ' ', 9);
    if (n > 0 && words + n < line + WIDTH) memcpy(words, text, (size_t)n);
    write_line(f, 1 + at, line);
}

void flight_close(struct flight *f) {
    if (f) close(f->fd);
}
