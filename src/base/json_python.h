// JSON as Python writes it, with numbers that JSON does not have.
#pragma once
#include "base/json.h"

// As json_read_file, but NaN, Infinity and -Infinity are read, as the texts "NaN", "Infinity" and
// "-Infinity": a config may have one in a field that nobody reads, and a reader of the field sees
// that it is not a number.
DRV_CHECKED drv_status json_read_python(const char *path, json_t **out);
