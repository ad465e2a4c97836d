// Lists the rows of one step of a run, so that a user can find the text on which the step failed.
#pragma once
#include "config/config.h"

// Returns "rows of step 12: a:17, a:901, ...", at most 16 of them; NULL: the data cannot be read.
// Computed from the newest checkpoint before the step, so earlier changes of the batch size are
// respected. Lives in `a`.
const char *step_rows_names(arena *a, const run_config *cfg, int64_t step);
