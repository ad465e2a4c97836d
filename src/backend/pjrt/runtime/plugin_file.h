// Checks that a file is safe to open with the dynamic loader, which crashes on a truncated file.
#pragma once
#include <stddef.h>

#include "base/status.h"

// p, n: the file's bytes. DRV_E_DEVICE: not a shared library for this machine, or a loaded segment
// is beyond the end of the file.
DRV_CHECKED drv_status plugin_file_check(const unsigned char *p, size_t n);
