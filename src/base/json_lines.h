// A file of JSON objects, one a line (JSON Lines), read in one pass with bounded memory, also while
// it is being written.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"

enum { JSON_LINE_MAX = 1 << 25 }; // bytes; a longer line is not read and ends the reading

typedef struct json_lines {
    int fd;
    const char *path;
    str buffer;       // bytes of the file
    size_t taken;     // how many of them were returned as lines
    int64_t offset;   // in the file, where reading continues
    int64_t n_broken; // lines that are not JSON objects
    bool too_long;    // a line was too long: neither it nor later lines are read
    int error;        // errno of the last read if that failed, else 0
    double until_s;   // by clock_s: reading stops then; 0: no limit
} json_lines;

// Opens a file; `path` must outlive the reader. `regular`: refuses pipes and devices at once.
DRV_CHECKED drv_status json_lines_open(const char *path, bool regular, json_lines *out);
// Returns the next object, which the caller owns. NULL: there is no further whole line, a line was
// too long, reading failed, or until_s is over. The next call finds lines that were appended in the
// meantime; a last line without a line feed waits for its end.
json_t *json_lines_next(json_lines *self);
// DRV_E_IO: the last call could not read the file.
DRV_CHECKED drv_status json_lines_status(const json_lines *self);
// Returns whether the file at `path` was replaced, or is shorter than the part that was read.
bool json_lines_replaced(const json_lines *self);
void json_lines_close(json_lines *self); // allowed if all is 0 and fd is -1
