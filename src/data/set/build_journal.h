// Reads and writes PREFIX.build.json, the progress of a build, from which the same command resumes.
#pragma once
#include "data/set/build.h"

// `task`: a hash of everything that determines the output; the journal of another task is ignored.
DRV_CHECKED drv_status build_journal_write(const char *path, uint64_t task,
        const build_counts *counts);
// Sets *found, and *counts if it is true: there is a journal of this task. Logs a journal of
// another task. DRV_E_USAGE: the file is not a journal of drover, which nobody may overwrite.
DRV_CHECKED drv_status build_journal_read(const char *path, uint64_t task, build_counts *counts,
        bool *found);
