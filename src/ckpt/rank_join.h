// Tensors that ranks have, in files of their own, and how those of all ranks are joined (tensor
// ranks along their rows or columns, pipeline stages by the number of the layer).
//
// Legend: j a joining of ranks, r a rank, p a part, t a tensor
#pragma once
#include "ckpt/foreign_source.h"
#include "ckpt/rank_files.h"

// A tensor that a rank has, or what its optimizer keeps for it.
typedef struct rank_part {
    const char *name; // without the prefix and the model chunk
    int chunk, layer; // of the rank, -1: none
    const foreign_name *row;
    const char *path; // that it lies in, for messages
    const torch_type *type;
    int n_dims; // of a vector `cols` is 1
    int64_t rows, cols;
    foreign_block *blocks; // that fill it
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

// A block that is all of a tensor.
foreign_block rank_block(torch_file *file, const torch_tensor *tensor);
// Numbers the layers of all parts as the model has them: where stages count from 0 each, those of
// the stages and chunks before a part are added.
void rank_join_number(rank_joining *j);
// Adds the tensors of all ranks to j->m->tensors, which have room for them. `before`: as in
// foreign_tensor; NULL: they are weights, and tensors that all ranks have must be equal.
// DRV_E_DATA: ranks disagree, or a tensor is none of a Llama's.
DRV_CHECKED drv_status rank_join(rank_joining *j, const rank *ranks, const char *before);
