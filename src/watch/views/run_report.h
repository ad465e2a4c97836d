// Reports the outcome of runs to people: the verdict first, then where the time went, the attempts
// and the ranks, as text or as one self-contained HTML page.
#pragma once
#include "watch/views/watched_run.h"

// Facts of a run that are not in its files. Numbers: NaN or 0 means not known.
typedef struct report_facts {
    double rank_bytes;  // planned memory of the rank that needs most, with its process
    double sent_bytes;  // planned traffic of a step, of the rank that sends most
    double bubble;      // of the pipeline's schedule
    const char *config; // the keys that differ from their defaults, one a line; NULL: not known
    const char *const *samples;
    int n_samples;
    const char *no_samples; // why requested samples are missing; NULL: they are not
} report_facts;

typedef struct report_opts {
    const char *const *about;  // by run: model and layout as text
    const report_facts *facts; // by run; NULL: nothing is known
    double price;              // money for an hour of wall time; 0: not given
    bool served; // the page is served over HTTP; style and script are then separate files
                 // (run_report_style)
} report_opts;

void run_report_text(watched_run *const *runs, int n, const report_opts *opts, str *out);
void run_report_html(watched_run *const *runs, int n, const report_opts *opts, str *out);
void run_report_style(str *out); // CSS
