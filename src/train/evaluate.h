// Mean loss over validation rows.
#pragma once
#include "comm/comm.h"
#include "train/batch_feed.h"

// Rows of one evaluation of a run, as training.eval_batches says (docs/adr/0005).
int64_t evaluate_run_rows(const run_config *cfg, const rows *r);

// Mean loss over `n_rows` rows of `source` (0: all of them, every token once), by the eval program:
// the same rows whatever the micro-batch. Of one data set they are the first ones, of several they
// are spread over all. DRV_E_DATA: there is nothing to predict, or the loss is not finite.
// DRV_STOPPED: a signal asks for it.
// All ranks of the run take part, and get the same result.
DRV_CHECKED drv_status evaluate(programs *of, rows *source, int64_t n_rows, comm *self,
        double *loss, int64_t *tokens);
