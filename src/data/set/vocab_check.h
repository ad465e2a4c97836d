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

// Checks at once what costs nothing and starts reading the rest on a thread of its own; a data set
// that several rows share is read once. DRV_E_DATA: a token is outside; nothing was started then.
DRV_CHECKED drv_status vocab_check_start(arena *a, const rows *const *list, int n,
        vocab_check *check);
// Returns whether the result is there, so that vocab_check_wait returns at once. May be asked after
// every step.
bool vocab_check_done(const vocab_check *check);
// Waits for the result; DRV_OK when it was already handed out.
DRV_CHECKED drv_status vocab_check_wait(vocab_check *check);
// Stops reading; without effect when it is done. To be called before rows_close unless it was
// waited for.
void vocab_check_cancel(vocab_check *check);
