// A model that a back end holds: its parameters, their compute type, the ranks that share them, and
// the programs whose state they are. Training, generation and scoring each build the
// programs that they need and read or write the values here.
#pragma once
#include "backend/backend.h"
#include "config/config.h"
#include "model/llama.h"
#include "setup/run_layout.h"

typedef struct built_program {
    graph *graph;
    plan *plan;
    executable **run;      // where it is put when it is loaded
    bool each_micro_batch; // of training; otherwise once a step, or apart from steps
} built_program;

typedef struct held_model {
    const run_config *config;
    backend *b;
    comm *comm;    // the ranks that load state together; NULL: this one alone
    lora_set lora; // of all layers; empty: without LoRA
    param_list params;
    dtype dt;           // of compute
    int zero;           // data ranks share (parallel.zero): 1: masters and moments; 2: also sums of
                        // gradients; 3: also weights
    built_program *all; // every program of a run; none of one that is not trained
    int n_all, cap_all;
} held_model;

// Notes a program that was built; `run` is set when it is loaded.
void held_add(arena *a, held_model *model, graph *g, executable **run, bool each_micro_batch);
// Finds a noted program by its name; NULL: there is none.
const built_program *held_find(const held_model *model, const char *name);

// Counts the numbers that are trained, of the whole model: with LoRA those of its branches.
int64_t held_trained(const held_model *model);
// Returns whether Muon updates a weight: a matrix of a layer, in a run whose optimizer it is. All
// other weights are AdamW's.
bool held_by_muon(const held_model *model, const param *w);
// Returns whether data ranks share those weights: each is orthogonalised by one of them
// (passes/muon_update.c).
bool held_has_owners(const held_model *model);
// Returns whether some noted program has this state, which not all ranks do.
bool held_has(const held_model *model, const char *name);
// Returns the type of a state that some noted program has, as a master or a moment.
dtype held_state_type(const held_model *model, const char *name);
// Returns the name of the master of a weight: "master.W" beside a bf16 weight; W itself in fp32, or
// without masters.
const char *held_master(arena *a, const held_model *model, const param *w);
// The range of a weight's elements whose masters and moments this rank holds.
typedef struct held_shard {
    int64_t first, n;
} held_shard;
held_shard held_shard_of(const held_model *model, const param *w);
// Returns the elements that this rank has of the weight itself, and their bytes: all of them, or,
// where data ranks share weights, its shard, in which that of the masters lies.
held_shard held_weight_of(const held_model *model, const param *w);
int64_t held_weight_bytes(const held_model *model, const param *w);

// Writes fp32 values of elements [first, first + n) of a weight to the part of the master that this
// rank has, and to the compute copy. A weight in blocks is quantised; one with the blocks of a GGUF
// file is left to base_blocks_load. DRV_E_DATA: the blocks cannot hold a value.
DRV_CHECKED drv_status held_write_weight(held_model *model, const param *w, int64_t first,
        int64_t n, const float *values);
// Makes fresh weights as transformers does: normal with initializer_range, norms 1.
DRV_CHECKED drv_status held_init_weights(held_model *model);
// Makes fresh low-rank branches as PEFT does: A uniform, B zero. All other weights stay.
DRV_CHECKED drv_status held_init_adapter(held_model *model);
// Writes the extents that programs which round stochastically read: the part of each weight that
// this rank has (ir/rounding.h).
DRV_CHECKED drv_status held_write_extents(held_model *model);
