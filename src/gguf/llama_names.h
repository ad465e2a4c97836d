// The tensors of a Llama under GGUF's and under Hugging Face's names.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef enum llama_rows {
    ROWS_AS_THEY_ARE,
    ROWS_OF_QUERY, // within each head, GGUF has the two halves of the rotary pairs interleaved:
    ROWS_OF_KEY,   // its rows are those of halves 0 and 1 of pair 0, of pair 1, ...
} llama_rows;

typedef struct llama_name {
    const char *gguf, *hf; // "%d" stands for the layer; or none
    int n_dims;
    llama_rows rows;
} llama_name;

extern const llama_name llama_names[];
extern const int n_llama_names;

// The row for a name of GGUF, and its layer (-1: none). NULL: no tensor of a Llama has that name.
const llama_name *llama_name_of_gguf(const char *name, int *layer);

// The name of a layer's tensor by its pattern; `layer` counts only where the pattern has "%d".
char *llama_name_print(arena *a, const char *pattern, int layer);

// Where row `row` of a Hugging Face matrix lies in GGUF's, both within heads of `head_dim` rows.
static inline int64_t llama_row_in_gguf(int64_t row, int64_t head_dim) {
    const int64_t in_head = row % head_dim, half = head_dim / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
}
