// The message of the last error, one for each thread, and the end of the process when an
// assertion fails.
#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// The longest lists all keys of another trainer's file (config/unknown_key.c).
static _Thread_local char message[8192];

// Returns the length of `text`, at most `n` bytes, without a character that would be cut.
static size_t whole_characters(const char *text, size_t n) {
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--;
    return n;
}

// Copies `text` on one line, whatever characters a file name or a value contains. A text that is
// too long loses its middle, since it begins with the place and ends with what was expected.
static void copy_line(char *out, size_t cap, const char *text) {
    static const char gap[] = " ... ";
    const size_t n = strlen(text), half = (cap - sizeof gap) / 2;
    if (n < cap) {
        memcpy(out, text, n + 1);
    } else {
        const size_t head = whole_characters(text, half);
        const char *tail = text + n - half;
        while (((unsigned char)*tail & 0xC0) == 0x80)
            tail++;
        snprintf(out, cap, "%.*s%s%s", (int)head, text, gap, tail);
    }
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F) *c = '?';
}

static void record(const char *text) {
    copy_line(message, sizeof message, text);
}

drv_status drv_fail(drv_status code, const char *fmt, ...) {
    char *text;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    record(n >= 0 ? text : fmt);
    if (n >= 0) free(text);
    return code;
}

drv_status drv_context(drv_status code, const char *fmt, ...) {
    char *context, *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    const bool formatted = vasprintf(&context, fmt, ap) >= 0;
    va_end(ap);
    if (!formatted) return code; // out of memory: the message itself stays
    if (asprintf(&text, "%s: %s", context, message) >= 0) {
        record(text);
        free(text);
    }
    free(context);
    return code;
}

const char *drv_message(void) {
    return message;
}

void drv_save(drv_status status, drv_saved *out) {
    out->status = status;
    copy_line(out->message, sizeof out->message, status == DRV_OK ? "" : message);
}

drv_status drv_restore(const drv_saved *saved) {
    return saved->status == DRV_OK ? DRV_OK : drv_fail(saved->status, "%s", saved->message);
}

void drv_out_of_memory(const char *fmt, ...) {
    char line[512], what[256], limit[96] = "";
    struct rlimit space;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        snprintf(limit, sizeof limit, "; the limit of this process is %llu KiB (ulimit -v)",
                (unsigned long long)space.rlim_cur >> 10);
    const int n = snprintf(line, sizeof line, "drover: out of memory: %s%s\n", what, limit);
    const ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written; // there is nobody left to tell
    _exit(1);
}

void drv_abort(const char *file, int line, const char *cond, const char *fmt, ...) {
    fprintf(stderr, "drover: internal error at %s:%d: %s: ", file, line, cond);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}
