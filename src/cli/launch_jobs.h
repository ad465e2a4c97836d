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
// Submits the files in `dir`, and prints the next commands.
DRV_CHECKED drv_status launch_submit(arena *a, const char *dir, job_record *record);
// Prints what others have written; a terminal gets no control characters of theirs. ctx: NULL.
void launch_print_bytes(void *ctx, const char *bytes, size_t n);

// The verbs for a submitted job (launch_submitted.c).
DRV_CHECKED drv_status launch_run_status(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_logs(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_stop(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_clean(arena *a, const cli_args *args);
