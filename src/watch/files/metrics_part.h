// Parts of metrics.jsonl, found without reading what comes before: the lines from a step on, and
// the newest one.
#pragma once
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"

enum { PART_RECORDS = 1000, PART_BYTES = 1 << 22 }; // about the most of an answer

// Appends {"from": .., "next": .., "more": .., "records": [..]}: the records of steps from `from`
// on in the order of the file, and the step to ask for next. Lines that are none are left out.
// DRV_E_IO: the file cannot be read; one that is not there has no records.
DRV_CHECKED drv_status metrics_part(const char *path, int64_t from, str *out);

// Returns the newest whole record that has `key`, as far as the last 256 KiB of the file go; NULL:
// there is none, or the file cannot be read. The caller owns it.
json_t *metrics_newest(const char *path, const char *key);
