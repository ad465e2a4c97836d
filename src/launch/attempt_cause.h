// Finds the cause of an attempt's end from the outcome of its ranks, what the system did, and what
// the run has written. A pure function.
#pragma once
#include "launch/outcome.h"
#include "launch/supervisor.h"
#include "watch/files/run_status.h"

typedef struct attempt_facts {
    outcome all;            // of all ranks, the one that counts
    int status;             // exit status
    const run_status *said; // status.json as this attempt wrote it; NULL: it wrote none
    bool lacked_memory;     // the system killed a process on one of its nodes for lack of memory
    bool grows;             // its own launcher has stopped it, for nodes to join
} attempt_facts;

end_cause attempt_cause(const attempt_facts *facts);
