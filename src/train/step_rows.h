// Names the rows of one step of a run, for whoever looks for the text on which it failed.
#pragma once
#include "config/config.h"

// Returns "rows of step 12: a:17, a:901, ...", at most 16 of them; NULL: the data cannot be read.
// Counted from the newest checkpoint before the step, so a batch that a resume changed counts as it
// was. Lives in `a`.
const char *step_rows_names(arena *a, const run_config *cfg, int64_t step);
