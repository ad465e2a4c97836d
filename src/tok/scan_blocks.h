// Words of ASCII text, 64 bytes at a time, for the patterns of GPT-2 and Llama 3.
#pragma once
#include "base/cpu.h"
#include "tok/split.h"

// Appends words from t->next = bounds[k] on: their ends go to bounds[k + 1 .. SPLIT_BATCH]; moves
// t->next after them and returns the new k. Stops, maybe at once, where a block cannot tell: at
// characters beyond ASCII, words that fill a block, the last 64 bytes of the text, or when there is
// no room for the words of a block.
typedef int (*scan_blocks)(split_cursor *t, const unsigned char **bounds, int k);

// NULL: there is none for this kind on this processor. The scanners of scan.c define the result.
scan_blocks scan_blocks_for(split_kind kind, cpu_level level);
