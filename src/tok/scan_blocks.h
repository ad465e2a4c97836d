// Finds words of ASCII text, 64 bytes at a time, for the patterns of GPT-2 and Llama 3.
#pragma once
#include "base/cpu.h"
#include "tok/split.h"

// Finds words from t->next = bounds[k] on: writes their ends to bounds[k + 1 .. SPLIT_BATCH], moves
// t->next past them and returns the new k. Stops, possibly at once, at a non-ASCII character, at a
// word that fills a block, in the last 64 bytes of the text, or when bounds has no room for the
// words of a block.
typedef int (*scan_blocks)(split_cursor *t, const unsigned char **bounds, int k);

// Returns the scanner of a kind, which gives the words of scan.c; NULL: this processor has none.
scan_blocks scan_blocks_for(split_kind kind, cpu_level level);
