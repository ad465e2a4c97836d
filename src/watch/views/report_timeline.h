// The time line of a report: the attempts of a run in order, each attempt's failures after its
// first, and what the launcher did between attempts.
#pragma once
#include "watch/views/watched_run.h"

enum { MAX_TIMELINE_ROWS = 400 };

typedef struct timeline_row {
    const ledger_attempt *attempt; // NULL: the row is an event
    double at_s;                   // time of an event, in seconds since the first start
    bool fault;
    const char *words;
} timeline_row;

typedef struct timeline {
    timeline_row *rows;
    int n;
    int64_t left_out; // rows beyond MAX_TIMELINE_ROWS
} timeline;

// Makes the time line of the run as it was last read; its rows live in `a`. Without a journal there
// are none.
timeline report_timeline(arena *a, const watched_run *run);
