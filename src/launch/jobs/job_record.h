// launch.json: identifies the job of a folder that `drover launch KIND` has made, for the verbs
// that look after it (docs/launch-jobs.md). They read nothing else of the folder, so a user may
// edit the files beside it.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "launch/jobs/job_spec.h"

#define JOB_RECORD "launch.json"

typedef struct job_record {
    const job_kind *kind;
    job_work work;
    const char *name, *name_space; // name_space NULL: that of the context
    const char *run_dir, *mount;   // NULL: none
    int nodes, ranks;              // ranks: of each node
    int grace_s;                   // what a save may take
    bool is_node_launch, has_secret;
    const char *files[MAX_JOB_FILES]; // their names; the first is handed to the scheduler
    int n_files;
    // The submission by drover; time_s 0: none.
    double time_s;      // seconds since 1970
    const char *id;     // Slurm's number of the job; "": the name says it
    const char *folder; // from which it was submitted, absolute
} job_record;

// Makes the record of a job that was made now.
job_record job_record_of(arena *a, const job_spec *spec, const job_files *files);
// Appends launch.json.
void job_record_text(const job_record *record, str *out);
// Reads launch.json; `path` is for messages. DRV_E_USAGE: no record, one of another version, a
// key that is missing or of another form; one line. Texts live in `a`.
DRV_CHECKED drv_status job_record_parse(arena *a, const char *path, const char *text, size_t n,
        job_record *out);
// Reads DIR/launch.json. DRV_E_USAGE: as above.
DRV_CHECKED drv_status job_record_read(arena *a, const char *dir, job_record *out);
// Replaces DIR/launch.json.
DRV_CHECKED drv_status job_record_write(arena *a, const char *dir, const job_record *record);
// Returns whether the page of the run has a Deployment.
bool job_record_has_page(const job_record *record);
// Returns the manifest or script that is handed to the scheduler.
const char *job_record_path(arena *a, const char *dir, const job_record *record);
