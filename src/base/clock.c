// Time from the system's clocks and from /proc; peak memory from getrusage.
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double read_clock_s(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_s(void) {
    return read_clock_s(CLOCK_MONOTONIC);
}

double clock_utc_s(void) {
    return read_clock_s(CLOCK_REALTIME);
}

static struct timespec after(clockid_t clock, double seconds) {
    struct timespec t;
    clock_gettime(clock, &t);
    const int64_t ns = t.tv_nsec + (int64_t)(seconds * 1e9);
    return (struct timespec){t.tv_sec + (time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

struct timespec clock_after(double seconds) {
    return after(CLOCK_REALTIME, seconds);
}

struct timespec monotonic_after(double seconds) {
    return after(CLOCK_MONOTONIC, seconds);
}

double clock_process_s(void) {
    // Field 22 of /proc/self/stat: start time in clock ticks since boot (proc(5)).
    FILE *f = fopen("/proc/self/stat", "r");
    if (!f) return 0;
    char line[1024];
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = 0;
    char *p = strrchr(line, ')'); // the name may hold spaces
    for (int i = 0; p && i < 20; i++)
        p = strchr(p + 1, ' ');
    unsigned long long ticks;
    if (!p || sscanf(p, "%llu", &ticks) != 1) return 0;
    return read_clock_s(CLOCK_BOOTTIME) - (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

int64_t memory_peak_bytes(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (int64_t)u.ru_maxrss * 1024;
}

int64_t memory_resident_bytes(void) {
    // Second field of /proc/self/statm: pages (proc(5)).
    FILE *f = fopen("/proc/self/statm", "r");
    long long pages = 0;
    if (f && fscanf(f, "%*d %lld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}
