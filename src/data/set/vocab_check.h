// Checks that every token of the data sets of rows is in the vocabulary (rows_opts.n_vocab), so
// that a run fails in its first minutes and not after days. Instant if PREFIX.idx.json records the
// largest id, else one sequential read of .bin in a background thread.
#pragma once
#include <stdatomic.h>

#include "base/task.h"
#include "data/set/rows.h"

typedef struct vocab_check { // single owner; the rows outlive it
    const dataset **slow;    // the data sets to read, each once
    int n_slow;
    int64_t n_vocab;
    atomic_bool cancel, done;
    task task;
} vocab_check;

// Checks the data sets whose largest id is recorded at once, and starts a thread that reads the
// others, each once. DRV_E_DATA: a token is outside the vocabulary; no thread was started.
DRV_CHECKED drv_status vocab_check_start(arena *a, const rows *const *list, int n,
        vocab_check *check);
// Returns whether the check is done, so that vocab_check_wait returns at once. Cheap enough to be
// called after every step.
bool vocab_check_done(const vocab_check *check);
// Waits for the result; returns DRV_OK if it was already returned.
DRV_CHECKED drv_status vocab_check_wait(vocab_check *check);
// Stops reading; does nothing if the check is done. Call it before rows_close unless
// vocab_check_wait has returned.
void vocab_check_cancel(vocab_check *check);
