// The message of the last error, one for each thread, and the end of the process when an
// assertion fails.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char message[2048];

drv_status drv_fail(drv_status code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    return code;
}

drv_status drv_context(drv_status code, const char *fmt, ...) {
    char old[sizeof message];
    memcpy(old, message, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof message)
        snprintf(message + n, sizeof message - (size_t)n, ": %s", old);
    return code;
}

const char *drv_message(void) {
    return message;
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
