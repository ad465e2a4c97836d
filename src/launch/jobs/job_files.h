// The files of a generated job, held in memory until all of them are made, then put in place at once.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

enum { MAX_JOB_FILES = 8 };

typedef struct job_file {
    const char *name;
    str text;
    bool executable;
} job_file;

typedef struct job_files {
    job_file file[MAX_JOB_FILES];
    int n;
} job_files;

// Returns a new file without content; `name` must outlive the files.
str *job_files_add(job_files *files, const char *name, bool executable);
void job_files_free(job_files *files);
// Makes the folder `dir` with all of them: written into a folder beside it, which then takes the
// name, so that no half of a job is ever there. DRV_E_USAGE: something of that name is there that
// is not an empty folder.
DRV_CHECKED drv_status job_files_write(arena *a, const job_files *files, const char *dir);
