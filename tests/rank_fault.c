// Built and preloaded by tests/train_rank_faults.sh: faults of one rank's machine. On rank
// FAULT_RANK, once the file FAULT_READ exists, reading a .bin fails with EIO; once FAULT_NAN
// exists, which holds the bytes that a weight of the run begins with, the first four of them become
// NaN, or the number FAULT_NUMBER, wherever they are in memory, whatever the rank is doing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

static int is_mine(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *mine = getenv("FAULT_RANK");
    return rank && mine && strcmp(rank, mine) == 0;
}

ssize_t pread64(int fd, void *to, size_t n, off64_t at);
ssize_t pread(int fd, void *to, size_t n, off_t at) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    char link[64], path[4096];
    if (!real) real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *fault = getenv("FAULT_READ"), *end = strrchr(path, '.');
    if (is_mine() && fault && end && strcmp(end, ".bin") == 0 && access(fault, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return real(fd, to, n, at);
}
ssize_t pread64(int fd, void *to, size_t n, off64_t at) {
    return pread(fd, to, n, at);
}

enum { PATTERN = 64 };

// Not memcmp(): the address sanitizer's looks whether memory may be read, and its own may not.
static int is_pattern(const unsigned char *at, const unsigned char *pattern) {
    int i = 0;
    while (i < PATTERN && at[i] == pattern[i])
        i++;
    return i == PATTERN;
}

// All places are found before any is written: a copy in an activation that became NaN long before
// the weight would have a step skipped from which the run recovers.
static void spoil(const unsigned char *pattern) {
    enum { MOST = 256 };
    static unsigned char *found[MOST];
    int n = 0;
    const char *number = getenv("FAULT_NUMBER");
    const float value = number ? strtof(number, NULL) : NAN;
    unsigned long begin, end;
    char line[512], rights[8];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) != 3 || strncmp(rights, "rw", 2))
            continue;
        // What the address sanitizer keeps of all addresses is larger than this.
        if (strchr(line, '[') || strchr(line, '/') || end - begin > 1ul << 30) continue;
        unsigned char *at = (unsigned char *)begin;
        for (; at + PATTERN <= (unsigned char *)end; at += 64)
            if (at != pattern && n < MOST && is_pattern(at, pattern)) found[n++] = at;
    }
    if (maps) fclose(maps);
    for (int i = 0; i < n; i++)
        memcpy(found[i], &value, sizeof value);
}

static void *wait_for_file(void *path) {
    static unsigned char pattern[PATTERN + 64] __attribute__((aligned(64)));
    unsigned char *unaligned = pattern + 4; // not found by its own search
    const struct timespec pause = {0, 2000000};
    FILE *f;
    while (!(f = fopen(path, "rb")))
        nanosleep(&pause, NULL);
    if (fread(unaligned, 1, PATTERN, f) == PATTERN) spoil(unaligned);
    fclose(f);
    return NULL;
}

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    const char *path = getenv("FAULT_NAN");
    if (path && is_mine()) pthread_create(&thread, NULL, wait_for_file, (void *)(uintptr_t)path);
}
