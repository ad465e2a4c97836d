// Reads the state of an optimizer from a file of a rank. It has no names: parameters are numbered
// by group, and within a group in the order of the rank's model. Two groups, weights with and
// without decay, are common; the shapes tell which weight is in which group.
//
//   torch       {state: {K: {exp_avg, exp_avg_sq, step}}, param_groups: [{params: [K, ..]}]}
//   Megatron    {optimizer: as torch's, fp32_from_fp16_params: [[master, ..] of each group]}
//   torch_xla   {base_state: {K: shards of rows}, sharded_master_weights, shape_info}: ZeRO-1,
//               in a file of each data rank, with the rows padded to a multiple of them
//   buffers     {0: {types: {param, exp_avg, exp_avg_sq}}}: Megatron's distributed optimizer,
//               all parameters of a model chunk in one vector, the last one first
//
// Legend: o the states of a rank's optimizer, v a value of a pickle
#pragma once
#include "source/foreign_state.h"
#include "source/rank_join.h"

typedef enum optimizer_kind {
    KIND_EXP_AVG,
    KIND_EXP_AVG_SQ,
    KIND_MASTER,
    N_OPTIMIZER_KINDS
} optimizer_kind;

typedef struct optimizer_states {
    foreign_model *m;
    const rank_part **weights; // the parameters in the order of the rank's model
    int n;
    rank_part *parts[N_OPTIMIZER_KINDS]; // for each parameter; no blocks: there is no state
    int64_t updates;                     // the optimizer's step count; -1: not known yet
    double learning_rate;                // NaN: likewise
} optimizer_states;

// Creates empty states for the parameters. A tied output weight in addition to the embedding is not
// a parameter.
void optimizer_states_begin(foreign_model *m, const rank *r, bool is_tied, optimizer_states *out);
// Reads torch's or Megatron's form, or a shard of torch_xla's form, of which `file` and its value
// `v` are that of data rank `shard`. DRV_E_DATA: another form, a moment with another size, or step
// counts that differ.
DRV_CHECKED drv_status optimizer_states_read(optimizer_states *o, torch_file *file,
        const pickle_value *v, int shard, int n_shards);
// Reads the buffers form, which is the top-level value of `file`.
DRV_CHECKED drv_status optimizer_states_read_buffers(optimizer_states *o, torch_file *file,
        int n_chunks);
// Returns whether a value is Megatron's form without state, which is then in the buffers form.
bool optimizer_states_are_elsewhere(const pickle_value *v);
// DRV_E_DATA: a parameter has no moments, or some rows of them are missing.
DRV_CHECKED drv_status optimizer_states_check(const optimizer_states *o, const char *path);

// Replaces the weights in j->m->tensors by the optimizers' state for them, joined from all ranks,
// and reads the progress of the run (ranks_optimizer.c). DRV_E_DATA: there is no state, or its form
// does not identify the weights; the message says what to do.
DRV_CHECKED drv_status ranks_optimizer_read(rank_joining *j, foreign_progress *progress);
