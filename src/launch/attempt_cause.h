// Finds why an attempt has ended, from all that tells of it: how its ranks ended, what the system
// did, what the run has written. A pure function.
#pragma once
#include "launch/outcome.h"
#include "launch/supervisor.h"
#include "watch/files/run_status.h"

typedef struct attempt_facts {
    outcome all;            // of its ranks, the one that counts
    int status;             // exit status
    const run_status *said; // status.json of this very attempt; NULL: none
    bool lacked_memory;     // the system killed a process on one of its nodes
    bool grows;             // its own launcher has stopped it
} attempt_facts;

end_cause attempt_cause(const attempt_facts *facts);
