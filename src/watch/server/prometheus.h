// Writes a run in Prometheus' text format 0.0.4
// (prometheus.io/docs/instrumenting/exposition_formats), with base units and a bounded number of
// labels.
#pragma once
#include "watch/views/watched_run.h"

typedef struct prometheus_opts {
    bool ranks;         // also write figures of each rank
    int64_t save_every; // steps between checkpoints; 0: only at the end
} prometheus_opts;

void prometheus_add(const watched_run *run, const prometheus_opts *opts, str *out);
// Appends the value of a label: control characters and invalid UTF-8 become "?", backslashes and
// quotes are escaped.
void prometheus_add_label(str *out, const char *text);
