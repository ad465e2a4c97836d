// Reads parts of metrics.jsonl without reading everything before them: the lines from a step on,
// and the newest one.
#pragma once
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"

enum { PART_RECORDS = 1000, PART_BYTES = 1 << 22 }; // limits of an answer, roughly

// Appends {"from": .., "next": .., "more": .., "records": [..]}: the records of steps from `from`
// on in the order of the file, and the step to ask for next. Lines that are not records are left
// out. DRV_E_IO: the file cannot be read; a missing file has no records.
DRV_CHECKED drv_status metrics_part(const char *path, int64_t from, str *out);

// Returns the newest whole record that has `key` in the last 256 KiB of the file; NULL: there is
// none, or the file cannot be read. The caller owns it.
json_t *metrics_newest(const char *path, const char *key);
