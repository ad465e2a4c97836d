// A run in the text format of Prometheus, version 0.0.4
// (prometheus.io/docs/instrumenting/exposition_formats): base units, labels of bounded number.
#pragma once
#include "watch/views/watched_run.h"

typedef struct prometheus_opts {
    bool ranks;         // figures of each rank too
    int64_t save_every; // steps between checkpoints; 0: only at the end
} prometheus_opts;

void prometheus_add(const watched_run *run, const prometheus_opts *opts, str *out);
// Appends a label's value: control characters and broken UTF-8 become "?"; backslash and quotes are
// escaped.
void prometheus_add_label(str *out, const char *text);
