// The exit statuses of the program (docs/adr/0006), by which scripts and schedulers decide.
#pragma once
#include "base/status.h"

#define EXIT_USAGE     2  // wrong command line or configuration
#define EXIT_STOPPED   3  // stopped on request; saved and resumable
#define EXIT_TRY_AGAIN 75 // EX_TEMPFAIL of sysexits.h: the same command may succeed if run again

// Returns 0 for success, one of those above, or 1 for a failure that the same command would meet
// again.
int exit_status_plain(drv_status status);
// Does the same, but replaces EXIT_TRY_AGAIN by the variable DROVER_RETRY_STATUS (1 to 255) if it
// is set: schedulers may retry on other statuses (PyTorchJob: those above 128).
int exit_status(drv_status status);
