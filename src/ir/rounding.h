// The extent of a weight: which elements of the model a rank's part of it is, for ops that round
// stochastically (base/stochastic.h): a separate state i32[N_EXTENT_WORDS], "extent.W" for weight
// W, which the host writes once. It is a value of the program, not an attribute, so that ranks with
// different parts run one program.
#pragma once
#include <stdbool.h>

#include "base/stochastic.h"

// Unsigned words. Rows are those of the weight on this rank. Parts are as in model/parameters.h;
// one that does not exist begins at row EXTENT_NO_ROW.
enum {
    EXTENT_COLUMNS,      // columns on this rank
    EXTENT_ALL_COLUMNS,  // columns of the model's parameters
    EXTENT_FIRST_COLUMN, // column of the parameters at which those of this rank begin
    EXTENT_FIRST,        // element of the weight at which this rank's shard begins (ZeRO)
    EXTENT_PARTS,        // PART_WORDS words for each part:
    PART_ROW = 0,        // its first row on this rank
    PART_FIRST_ROW,      // the row of the parameter that this is
    PART_UPDATE,         // two words: rounding_keys of RNG_UPDATE
    PART_GRADIENT = 4,   // two words: rounding_keys of RNG_GRADIENT
    PART_WORDS = 6,
    EXTENT_MAX_PARTS = 3,
    N_EXTENT_WORDS = EXTENT_PARTS + EXTENT_MAX_PARTS * PART_WORDS
};
#define EXTENT_NO_ROW 0xFFFFFFFFu

// Consecutive elements of a weight that are consecutive in one parameter of the model, too.
typedef struct extent_run {
    const uint32_t *part;
    uint32_t first; // index of the first element in the parameter
    int64_t n;
} extent_run;
// Returns the run of at most n elements that begins at element `at` of the weight.
static inline extent_run extent_run_at(const uint32_t *extent, int64_t at, int64_t n) {
    const int64_t columns = extent[EXTENT_COLUMNS], row = at / columns, column = at % columns;
    int k = EXTENT_MAX_PARTS - 1;
    while (k > 0 && row < extent[EXTENT_PARTS + k * PART_WORDS + PART_ROW])
        k--;
    const uint32_t *part = extent + EXTENT_PARTS + k * PART_WORDS;
    const bool whole_rows = extent[EXTENT_COLUMNS] == extent[EXTENT_ALL_COLUMNS];
    const int64_t end_row = k + 1 < EXTENT_MAX_PARTS ? part[PART_WORDS + PART_ROW] : EXTENT_NO_ROW,
                  left = (whole_rows ? end_row * columns : (row + 1) * columns) - at;
    const uint32_t row_there = (uint32_t)row - part[PART_ROW] + part[PART_FIRST_ROW];
    return (extent_run){part,
            row_there * extent[EXTENT_ALL_COLUMNS] + extent[EXTENT_FIRST_COLUMN] + (uint32_t)column,
            left < n ? left : n};
}
