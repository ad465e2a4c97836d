// Checks that every token of the data sets that rows come from is in the vocabulary
// (rows_opts.n_vocab), so that a run fails before its first step and not after days. Costs
// nothing where PREFIX.idx.json knows the largest id, else one sequential read of .bin beside the
// caller's work.
#pragma once
#include <stdatomic.h>

#include "base/task.h"
#include "data/set/rows.h"

typedef struct vocab_check { // single owner; the rows outlive it
    const dataset **slow;    // those that are read, each once
    int n_slow;
    int64_t n_vocab;
    atomic_bool cancel, done;
    task task;
} vocab_check;

// Checks at once the data sets whose largest id is known, and starts a thread that reads the
// others; a data set that several rows share is read once. DRV_E_DATA: a token is outside the
// vocabulary, and no thread was started.
DRV_CHECKED drv_status vocab_check_start(arena *a, const rows *const *list, int n,
        vocab_check *check);
// Returns whether the check is done, so that vocab_check_wait returns at once. Cheap enough to be
// called after every step.
bool vocab_check_done(const vocab_check *check);
// Waits for the result; DRV_OK when it was already handed out.
DRV_CHECKED drv_status vocab_check_wait(vocab_check *check);
// Stops reading; does nothing if the check is done. Call it before rows_close unless
// vocab_check_wait has returned.
void vocab_check_cancel(vocab_check *check);
