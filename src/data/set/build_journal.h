// PREFIX.build.json: how far a build came, so that the same command resumes it after a kill.
#pragma once
#include "data/set/build.h"

// `task`: a hash of all that decides the output; the journal of another task is of no use.
DRV_CHECKED drv_status build_journal_write(const char *path, uint64_t task,
        const build_counts *counts);
// False: there is none of this task, and *counts stays as it is. Of another one that is logged.
bool build_journal_read(const char *path, uint64_t task, build_counts *counts);
