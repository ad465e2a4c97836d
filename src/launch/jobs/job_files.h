// The files of a generated job, kept in memory until all are made, then written together.
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

// Adds an empty file and returns its text; `name` must outlive the files.
str *job_files_add(job_files *files, const char *name, bool executable);
void job_files_free(job_files *files);
// Writes all of them into a folder beside `dir`, which is then renamed to `dir`, so that an
// incomplete job never exists. DRV_E_USAGE: `dir` exists and is not an empty folder.
DRV_CHECKED drv_status job_files_write(arena *a, const job_files *files, const char *dir);
