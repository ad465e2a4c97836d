// Reduces an exit status, which may have several causes, to one of them.
#include "launch/attempt_cause.h"

#include <string.h>

#include "base/exit_status.h"
#include "watch/files/run_events.h"

// Returns the cause of status 75. A rank that failed by itself reports its code even where no file
// can be written.
static end_cause retryable_cause(const attempt_facts *facts) {
    const bool said = facts->said && facts->said->end == RUN_FAILED;
    const char *cause = said ? facts->said->cause : "";
    const bool failed = facts->all.kind == OUTCOME_FAILED;
    const drv_status code = failed ? facts->all.code : DRV_E_PEER;
    if (code == DRV_E_FULL || strcmp(cause, run_cause(DRV_E_FULL)) == 0) return END_FULL;
    if (code == DRV_E_FAULT || strcmp(cause, run_cause(DRV_E_FAULT)) == 0) return END_DEVICE;
    if (code == DRV_E_BUSY) return END_HELD;
    return strcmp(cause, "hang") == 0 ? END_HANG : END_LOST;
}

end_cause attempt_cause(const attempt_facts *facts) {
    const bool said = facts->said && facts->said->end == RUN_FAILED;
    switch (facts->status) {
    case 0:
        return END_DONE;
    case EXIT_STOPPED:
        return facts->grows ? END_GROWS : END_STOPPED;
    case EXIT_USAGE:
        return END_USAGE;
    case EXIT_TRY_AGAIN:
        return facts->lacked_memory ? END_MEMORY : retryable_cause(facts);
    default:
        break;
    }
    if (facts->lacked_memory || (said && strcmp(facts->said->cause, "memory") == 0))
        return END_MEMORY;
    return facts->all.kind == OUTCOME_NONE ? END_NO_RANKS : END_FAILED;
}
