// Submits the files of a job by the scheduler's own program.
#pragma once
#include "launch/jobs/foreign_program.h"
#include "launch/jobs/job_record.h"

// Creates the Secrets that are missing, submits the files in `dir`, and writes the time and the
// number of the job to launch.json. *said: what the program printed. DRV_E_BUSY: it did not end in
// time; DRV_E_IO: it failed.
DRV_CHECKED drv_status job_submit(arena *a, const char *dir, job_record *record, program_end *said);
