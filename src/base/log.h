// Messages to a person: on stderr, and in the run's log.txt once log_open_file was called.
#pragma once
#include <stdbool.h>

#include "base/status.h"

void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Only into the file: lines that a terminal sees as a progress bar instead.
void log_file_only(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
DRV_CHECKED drv_status log_open_file(const char *path); // appends
void log_close_file(void);

// One line that is redrawn in place on a terminal. On anything else it is an ordinary line, printed
// at most every ten seconds. progress_end leaves the last state standing.
void progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void progress_end(void);
bool log_is_terminal(void);
