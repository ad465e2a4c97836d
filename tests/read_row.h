// Reads a row of a data set into arrays of tokens, positions and labels.
#pragma once
#include "data/set/rows.h"

DRV_CHECKED static inline drv_status read_row(rows *stream, int32_t *tokens, int32_t *position,
        int32_t *labels, int64_t *counted) {
    return rows_next(stream, &(row_out){.tokens = tokens,
                                     .position = position,
                                     .labels = labels,
                                     .counted = counted});
}
