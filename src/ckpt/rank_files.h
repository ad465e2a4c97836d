// The files that the tensor and pipeline ranks of a trainer wrote, found by their names:
//
// - Megatron-LM: [iter_NNNNNNN/]mp_rank_TT[_PPP]/model_optim_rng.pt, with
//   latest_checkpointed_iteration.txt beside the folders of iterations
// - NeMo 1 (neuronx-nemo-megatron): mp_rank_TT/NAME.ckpt, tp_rank_TT_pp_rank_PPP/NAME.ckpt
// - NxD, NxD Training: [model/]dp_rank_00_tp_rank_TT_pp_rank_PP.pt
// - Optimum Neuron: shards/model/dp_rank_00_tp_rank_TT_pp_rank_PP.pt
//
// A run of one rank of the first two has its file in the folder itself. NeMo 1 also packs files
// into an archive, FILE.nemo, as mp_rank_TT/model_weights.ckpt and the like, or model_weights.ckpt
// alone.
//
// With xser (torch_xla.utils.serialization) a file has references, and FILE.tensors/tensor_K.pt the
// tensors.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "pickle/file_part.h"

typedef struct rank_files {
    const char *folder;   // that they lie in
    const char **file;    // of tensor rank t and pipeline rank p at p * tensor + t
    int tensor, pipeline; // how many
    bool is_megatron;     // mp_rank_..: has the arguments of the run
    file_part *parts;     // of an archive, one for each file, whose descriptor the caller closes;
                          // NULL: they are files of their own
} rank_files;

// Returns the folder of the iteration that a Megatron checkpoint's tracker names; else `path`.
const char *rank_files_iteration(arena *a, const char *path);
// Returns whether a folder has such files, or a file is an archive of NeMo: names are parsed,
// nothing is opened.
bool rank_files_are_there(arena *a, const char *path);
// DRV_E_DATA: a rank's file is missing, or an archive is in a form that is not read.
DRV_CHECKED drv_status rank_files_find(arena *a, const char *path, rank_files *out);
// Finds the files of the optimizer of a rank that data ranks wrote beside, in their order; *count
// is 0: there are none. DRV_E_DATA: one is missing, or they are in a form that is not read.
//
//   NxD      optim/dp_rank_DD_tp_rank_TT_pp_rank_PP.pt, where the weights lie in model/
//   NeMo 1   optim/dp_rank_DDD/NAME-optimizer_states.ckpt, where the weights are NAME.ckpt
DRV_CHECKED drv_status rank_files_shards(arena *a, const rank_files *files, int rank,
        const char ***out, int *count);
