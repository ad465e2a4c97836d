// The exit statuses of the program (docs/adr/0006), by which scripts and schedulers decide.
#pragma once
#include "base/status.h"

#define EXIT_USAGE     2  // wrong command line or configuration
#define EXIT_STOPPED   3  // stopped on request; saved and resumable
#define EXIT_TRY_AGAIN 75 // EX_TEMPFAIL of sysexits.h: the same command may succeed if run again

// 0 done; 1 failed, and another try fails as well; else one of those above.
int exit_status_plain(drv_status status);
// The same, but EXIT_TRY_AGAIN becomes DROVER_RETRY_STATUS (1 to 255) if that variable is set:
// schedulers may retry on other statuses (PyTorchJob: those above 128).
int exit_status(drv_status status);
