// launch.json identifies the job in a folder that `drover launch KIND` has made, for the verbs that
// manage it (docs/launch-jobs.md). They read nothing else in the folder, so a user may edit its
// other files.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "launch/jobs/job_spec.h"

#define JOB_RECORD "launch.json"

typedef struct job_record {
    const job_kind *kind;
    job_work work;
    const char *name, *name_space; // name_space NULL: that of kubectl's context
    const char *run_dir, *mount;   // NULL: none
    int nodes, ranks;              // ranks: per node
    int grace_s;                   // time that a save may take
    bool is_node_launch, has_secret;
    const char *files[MAX_JOB_FILES]; // file names; the first is submitted to the scheduler
    int n_files;
    // When and how drover submitted it; time_s 0: it did not.
    double time_s;      // seconds since 1970
    const char *id;     // Slurm's job number; "": the name identifies the job
    const char *folder; // from which it was submitted, an absolute path
} job_record;

// Makes the record of a new job.
job_record job_record_of(arena *a, const job_spec *spec, const job_files *files);
// Appends launch.json.
void job_record_text(const job_record *record, str *out);
// Reads launch.json; `path` is for messages. DRV_E_USAGE, in one line: not a record, another
// version, a missing or malformed key. Texts live in `a`.
DRV_CHECKED drv_status job_record_parse(arena *a, const char *path, const char *text, size_t n,
        job_record *out);
// Reads DIR/launch.json. DRV_E_USAGE: as above.
DRV_CHECKED drv_status job_record_read(arena *a, const char *dir, job_record *out);
// Replaces DIR/launch.json.
DRV_CHECKED drv_status job_record_write(arena *a, const char *dir, const job_record *record);
// Returns whether a Deployment serves the page of the run.
bool job_record_has_page(const job_record *record);
// Returns the path of the manifest or script that is submitted to the scheduler.
const char *job_record_path(arena *a, const char *dir, const job_record *record);
