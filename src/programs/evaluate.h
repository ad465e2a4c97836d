// Computes the mean loss over validation rows, and the figures of preference pairs.
#pragma once
#include "comm/comm.h"
#include "programs/step.h"

// Returns the rows of one evaluation of a run, as training.eval_batches says (docs/adr/0005).
int64_t evaluate_run_rows(const run_config *cfg, const rows *r);

typedef struct evaluation_result {
    double loss;     // mean of the tokens, or of the pairs
    int64_t tokens;  // predicted
    int64_t n_pairs; // 0: the rows have none
    pair_figures pairs;
} evaluation_result;

// Computes the mean loss over `n_rows` rows of `source` (0: all of them, every token once), by the
// eval program. The rows do not depend on the micro-batch size: the first ones of a single data
// set, or rows from all of several data sets. All ranks of the run call it and get the same result.
// DRV_E_DATA: there is nothing to predict, or the loss is not finite. DRV_STOPPED: a signal on some
// rank requested a stop.
DRV_CHECKED drv_status evaluate(programs *p, rows *source, int64_t n_rows, comm *self,
        evaluation_result *out);
// Computes the log-probabilities of the chosen and the rejected response of every pair of `source`,
// whose rows are in order: out[2 rows_n_pairs], by the number of the pair. NaN: the pair is in none
// of the rows. Fails as evaluate does.
DRV_CHECKED drv_status evaluate_pairs(programs *p, rows *source, comm *self, double *out);
