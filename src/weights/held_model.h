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
    executable **run;      // set when the program is loaded
    bool each_micro_batch; // runs for each micro-batch of training; else once a step, or between
} built_program;

typedef struct held_model {
    const run_config *config;
    backend *b;
    comm *comm;    // the ranks that load state together; NULL: only this one
    lora_set lora; // of all layers; empty: without LoRA
    param_list params;
    dtype dt;           // of products and activations
    int zero;           // data ranks share (parallel.zero): 1: masters and moments; 2: also sums of
                        // gradients; 3: also weights
    built_program *all; // the programs of the run
    int n_all, cap_all;
} held_model;

// Adds a program that was built to the list; *run is set when the program is loaded.
void held_add(arena *a, held_model *model, graph *g, executable **run, bool each_micro_batch);
// Returns the program with a name; NULL: there is none.
const built_program *held_find(const held_model *model, const char *name);

// Counts the trained parameters of the whole model: with LoRA those of its branches.
int64_t held_trained(const held_model *model);
// Returns whether Muon updates a weight, as it does the matrices of layers in a run with Muon.
// AdamW updates all other weights.
bool held_by_muon(const held_model *model, const param *w);
// Returns whether data ranks divide the weights that Muon updates: one rank orthogonalises each
// (passes/muon_update.c).
bool held_has_owners(const held_model *model);
// Returns whether a program of this rank has a state with this name.
bool held_has(const held_model *model, const char *name);
// Returns the type of a state, such as a master or a moment, which a program must have.
dtype held_state_type(const held_model *model, const char *name);
// Returns the name of the master of a weight W: "master.W" for a bf16 weight with a master, else W.
const char *held_master(arena *a, const held_model *model, const param *w);
// The range of a weight's elements whose masters and moments this rank holds.
typedef struct held_shard {
    int64_t first, n;
} held_shard;
held_shard held_shard_of(const held_model *model, const param *w);
// Return the elements of the weight itself that this rank has, and their bytes: all of them or, if
// data ranks share weights, its shard, which contains that of the masters.
held_shard held_weight_of(const held_model *model, const param *w);
int64_t held_weight_bytes(const held_model *model, const param *w);

// Writes fp32 values of elements [first, first + n) of a weight to the part of the master that this
// rank has, and to the compute copy. A weight in blocks is quantised, except if the blocks are
// those of a GGUF file, which base_blocks_load reads. DRV_E_DATA: the blocks cannot hold a value.
DRV_CHECKED drv_status held_write_weight(held_model *model, const param *w, int64_t first,
        int64_t n, const float *values);
// Makes fresh weights as transformers does: normal with initializer_range, norms 1.
DRV_CHECKED drv_status held_init_weights(held_model *model);
// Makes fresh low-rank branches as PEFT does: A uniform, B zero. All other weights stay.
DRV_CHECKED drv_status held_init_adapter(held_model *model);
// Writes the extents that programs which round stochastically read: the part of each weight that
// this rank has (ir/rounding.h).
DRV_CHECKED drv_status held_write_extents(held_model *model);
