// Finds what drover report tells of a run beside its files: its plan, its config, texts of its
// model.
#pragma once
#include "watch/views/run_report.h"

// Whatever of the run's config.yaml cannot be used any more is not known then. Lives in `a`.
report_facts report_facts_find(arena *a, const char *run_dir);
// Adds n texts of the newest checkpoint, drawn with temperature 0.8 and top p 0.95, the same ones
// each time; where that cannot be, the facts say why.
void report_facts_sample(arena *a, const char *run_dir, int64_t n, report_facts *facts);
