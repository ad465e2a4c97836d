// Writes a source as a checkpoint of torch.distributed.checkpoint (DCP): .metadata and
// __0_0.distcp.
#pragma once
#include "ckpt/foreign_names.h"
#include "ckpt/model_writer.h"

// Writes the tensors of `list` into the folder piece by piece, under the names of opts->dcp.
// DRV_E_DATA: the trainer has no name for a tensor.
DRV_CHECKED drv_status dcp_write(arena *a, const model_source *s, const st_entry *list, int n,
        out_folder *o, const model_write_opts *opts);
