// The exit status of a program (docs/adr/0006): what scripts and schedulers decide by.
#pragma once
#include "base/status.h"

#define EXIT_USAGE     2  // wrong command line or configuration
#define EXIT_STOPPED   3  // stopped on request; saved and resumable
#define EXIT_TRY_AGAIN 75 // EX_TEMPFAIL of sysexits.h: another try of the same command may succeed

// 0 done; 1 failed, and another try fails as well; else one of those above.
int exit_status_plain(drv_status status);
// The same, with DROVER_RETRY_STATUS (1 to 255) in place of EXIT_TRY_AGAIN where the environment
// has it: a scheduler may take other numbers for "try again" (PyTorchJob: those above 128).
int exit_status(drv_status status);
