// Messages on standard error, and in the run's log.txt after log_open_file. Thread-safe. On a
// terminal a status line stays below the messages.
#pragma once
#include <stdbool.h>

#include "base/status.h"

void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Prints why the program ends, "drover: ...", only on standard error.
void log_failure(const char *message);
bool log_failure_said(void); // by this process
// Whole lines before _exit, in place of the status line. May be called by a signal handler.
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
// Drops information and the status line of this thread from now on, since another thread prints the
// same.
void log_mute_thread(bool on);

// A part of a line. On a narrow terminal the fields of the highest rank are dropped first; one of
// rank 0 is only shortened.
typedef struct log_field {
    const char *text;
    int rank;
} log_field;

// Writes one line of fields, two spaces apart: as many as fit on a terminal, all of them in the
// file and where the screen is not a terminal.
void log_fields(const log_field *fields, int n);

// Shows the status line: redrawn in place, never wider than the terminal, also when that is
// resized. Where the screen is not a terminal it is an ordinary line, printed every ten seconds:
// work that is done sooner prints none.
void progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void progress_fields(const log_field *fields, int n_fields);
// Removes the status line from the screen.
void progress_end(void);

// Standard error is a terminal that can move its cursor.
bool log_is_terminal(void);
// Messages may have characters beyond ASCII: the locale says UTF-8, or standard error is a file.
bool log_is_utf8(void);
// The same of any descriptor.
bool terminal_is_utf8(int descriptor);
// Returns whether it is a terminal that knows colours, and nobody asked for none (NO_COLOR, as
// no-color.org has it).
bool terminal_has_colour(int descriptor);
