// Checks the number of ranks and nodes against the expected one. Misconfigured launchers often
// start N runs of one rank, or all ranks on one node, and report success.
#pragma once
#include "base/status.h"

#define EXPECT_RANKS "DROVER_EXPECT_RANKS"
#define EXPECT_NODES "DROVER_EXPECT_NODES"

// Compares both numbers with their variables, if these are set. DRV_E_USAGE: one differs.
DRV_CHECKED drv_status expect_check(int ranks, int nodes);
