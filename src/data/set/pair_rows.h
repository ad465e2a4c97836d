// Packs preference pairs into rows. A pair is two documents of a data set, the chosen response and
// the rejected one, each after the prompt. A row contains as many whole pairs as fit. A pair is
// stored as the common beginning of both documents, which excludes the token that predicts the
// first token of a response, then the rest of the chosen document, then the rest of the rejected
// one. Each rest attends to the common beginning and to itself (ir/ops/attention.c: hidden). Pairs
// do not attend to each other.
#pragma once
#include "data/set/row_source.h"

// Lists the pairs of the source's part, one piece for both documents of each; its `skip` is the
// length of their common beginning. A pair that does not fit in a row is left out
// (opts->drop_long), or truncated at the ends, the longer document first. A pair is also left out
// if truncation removes a whole response or if its responses are equal. Counts the pairs in
// src->count.
DRV_CHECKED drv_status pair_pieces(row_source *src, piece_list *list);
// Writes row `row` of the packed pairs; *there is set to its number of tokens. out->pair may be
// NULL.
DRV_CHECKED drv_status pair_row(const row_source *src, int64_t row, const row_out *out,
        int64_t *there);
