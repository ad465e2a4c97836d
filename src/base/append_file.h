// A file that a running program only appends to, such as metrics or a journal. Bytes that a full
// disk did not accept stay in memory and are written before the next ones, so that nothing is lost
// or torn unless the program ends first, or more than 64 MiB are pending.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct append_file append_file;

// Opens the file as file_append does. `path` must live as long as the result.
DRV_CHECKED drv_status append_file_open(arena *a, const char *path, append_file **out);
// Writes everything pending and then these bytes, which belong together, such as a line.
// DRV_E_FULL, DRV_E_IO: not all could be written; the next call tries again. The new bytes are
// dropped if more than 64 MiB would then be pending.
DRV_CHECKED drv_status append_file_add(append_file *f, const void *bytes, size_t n);
DRV_CHECKED drv_status append_file_sync(append_file *f); // fsync
void append_file_close(append_file *f);                  // NULL is allowed
