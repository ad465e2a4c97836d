// Makes the tables of a report as text, for both of its forms.
#pragma once
#include "watch/views/run_report.h"

enum { REPORT_COLUMNS = 9, N_REPORT_TABLES = 7 };

typedef struct report_table {
    const char *title;
    int columns, n;
    bool has_head; // the first row has titles
    const char *(*rows)[REPORT_COLUMNS];
    int cap;
} report_table;

// Makes table number i of a run, 0 <= i < N_REPORT_TABLES, in `a`; it has no rows if the run lacks
// the figures.
report_table report_table_make(arena *a, int i, const watched_run *run, const report_facts *facts);
// Compares runs: their speed, and the efficiency of additional ranks.
report_table report_compare(arena *a, watched_run *const *runs, int n_runs);
