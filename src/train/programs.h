// The programs of a run (design D3), made from its config: one forward/backward pass of a
// micro-batch, the update, evaluation.
#pragma once
#include "backend/backend.h"
#include "config/config.h"
#include "model/llama.h"
#include "passes/passes.h"

enum { MAX_SLOTS = 20 }; // 2^20 lanes

typedef struct programs {
    const run_config *c;
    backend *b;
    comm *comm; // with whom state is loaded; NULL: alone
    param_list params;
    dtype dt;  // of compute
    bool zero; // data ranks share the optimizer: masters and moments are shards (ir/shard.h)
    graph *step_graph, *update_graph, *eval_graph;
    plan *step_plan, *update_plan, *eval_plan;
    executable *step, *update, *eval;
    // A rank with several lanes (parallel.lanes): gradients to and from each slot.
    int n_slots;
    graph *aside_graph[MAX_SLOTS], *back_graph[MAX_SLOTS];
    plan *aside_plan[MAX_SLOTS];
    executable *aside[MAX_SLOTS], *back[MAX_SLOTS];
} programs;

// The mesh of the job (config_set_ranks).
mesh programs_mesh(const run_config *cfg);
// Graphs only, each verified after each pass: nothing is planned or allocated.
DRV_CHECKED drv_status programs_build(arena *a, const run_config *cfg, programs *out);
// Plans them for a back end and loads them.
DRV_CHECKED drv_status programs_load(arena *a, backend *b, programs *p);

// Master name of a weight: "master.W" beside a bf16 weight, W itself in fp32.
const char *programs_master(arena *a, const programs *p, const param *w);
// Which elements of a weight its masters and moments on this rank are of.
typedef struct programs_shard {
    int64_t first, n;
} programs_shard;
programs_shard programs_shard_of(const programs *p, const param *w);
// Writes fp32 values of part of a weight (elements from `first`) to the master, as far as this rank
// has it, and the compute copy.
DRV_CHECKED drv_status programs_write_weight(programs *p, int rank, const param *w, int64_t first,
        int64_t n, const float *values);
// Fresh weights as transformers makes them: normal with initializer_range, norms 1.
DRV_CHECKED drv_status programs_init_weights(programs *p);
// Fresh low-rank branches as PEFT makes them: A uniform, B zero. All other weights stay.
DRV_CHECKED drv_status programs_init_adapter(programs *p);

// Arithmetic of a step by the nodes of its graph: 6 operations a number of a trained matrix and
// token, 4 where it is frozen, and the causal half of attention. `recomputed`: with what is
// computed a second time to save memory.
double programs_flops_per_token(const programs *p, bool recomputed); // over all tensor ranks
// Bytes that a rank sends to others in a step, by axis of the mesh; losses and agreement aside,
// which are a few bytes per micro-batch.
void programs_wire(const programs *p, double bytes[N_AXES]);

// What a run holds, by class, in bytes per rank. `activations` is the arena, which `communication`
// is part of; `data` is inputs and outputs of the programs and, outside the back end, `batches`:
// the rows of two global batches, one of which is read ahead.
typedef struct memory_plan {
    int64_t weights, gradients, optimizer, activations, communication, data, batches, total;
} memory_plan;
memory_plan programs_memory(const programs *p);
// Holds the back end against the plan (design D4). DRV_E_DEVICE: it holds more. Fewer bytes than
// planned are a warning, for the plan is then not true.
DRV_CHECKED drv_status programs_check_held(const programs *p);
