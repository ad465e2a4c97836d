// What became of a run, for people: its verdict first, then where the time went, its attempts and
// its ranks. As text, or as one HTML page without external parts.
#pragma once
#include "watch/watched_run.h"

typedef struct report_opts {
    const char *const *about; // by run: model and layout in words
    double price;             // money for an hour of wall time; 0: not told
    bool served;              // by a page's server: style and script are files of their own there
                              // (run_report_style)
} report_opts;

void run_report_text(watched_run *const *runs, int n, const report_opts *opts, str *out);
void run_report_html(watched_run *const *runs, int n, const report_opts *opts, str *out);
void run_report_style(str *out); // CSS
