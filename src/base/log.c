#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *file;
static bool bar_drawn;
static double bar_last = -1e9;

bool log_is_terminal(void) {
    return isatty(2);
}

static void to_file(const char *level, const char *text) {
    if (!file) return;
    char stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &tm));
    fprintf(file, "%s %s%s\n", stamp, level, text);
    fflush(file);
}

__attribute__((format(printf, 2, 0))) static void emit(const char *level, const char *fmt,
        va_list ap, bool screen) {
    char text[4096];
    vsnprintf(text, sizeof text, fmt, ap);
    pthread_mutex_lock(&lock);
    if (screen) {
        if (bar_drawn) fputs("\r\033[K", stderr);
        bar_drawn = false;
        fprintf(stderr, "%s%s\n", level, text);
    }
    to_file(level, text);
    pthread_mutex_unlock(&lock);
}

void log_info(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit("", fmt, ap, true);
    va_end(ap);
}

void log_warn(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit("warning: ", fmt, ap, true);
    va_end(ap);
}

void log_file_only(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    emit("", fmt, ap, false);
    va_end(ap);
}

drv_status log_open_file(const char *path) {
    FILE *f = fopen(path, "a");
    if (!f) return drv_fail(DRV_E_IO, "could not open \"%s\": %s", path, strerror(errno));
    file = f;
    return DRV_OK;
}

void log_close_file(void) {
    if (file) fclose(file);
    file = NULL;
}

void progress(const char *fmt, ...) {
    bool terminal = log_is_terminal();
    double now = clock_s();
    if (now - bar_last < (terminal ? 0.1 : 10.0)) return;
    bar_last = now;
    va_list ap;
    va_start(ap, fmt);
    pthread_mutex_lock(&lock);
    if (terminal) fputs("\r\033[K", stderr);
    vfprintf(stderr, fmt, ap);
    if (!terminal) fputc('\n', stderr);
    fflush(stderr);
    bar_drawn = terminal;
    pthread_mutex_unlock(&lock);
    va_end(ap);
}

void progress_end(void) {
    if (bar_drawn) fputc('\n', stderr);
    bar_drawn = false;
    bar_last = -1e9;
}
