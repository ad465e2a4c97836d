// Counts how often each word occurs in any amount of text, in bounded memory: when the table is
// full it is sorted and spilled to a temporary file; the files are merged at the end.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "tok/split.h"

typedef struct counted_word {
    uint64_t at; // offset of its bytes in `text`
    int64_t count;
    uint32_t n;
    uint32_t hash;
} counted_word;

typedef struct word_counts { // distinct words; in no order
    counted_word *words;
    int64_t n;
    str text;
    int64_t left_out; // number of words that were too rare to fit
    int64_t least;    // all words that occur at least this often are included
} word_counts;

typedef struct word_counter word_counter;
// Makes a counter. memory: bytes for all tables, and later for the caller, who will need
// bytes_per_word + n * bytes_per_byte for a word of n bytes.
word_counter *word_counter_new(int64_t memory, int64_t bytes_per_word, int64_t bytes_per_byte);
void word_counter_free(word_counter *c);

// Counts n words, bounds[i] to bounds[i + 1]; each `thread` in [0, par_threads()) has its own
// table.
void word_counter_add(word_counter *c, int thread, const unsigned char *const *bounds, int n);
// Spills the tables when the memory is used up. Call it between parallel sections.
DRV_CHECKED drv_status word_counter_relieve(word_counter *c);
// Collects all counts; leaves out the rarest words if not all of them fit. Free *out with
// word_counts_free.
DRV_CHECKED drv_status word_counter_finish(word_counter *c, word_counts *out);
void word_counts_free(word_counts *w);
