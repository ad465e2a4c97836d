// The attempt that a run was meant for. A launcher that finds another one often starts N runs of
// one rank, or all ranks on one node, and reports success.
#pragma once
#include "base/status.h"

#define EXPECT_RANKS "DROVER_EXPECT_RANKS"
#define EXPECT_NODES "DROVER_EXPECT_NODES"

// Compares both numbers with those variables, where they are set. DRV_E_USAGE: one differs.
DRV_CHECKED drv_status expect_check(int ranks, int nodes);
