// Built and preloaded by tests/events.bash: pauses a process, as SIGSTOP from outside does, kills
// it, interrupts it as two key presses do, holds one of its threads, as a slow disk does, or has a
// call fail, as a full disk does, at a moment that no clock can find.
// AT_EVENT="pause|kill|interrupt|hold|fail before|half|after N PATTERN": the N-th event whose line
// matches PATTERN, as of a shell, or each of them, where N is "every"; half of a write may be done.
// "fail before": the call is not made. A thread that is held makes the file HELD.held, and goes on
// when there is a file HELD.released. AT_RANK: only on this rank of MPI. EVENTS: a file that gets
// the line of every event. Their lines:
//     write PATH    cut PATH    sync PATH    read PATH    make FOLDER    rename NEW PATH    remove
//     PATH
// A disk changes by these, and by the opening of files: a kill at any other moment leaves there
// what a kill at one of these leaves.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 4400 };
typedef enum moment { NEVER, BEFORE, HALF, AFTER } moment;

// Of the next function of this name, the C library's.
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void log_line(const char *line) {
    const char *path = getenv("EVENTS");
    const int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd < 0) return;
    char text[LINE + 2];
    const int n = snprintf(text, sizeof text, "%s\n", line);
    if (REAL(write)(fd, text, (size_t)n) != n) abort();
    close(fd);
}

// When something is to happen at this event.
static moment moment_of(const char *line) {
    static atomic_int n_matches;
    const char *at = getenv("AT_EVENT"), *mine = getenv("AT_RANK"),
               *rank = getenv("OMPI_COMM_WORLD_RANK");
    char when[8], nth[16];
    int pattern;
    log_line(line);
    if (!at || (mine && (!rank || strcmp(mine, rank) != 0))) return NEVER;
    if (sscanf(at, "%*s %7s %15s %n", when, nth, &pattern) != 2) abort();
    if (fnmatch(at + pattern, line, 0) != 0) return NEVER;
    const int n = atomic_fetch_add(&n_matches, 1) + 1;
    if (strcmp(nth, "every") != 0 && n != strtol(nth, NULL, 10)) return NEVER;
    return when[0] == 'b' ? BEFORE : when[0] == 'h' ? HALF : AFTER;
}

static void hold(void) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s.held", getenv("HELD"));
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    snprintf(path, sizeof path, "%s.released", getenv("HELD"));
    while (access(path, F_OK) != 0)
        usleep(1000);
}

// The thread that is there sends the signal to itself: one that stops its process may go on until
// another thread has taken the signal. Two presses are 0.2 s apart: less than 0.1 s are one.
static void act(moment due, moment now) {
    if (due != now) return;
    const char what = getenv("AT_EVENT")[0];
    if (what == 'f') return;
    if (what == 'h') {
        hold();
        return;
    }
    raise(what == 'k' ? SIGKILL : what == 'i' ? SIGINT : SIGSTOP);
    if (what != 'i') return;
    usleep(200000);
    raise(SIGINT);
}

static bool fails(moment due) {
    if (due != BEFORE || getenv("AT_EVENT")[0] != 'f') return false;
    errno = ENOSPC;
    return true;
}

// "WHAT PATH", or "WHAT FOLDER/PATH" with the folder that is open as `fd`.
static moment moment_at(const char *what, int fd, const char *path) {
    char line[LINE], link[64], folder[PATH_MAX] = "";
    const int error = errno;
    if (fd >= 0 && (!path || path[0] != '/')) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(link, folder, sizeof folder - 1);
        folder[n > 0 ? n : 0] = 0;
    }
    snprintf(line, sizeof line, "%s %s%s%s", what, folder, *folder && path ? "/" : "",
            path ? path : "");
    const moment due = moment_of(line);
    errno = error;
    return due;
}

// Does `call` once what is due before it is done.
#define EVENT(type, what, fd, path, call)                                                          \
    do {                                                                                           \
        const moment due = moment_at(what, fd, path);                                              \
        if (fails(due)) return -1;                                                                 \
        act(due, BEFORE);                                                                          \
        const type done = call;                                                                    \
        if (done >= 0) act(due, AFTER);                                                            \
        return done;                                                                               \
    } while (0)

ssize_t write(int fd, const void *bytes, size_t n) {
    const moment due = moment_at("write", fd, NULL);
    if (fails(due)) return -1;
    act(due, BEFORE);
    const ssize_t done = REAL(write)(fd, bytes, due == HALF ? n / 2 : n);
    act(due, due == HALF ? HALF : AFTER);
    return done;
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
    const moment due = moment_at("write", fd, NULL);
    if (fails(due)) return -1;
    act(due, BEFORE);
    const ssize_t done = REAL(pwrite)(fd, bytes, due == HALF ? n / 2 : n, at);
    act(due, due == HALF ? HALF : AFTER);
    return done;
}
ssize_t pread(int fd, void *to, size_t n, off_t at) {
    EVENT(ssize_t, "read", fd, NULL, REAL(pread)(fd, to, n, at));
}
int fsync(int fd) {
    EVENT(int, "sync", fd, NULL, REAL(fsync)(fd));
}
int fdatasync(int fd) {
    EVENT(int, "sync", fd, NULL, REAL(fdatasync)(fd));
}
int ftruncate(int fd, off_t n) {
    EVENT(int, "cut", fd, NULL, REAL(ftruncate)(fd, n));
}
int mkdir(const char *path, mode_t mode) {
    EVENT(int, "make", -1, path, REAL(mkdir)(path, mode));
}
int rename(const char *from, const char *to) {
    EVENT(int, "rename", -1, to, REAL(rename)(from, to));
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    EVENT(int, "rename", to_dir, to, REAL(renameat)(from_dir, from, to_dir, to));
}
int unlink(const char *path) {
    EVENT(int, "remove", -1, path, REAL(unlink)(path));
}
int unlinkat(int dir, const char *path, int flags) {
    EVENT(int, "remove", dir, path, REAL(unlinkat)(dir, path, flags));
}
