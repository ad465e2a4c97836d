// An audit under way, for its two files: audit_open.c prepares the replay, audit.c compares.
#pragma once
#include "base/json_lines.h"
#include "train/audit.h"

typedef struct audit {
    arena *a;
    const char *run_dir, *path; // of hashes.jsonl
    audit_result *result;
    int64_t equal_to; // the last step that is known to be equal; at first that of the checkpoint
    // Rank 0's: the line that is the next one to be compared, and whether it is of the step at hand.
    json_lines lines;
    json_t *line;
    bool at_step;
} audit;
