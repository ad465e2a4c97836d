// Built and preloaded by tests/train_events.sh: pauses a process, as SIGSTOP from outside does, at
// a moment that no clock can find: after it has renamed something to a path that ends in
// PAUSE_RENAMED, or before it first writes to such a path, PAUSE_WRITING. The thread that is there
// stops itself: one that stops its process may go on until another thread has taken the signal.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_named(const char *variable, const char *path) {
    const char *end = getenv(variable);
    const size_t n = strlen(path), n_end = end ? strlen(end) : 0;
    return n_end > 0 && n >= n_end && strcmp(path + n - n_end, end) == 0;
}

int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *) =
            (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    const int done = real(from, to);
    if (done == 0 && is_named("PAUSE_RENAMED", to)) raise(SIGSTOP);
    return done;
}

ssize_t write(int fd, const void *bytes, size_t n) {
    static int paused;
    ssize_t (*real)(int, const void *, size_t) =
            (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    if (!paused && is_named("PAUSE_WRITING", path)) {
        paused = 1;
        raise(SIGSTOP);
    }
    return real(fd, bytes, n);
}
