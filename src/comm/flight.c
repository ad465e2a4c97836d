// The record of a rank's last operations: a file with lines of equal width, written in place
// through a memory map, so that it is complete after kill -9. A line costs about a microsecond.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "comm/comm_internal.h"

enum { LINES = 64, WIDTH = 128 };

struct flight {
    char *map; // a line of titles, then LINES
    double began[LINES];
};

static void put_line(struct flight *f, int line, const char *text) {
    char *begin = f->map + line * WIDTH;
    const size_t n = strnlen(text, WIDTH - 1);
    memset(begin, ' ', WIDTH);
    memcpy(begin, text, n);
    begin[WIDTH - 1] = '\n';
}

drv_status comm_record(comm *self, const char *dir) {
    if (self->size == 1) return DRV_OK;
    DRV_TRY(dir_make(dir));
    const char *path = arena_printf(self->a, "%s/rank-%05d.txt", dir, self->rank);
    const size_t bytes = (LINES + 1) * WIDTH;
    struct flight *f = ARENA_NEW(self->a, struct flight);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return file_fail("create", path);
    const int full = posix_fallocate(fd, 0, (off_t)bytes); // does not set errno
    if (!full) f->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (full) errno = full;
    if (full || f->map == MAP_FAILED) return file_fail("write", path);
    for (int i = 0; i <= LINES; i++)
        put_line(f, i, "");
    char title[WIDTH];
    snprintf(title, sizeof title,
            "rank %d, %s, process %d: number, step, program, operation, bytes, time", self->rank,
            self->info[self->rank].host, self->info[self->rank].pid);
    put_line(f, 0, title);
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
    f->began[sequence % LINES] = clock_s();
    snprintf(text, sizeof text, "%10llu  step %-8lld %-8s %-28s %12lld bytes  %s.%03d  under way",
            (unsigned long long)sequence, (long long)now->step, now->program, now->op,
            (long long)bytes, clock, (int)(t.tv_nsec / 1000000));
    put_line(f, 1 + (int)(sequence % LINES), text);
}

void flight_end(struct flight *f, uint64_t sequence) {
    if (!f) return;
    char text[16];
    char *line = f->map + (1 + (int)(sequence % LINES)) * WIDTH;
    char *words = memmem(line, WIDTH, "under way", 9);
    if (!words) return;
    const int n = snprintf(text, sizeof text, "%.6f s", clock_s() - f->began[sequence % LINES]);
    memset(words, ' ', 9);
    if (n > 0 && words + n < line + WIDTH) memcpy(words, text, (size_t)n);
}

void flight_close(struct flight *f) {
    if (f) munmap(f->map, (LINES + 1) * WIDTH);
}
