// A file that is only ever appended to while a program runs: figures, a journal. What a full disk
// did not take is kept in memory and written before what comes next, so nothing is lost or torn by
// it unless the program ends first.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct append_file append_file;

// Opens it as file_append does. `path` is kept.
DRV_CHECKED drv_status append_file_open(arena *a, const char *path, append_file **out);
// Adds bytes that belong together, such as a line, and writes all that is kept. DRV_E_FULL,
// DRV_E_IO: not all of it could be written; it is tried again with what is added next. What would
// make it more than 64 MiB is left out.
DRV_CHECKED drv_status append_file_add(append_file *f, const void *bytes, size_t n);
DRV_CHECKED drv_status append_file_sync(append_file *f); // fsync
void append_file_close(append_file *f);                  // fine with NULL
