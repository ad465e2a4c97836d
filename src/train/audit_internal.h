// A running audit, shared by audit_open.c, which prepares the replay, and audit.c, which compares.
#pragma once
#include "base/json_lines.h"
#include "train/audit.h"

typedef struct audit {
    arena *a;
    const char *run_dir, *path; // of hashes.jsonl
    audit_result *result;
    int64_t equal_to; // the last step that is known to be equal; initially that of the checkpoint
    // On rank 0: the next line to compare, and whether it belongs to the current step.
    json_lines lines;
    json_t *line;
    bool at_step;
} audit;
