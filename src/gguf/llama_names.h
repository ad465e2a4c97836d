// The tensors of Llama models and related families: their names in GGUF and in Hugging Face's files.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "model/family/model_family.h"

typedef enum llama_rows {
    ROWS_AS_THEY_ARE,
    ROWS_OF_QUERY, // if a family interleaves (model_family), the halves of rotary pairs alternate
    ROWS_OF_KEY,   // within each head in GGUF: halves 0 and 1 of pair 0, of pair 1, ...
    OF_QK_NORM,    // unchanged, in families with these norms
    OF_QKV_BIAS,   // unchanged, in families with these biases
} llama_rows;

typedef struct llama_name {
    const char *gguf, *hf; // "%d" stands for the layer, if there is one
    int n_dims;
    llama_rows rows;
} llama_name;

extern const llama_name llama_names[];
extern const int n_llama_names;

// Returns whether models of a family have the tensor, and whether its rows are interleaved in GGUF.
bool llama_name_is_of(const llama_name *row, const model_family *family);
bool llama_name_interleaves(const llama_name *row, const model_family *family);

// Returns the row for a GGUF name, and its layer (-1: none). NULL: no tensor has that name.
const llama_name *llama_name_of_gguf(const char *name, int *layer);

// Returns a tensor's name from a pattern; `layer` is only used if the pattern has "%d".
char *llama_name_print(arena *a, const char *pattern, int layer);

// Returns the row in GGUF's matrix of row `row` in Hugging Face's; both have heads of `head_dim`
// rows.
static inline int64_t llama_row_in_gguf(int64_t row, int64_t head_dim) {
    const int64_t in_head = row % head_dim, half = head_dim / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
}
