// Reports to people what became of a run: its verdict first, then where the time went, its attempts
// and its ranks. As text, or as one HTML page without external parts.
#pragma once
#include "watch/views/watched_run.h"

// Facts of a run that the program knows beside its files. Numbers: NaN, or 0, is not known.
typedef struct report_facts {
    double rank_bytes;  // planned for the rank that needs most, with its process
    double sent_bytes;  // planned of a step of the rank that sends most
    double bubble;      // of the schedule
    double work;        // arithmetic of a step over what mfu counts: above 1 with recomputation
    const char *config; // lines: keys that differ from their defaults; NULL: not known
    const char *const *samples;
    int n_samples;
    const char *no_samples; // why there are none that were asked for; NULL
} report_facts;

typedef struct report_opts {
    const char *const *about;  // by run: model and layout in words
    const report_facts *facts; // by run; NULL: nothing is known
    double price;              // money for an hour of wall time; 0: not told
    bool served;               // by a page's server: style and script are files of their own there
                               // (run_report_style)
} report_opts;

void run_report_text(watched_run *const *runs, int n, const report_opts *opts, str *out);
void run_report_html(watched_run *const *runs, int n, const report_opts *opts, str *out);
void run_report_style(str *out); // CSS
