// A file that a running program only appends to, such as metrics or a journal. Bytes that a full
// disk did not accept stay in memory and are written before the next ones, so that nothing is lost
// or torn unless the program ends first.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct append_file append_file;

// Opens it as file_append does. `path` is kept.
DRV_CHECKED drv_status append_file_open(arena *a, const char *path, append_file **out);
// Appends bytes that belong together, such as a line, and writes everything pending. DRV_E_FULL,
// DRV_E_IO: not all could be written; the next call tries again. Bytes beyond 64 MiB of pending
// ones are dropped.
DRV_CHECKED drv_status append_file_add(append_file *f, const void *bytes, size_t n);
DRV_CHECKED drv_status append_file_sync(append_file *f); // fsync
void append_file_close(append_file *f);                  // NULL is allowed
