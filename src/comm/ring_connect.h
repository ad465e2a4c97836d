// Connecting the failure ring.
#pragma once
#include "comm/comm_internal.h"

// fd[0] to the rank before, fd[1] to the rank after. Both -1, on every rank and with a warning,
// where two ranks cannot reach each other: the job runs, but a dead rank is then seen by the
// launcher alone. Collective.
DRV_CHECKED drv_status ring_connect(comm *self, int fd[2]);
