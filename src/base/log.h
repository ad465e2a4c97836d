// Messages on standard error, and in the run's log.txt after log_open_file. Thread-safe. On a
// terminal a status line stays below the messages.
#pragma once
#include <stdbool.h>

#include "base/status.h"

void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Prints why the program ends, "drover: ...", on standard error only.
void log_failure(const char *message);
bool log_failure_said(void); // whether this process has called log_failure
// Prints whole lines in place of the status line, before _exit. A signal handler may call it.
void log_last_words(const char *lines, size_t n);
// Waits up to a second until the reader of standard error has read everything, if it is a pipe: a
// launcher that ends a job loses unread messages.
void log_drain(void);
// Writes a message only to the file, not to the screen.
void log_file_only(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Appends messages to a file from now on, beginning with the earlier ones.
DRV_CHECKED drv_status log_open_file(const char *path);
void log_close_file(void);
// Hides information and the status line from the screen from now on, but not warnings.
void log_to_file_only(bool on);
// Drops information and status lines of this thread from now on: another thread prints the same.
void log_mute_thread(bool on);

// A part of a line. On a narrow terminal the fields with the highest rank are dropped first; one
// with rank 0 is only shortened.
typedef struct log_field {
    const char *text;
    int rank;
} log_field;

// Writes one line of fields, two spaces apart: on a terminal as many as fit, in the file and on
// anything else all of them.
void log_fields(const log_field *fields, int n);

// Shows the status line. It is redrawn in place, at most ten times a second, and is never wider
// than the terminal, also when that is resized. If standard error is not a terminal, an ordinary
// line is printed every ten seconds, so work that is done sooner prints none.
void progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void progress_fields(const log_field *fields, int n_fields);
// Removes the status line from the screen.
void progress_end(void);

// Returns whether standard error is a terminal that can move its cursor.
bool log_is_terminal(void);
// Returns whether messages may have characters beyond ASCII (terminal_is_utf8 of standard error).
bool log_is_utf8(void);
// Returns whether output may have characters beyond ASCII: the locale is one of UTF-8, or the
// output is not a terminal and the locale names no other encoding, as ".ISO-8859-1" does.
bool terminal_is_utf8(int descriptor);
// Returns whether it is a terminal that knows colours and NO_COLOR is not set (no-color.org).
bool terminal_has_colour(int descriptor);
