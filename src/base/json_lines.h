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
    str buffer;       // read and not yet taken
    size_t taken;     // of the buffer
    int64_t offset;   // of the file: where reading goes on
    int64_t n_broken; // lines that are not JSON objects
    bool too_long;    // a line was too long: neither it nor later lines are read
    double until_s;   // by clock_s: reading stops then; 0: no limit
} json_lines;

// `path` must outlive it; `regular`: pipes and devices are refused at once. DRV_E_IO.
DRV_CHECKED drv_status json_lines_open(const char *path, bool regular, json_lines *out);
// Returns the next object, which the caller owns; NULL at the end of the whole lines, after a line
// that is too long, or when until_s is over. What is appended later is found by the next call; a
// last line without a line feed is left for then.
json_t *json_lines_next(json_lines *self);
// Returns whether the file at `path` was replaced, or is shorter than the part that was read.
bool json_lines_replaced(const json_lines *self);
void json_lines_close(json_lines *self); // fine when all is 0 but fd, -1
