// Finds the parts of drover report that are not in the run's files: its plan, its config, samples
// of its model.
#pragma once
#include "watch/views/run_report.h"

// If config.yaml cannot be used any more, the facts that depend on it are not known. Lives in `a`.
report_facts report_facts_find(arena *a, const char *run_dir);
// Adds n texts by the newest checkpoint, with temperature 0.8 and top p 0.95, the same ones each
// time; if that fails, the facts say why.
void report_facts_sample(arena *a, const char *run_dir, int64_t n, report_facts *facts);
