// Finds the files that the tensor and pipeline ranks of a trainer wrote, by their names:
//
// - Megatron-LM: [iter_NNNNNNN/]mp_rank_TT[_PPP]/model_optim_rng.pt, with
//   latest_checkpointed_iteration.txt beside the folders of iterations
// - NeMo 1 (neuronx-nemo-megatron): mp_rank_TT/NAME.ckpt, tp_rank_TT_pp_rank_PPP/NAME.ckpt
// - NxD, NxD Training: [model/]dp_rank_00_tp_rank_TT_pp_rank_PP.pt
// - Optimum Neuron: shards/model/dp_rank_00_tp_rank_TT_pp_rank_PP.pt
//
// A run of one rank of the first two has its file in the folder itself. NeMo 1 also writes an
// archive, FILE.nemo, of files such as mp_rank_TT/model_weights.ckpt, or of model_weights.ckpt
// alone.
//
// With xser (torch_xla.utils.serialization) a file contains references, and the tensors are in
// FILE.tensors/tensor_K.pt.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "pickle/file_part.h"

typedef struct rank_files {
    const char *folder;   // of the files
    const char **file;    // that of tensor rank t and pipeline rank p at index p * tensor + t
    int tensor, pipeline; // numbers of ranks
    bool is_megatron;     // mp_rank_.. files, which contain the arguments of the run
    file_part *parts; // the files' parts of an archive, whose descriptor the caller closes; NULL:
                      // the files are not in an archive
} rank_files;

// Returns the folder of the iteration that a Megatron checkpoint's tracker names; else `path`.
const char *rank_files_iteration(arena *a, const char *path);
// Returns whether a folder has such files, or a file is an archive of NeMo. Parses names and opens
// nothing.
bool rank_files_are_there(arena *a, const char *path);
// DRV_E_DATA: a rank's file is missing, or drover does not read the form of the archive.
DRV_CHECKED drv_status rank_files_find(arena *a, const char *path, rank_files *out);
// Finds the files in which data ranks stored the optimizer state of a rank, in their order; *count
// is 0 if there are none. DRV_E_DATA: one is missing, or drover does not read their form.
//
//   NxD      optim/dp_rank_DD_tp_rank_TT_pp_rank_PP.pt, if the weights are in model/
//   NeMo 1   optim/dp_rank_DDD/NAME-optimizer_states.ckpt, if the weights are in NAME.ckpt
DRV_CHECKED drv_status rank_files_shards(arena *a, const rank_files *files, int rank,
        const char ***out, int *count);
