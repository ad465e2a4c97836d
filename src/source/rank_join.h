// Joins the tensors of all ranks, which each rank stores in its own file: those of tensor ranks
// along rows or columns, those of pipeline stages by the number of the layer.
//
// Legend: j a joining of ranks, r a rank, p a part, t a tensor
#pragma once
#include "source/foreign_source.h"
#include "source/rank_files.h"

// A tensor of a rank, or the optimizer's state for it.
typedef struct rank_part {
    const char *name; // without the prefix and the model chunk
    int chunk, layer; // of the rank, -1: none
    const foreign_name *row;
    const char *path; // its file, for messages
    const torch_type *type;
    int n_dims; // cols is 1 for a vector
    int64_t rows, cols;
    foreign_block *blocks; // they cover it
    int n_blocks;
} rank_part;

typedef struct rank {
    torch_file *file;
    rank_part *parts; // in the order of the file
    int n;
} rank;

typedef struct rank_joining {
    foreign_model *m;
    rank_files files;
    rank *ranks; // as files.file
    const char *prefix;
    int n_chunks;     // model chunks of a stage: Megatron's virtual stages
    name_map by_name; // foreign_tensor of each name
} rank_joining;

// Renumbers the layers of all parts as in the model: if each stage counts from 0, adds the layers
// of earlier stages and chunks.
void rank_join_number(rank_joining *j);
// Adds the tensors of all ranks to j->m->tensors, which has room for them. `before`: as in
// foreign_tensor; NULL: they are weights, and replicated tensors must be equal on all ranks.
// DRV_E_DATA: ranks disagree, or a tensor does not belong to a Llama.
DRV_CHECKED drv_status rank_join(rank_joining *j, const rank *ranks, const char *before);
