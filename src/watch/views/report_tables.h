// The tables of a report, as words: both its forms print them.
#pragma once
#include "watch/views/run_report.h"

enum { REPORT_COLUMNS = 9, N_REPORT_TABLES = 6 };

typedef struct report_table {
    const char *title;
    int columns, n;
    bool has_head; // the first row has titles
    const char *(*rows)[REPORT_COLUMNS];
    int cap;
} report_table;

// Table number i, 0 <= i < N_REPORT_TABLES, of a run; without rows: it has nothing to tell. It
// lives in `a`.
report_table report_table_make(arena *a, int i, const watched_run *run, const report_facts *facts);
// Runs beside each other: speed, and how much of what more ranks could give they give.
report_table report_compare(arena *a, watched_run *const *runs, int n_runs);
