// Rows of preference pairs. A pair is two documents of a data set, the chosen response and the
// rejected one, each after the prompt; it stays whole in a row, beside as many others as fit. What
// both documents begin with, but for the token that predicts the first one of a response, stands
// there once; then what follows it in the chosen document, then that of the rejected one, each of
// which sees what they begin with and itself (ir/ops/attention.c: hidden). Pairs do not see each
// other.
#pragma once
#include "data/set/row_source.h"

// Lists the pairs of the source's part, a piece for both documents of each, whose `skip` is what
// they share. What does not fit a row is left out (opts->drop_long), or cut off at the ends, the
// longer document first; a pair of which nothing of a response is left is left out, and so is one
// whose responses are alike. Counts them in src->count.
DRV_CHECKED drv_status pair_pieces(row_source *src, piece_list *list);
// Writes row `row` of the packed pairs; *there: its number of tokens. out->pair may be NULL.
DRV_CHECKED drv_status pair_row(const row_source *src, int64_t row, const row_out *out,
        int64_t *there);
