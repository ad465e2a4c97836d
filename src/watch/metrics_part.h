// The lines of metrics.jsonl from a step on, found without reading what comes before.
#pragma once
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"

enum { PART_RECORDS = 1000, PART_BYTES = 1 << 22 }; // about the most of an answer

// Appends {"from": .., "next": .., "more": .., "records": [..]}: the records of steps from `from`
// on in the order of the file, and the step to ask for next. Lines that are none are left out.
// DRV_E_IO: the file cannot be read; one that is not there has no records.
DRV_CHECKED drv_status metrics_part(const char *path, int64_t from, str *out);
