// Functions that read a checkpoint of torch.distributed.checkpoint, shared by the readers of its
// weights (source_dcp.c) and of its optimizer state (source_dcp_state.c).
#pragma once
#include "source/foreign_source.h"
#include "source/foreign_state.h"
#include "pickle/dcp_metadata.h"

typedef struct dcp_reading {
    foreign_model *m;
    const char *folder; // of the files
    dcp_metadata metadata;
    name_map parts;             // file_part of each file
    const char *prefix;         // of the names of weights
    foreign_progress *progress; // NULL: the weights are read; else the optimizer's state
} dcp_reading;

// Open the archive of a chunk or an object, or a chunk as a tensor; the model closes the file.
DRV_CHECKED drv_status dcp_open_archive(dcp_reading *r, const dcp_entry *e, const dcp_chunk *c,
        torch_file **out);
DRV_CHECKED drv_status dcp_open_chunk(dcp_reading *r, const dcp_entry *e, const dcp_chunk *c,
        torch_file **file, torch_tensor **out);

// Returns the dimension of an entry that holds rows: 1 if layers are stacked, else 0.
int dcp_row_dim(const foreign_name *row, int layer);
// Adds a tensor to the model; `name` and `before` as in foreign_tensor.
DRV_CHECKED drv_status dcp_add_tensor(dcp_reading *r, const dcp_entry *e, const char *name,
        const char *before, const foreign_name *row, int layer);
// Adds the optimizer's tensors to the model, and completes the progress.
DRV_CHECKED drv_status dcp_add_optimizer(dcp_reading *r);
