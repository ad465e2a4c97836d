// Decides what follows the end of a launch attempt: a pure function of how all attempts so far have
// ended. An attempt is one mpirun and its ranks; the loop that starts them is in head.c.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef enum end_cause {
    END_DONE,
    END_STOPPED, // on request
    END_GROWS,   // its own launcher stopped it, so that new nodes take part in the next one
    END_LOST,    // a rank or a host
    END_HANG,
    END_DEVICE,   // a device failed that had worked
    END_FULL,     // no space on a disk
    END_MEMORY,   // the system killed a rank for lack of memory, or it held more than planned
    END_FAILED,   // status 1
    END_USAGE,    // status 2
    END_HELD,     // another attempt has the run directory
    END_NO_RANKS, // mpirun could not start the ranks
    N_END_CAUSES
} end_cause;
const char *end_cause_name(end_cause cause); // "lost", as events.jsonl has it

typedef struct attempt_end {
    end_cause cause;
    int status;    // exit status
    int node;      // of the job, where the failure began; -1: not known
    int64_t step;  // the last finished one; -1: not known
    double at_s;   // clock
    char host[64]; // of that node; "": not known
} attempt_end;

// The rules by which a job recovers from failures.
typedef struct supervisor_rules {
    int max_restarts; // within window_s; 0: there is one attempt
    double window_s;
    int min_nodes;       // of an attempt
    int n_spares;        // of the nodes: they replace one that fails
    double grow_after_s; // new nodes wait for so long before they take part
} supervisor_rules;
// Returns the defaults for n_nodes nodes: no restart, all nodes but the spare ones needed.
supervisor_rules supervisor_rules_of(int n_nodes, int n_spares);
// DRV_E_USAGE: all nodes are spare, or more are needed than take part.
DRV_CHECKED drv_status supervisor_rules_check(const supervisor_rules *self, int n_nodes);

typedef struct decision {
    bool restarts;
    int status;     // of the job, if it ends
    double wait_s;  // before the next attempt
    int excluded;   // a node that is excluded from now on; -1: none
    bool spared;    // that node would have been excluded if the others were enough
    bool same_rows; // the same step failed on several hosts
    const char *why;
} decision;

// Decides by the last of n ends. n_usable: nodes that may take part in the next attempt, with the
// one that failed. Texts live in `a`.
decision supervisor_decide(arena *a, const supervisor_rules *rules, const attempt_end *ends, int n,
        int n_usable);
// Prints the policy as a table: what supervisor_decide does for each cause.
void supervisor_explain(const supervisor_rules *rules, str *out);
