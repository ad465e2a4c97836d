// Connecting the failure ring.
#pragma once
#include "comm/comm_internal.h"

// Connects fd[0] to the previous rank and fd[1] to the next one. If any two ranks cannot reach each
// other, both are -1 on every rank and a warning is printed: the job runs, but only the launcher
// notices a dead rank. All ranks must call it.
DRV_CHECKED drv_status ring_connect(comm *self, int fd[2]);
