// The rules by which a job recovers from failures: their defaults and limits.
#pragma once
#include "base/status.h"
#include "launch/supervisor.h"

typedef struct recovery_rules {
    supervisor_rules rules;
    int n_spares;        // of the nodes: they replace one that fails
    double grow_after_s; // new nodes wait for so long before they take part
} recovery_rules;

// Returns the defaults for n_nodes nodes: no restart, all nodes but the spare ones needed.
recovery_rules recovery_rules_of(int n_nodes, int n_spares);
// DRV_E_USAGE: all nodes are spare, or more are needed than take part.
DRV_CHECKED drv_status recovery_rules_check(const recovery_rules *self, int n_nodes);
// Reads the value of an option: "90s", "5m", "1h", "2d", or seconds. DRV_E_USAGE: none of these, or
// over 366 days.
DRV_CHECKED drv_status recovery_time_read(const char *option, const char *text, double *seconds);
