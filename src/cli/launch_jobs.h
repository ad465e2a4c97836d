// drover launch KIND: jobs for schedulers.
#pragma once
#include "cli/cli.h"

#define DEFAULT_MOUNT "/shared" // of the volume in pods

// drover launch KIND: writes the files of a job, or submits them, too.
DRV_CHECKED drv_status launch_job_run(arena *a, const cli_args *args);

// Prints what others have written; a terminal gets no control characters of theirs. ctx: NULL.
void launch_print_bytes(void *ctx, const char *bytes, size_t n);

// The verbs for a submitted job (launch_submitted.c).
DRV_CHECKED drv_status launch_run_status(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_logs(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_stop(arena *a, const cli_args *args);
DRV_CHECKED drv_status launch_run_clean(arena *a, const cli_args *args);
