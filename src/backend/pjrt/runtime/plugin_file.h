// Checks whether a file can be given to the dynamic loader, which dies of what is cut short.
#pragma once
#include <stddef.h>

#include "base/status.h"

// p, n: the file's bytes. DRV_E_DEVICE: no shared library of this machine, or one of which a loaded
// part lies beyond the end.
DRV_CHECKED drv_status plugin_file_check(const unsigned char *p, size_t n);
