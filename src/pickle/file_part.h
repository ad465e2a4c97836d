// Reads a part of a file, or of memory, by offset. The file is not mapped, so truncating it
// meanwhile causes an error instead of a signal.
#pragma once
#include <stdint.h>

#include "base/status.h"

typedef struct file_part {
    const char *path;            // for messages
    int fd;                      // -1: the bytes are in `memory`
    const unsigned char *memory; // not owned
    int64_t base;                // where the part begins in the file
    int64_t size;
} file_part;

// Reads bytes [at, at + n) of the part, which are within its size.
DRV_CHECKED drv_status file_part_read(const file_part *part, int64_t at, int64_t n, void *out);
