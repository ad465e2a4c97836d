// The time line of a report: the attempts of a run in their order, the failures of each beyond its
// first, and what the launcher did between them.
#pragma once
#include "watch/views/watched_run.h"

enum { MAX_TIMELINE_ROWS = 400 };

typedef struct timeline_row {
    const ledger_attempt *attempt; // NULL: the row is an event
    double at_s;                   // of an event: seconds since the first start
    bool fault;
    const char *words;
} timeline_row;

typedef struct timeline {
    timeline_row *rows;
    int n;
    int64_t left_out; // rows beyond MAX_TIMELINE_ROWS
} timeline;

// The rows live in `a`, and are of the run's last reading. Without a journal there are none.
timeline report_timeline(arena *a, const watched_run *run);
