// drover launch KIND: jobs for schedulers.
#pragma once
#include "cli/cli.h"
#include "config/config.h"
#include "launch/jobs/job_record.h"
#include "launch/jobs/job_spec.h"

#define DEFAULT_MOUNT "/shared" // of the volume in pods

// drover launch KIND: writes the files of a job, or submits them, too.
DRV_CHECKED drv_status launch_job_run(arena *a, const cli_args *args);

// Prints what a person does next, on standard output (launch_submit.c).
void launch_print_next(arena *a, const job_record *record, const char *dir);
// Checks that PATH has the scheduler's program. DRV_E_USAGE, after `why`: it has not.
DRV_CHECKED drv_status launch_find_program(arena *a, const char *name, const char *why);
// Makes the secret, hands the files in `dir` to the scheduler, and keeps that in launch.json.
// DRV_E_BUSY: its program did not end in time; DRV_E_IO: it failed.
DRV_CHECKED drv_status launch_submit(arena *a, const char *dir, job_record *record);
