// The programs of a run (design D3), made from its config: one forward/backward pass of a
// micro-batch, or those of the pipeline stages of this rank; the update; evaluation.
#pragma once
#include <stdio.h>

#include "plan/pipeline.h"
#include "weights/held_model.h"

enum { MAX_SLOTS = 20 }; // 2^20 accumulation groups

// Programs of a rank with several accumulation groups (parallel.accumulation_groups). They move
// gradients to a slot, and add them back from it, for the weights to which one program adds.
typedef struct accum_group_programs {
    executable *aside[MAX_SLOTS], *back[MAX_SLOTS];
} accum_group_programs;

// The programs of one pipeline stage of this rank. Inputs and kept state are in the pool.
typedef struct stage_programs {
    int n_slots;
    bool trains_before, trains_here; // an earlier stage, or this one, has a trained weight
    bool drops;                      // it has dropout, and so the input origin.CHUNK
    graph *graph[N_CUTS], *eval_graph;
    executable *run[N_CUTS], *eval; // run[CUT_WEIGHTS] NULL: weight gradients are not split off
    accum_group_programs accum_groups[N_CUTS]; // of the weights that each part adds to
} stage_programs;

// Returns whether a stage has a backward pass.
static inline bool stage_trains(const stage_programs *s) {
    return s->trains_before || s->trains_here;
}

// A callback for each program, in order, after all have been compiled.
typedef struct compile_report {
    void (*tell)(void *ctx, const char *name, int n_nodes, const load_request *made);
    void *ctx;
} compile_report;

typedef struct programs {
    held_model held;
    run_layout layout;
    graph *step_graph, *update_graph, *eval_graph;
    executable *step, *update, *eval;
    // A program of the whole step (backend.h: step_parts), if the back end supports it and the step
    // has one rank, one accumulation group and no preference pairs. It replaces step and update,
    // which are then NULL.
    executable *whole_step;
    accum_group_programs accum_groups;
    int n_accum_slots;
    // In a pipeline the stages replace step and eval, which are then NULL.
    int n_stages; // of this rank; 0: no pipeline
    stage_programs *stage;
    bool is_outline; // see programs_outline
    pipeline_schedule schedule;
    pipeline_slots slots;
    pipeline_pool pool;         // the memory of micro-batches in flight
    const state_pool *pooled;   // the same memory for tensors (tensor.pool); NULL: no pipeline
    int *round, n_rounds;       // of the tasks of this rank (pipeline_rounds)
    int64_t message_bytes;      // of a message to the next stage
    struct pipeline_link *link; // to the neighbours; NULL until a stepper is made
} programs;

// Builds the graphs; plans and allocates nothing. Each graph is verified after it is built, after
// it is differentiated, and after the last pass.
DRV_CHECKED drv_status programs_build(arena *a, const run_config *cfg, programs *p);
// Builds the same graphs for a search, which does not run them: a long schedule has fewer
// micro-batches (pipeline_shortened) and no rounds, so that the memory of activations may differ by
// a little from that of the whole schedule.
DRV_CHECKED drv_status programs_outline(arena *a, const run_config *cfg, programs *p);
// Returns whether a chunk of this rank is the last stage, which has labels and loss.
bool programs_is_last(const programs *p, int chunk);
// Returns whether any chunk of this rank is the last stage.
bool programs_has_loss(const programs *p);
// Writes the gradient of every loss of a micro-batch.
DRV_CHECKED drv_status programs_write_dloss(programs *p, double dloss);
// Plans all programs for a back end, loads them, and writes the extents (held_write_extents).
// DRV_E_DEVICE: a program needs more memory than the device gives, or the device has failed.
DRV_CHECKED drv_status programs_load(arena *a, backend *b, programs *p);
// Builds a run's programs, or their outline, and plans them as the host's back end would, without a
// device.
DRV_CHECKED drv_status programs_plan(arena *a, const run_config *cfg, programs *p);
DRV_CHECKED drv_status programs_plan_outline(arena *a, const run_config *cfg, programs *p);
// Compiles all of them, even if some fail, and returns the first failure.
DRV_CHECKED drv_status programs_compile(arena *a, backend *b, programs *p,
        const compile_report *report);

// Finishes accumulation group number `accum_group` of the n_accum_groups of this rank: adds the
// slots that hold its left neighbours in the tree, and stores the sum in the first free slot. The
// last group adds all slots that are in use; its sum stays in the accumulators.
DRV_CHECKED drv_status programs_finish_accum_group(programs *p,
        const accum_group_programs *accum_groups, int64_t accum_group, int64_t n_accum_groups);

// Counts the FLOPs of a step per token by the nodes of its graph, over all ranks that share a row:
// 6 for each element of a trained matrix, 4 for a frozen one, and the causal half of attention.
// `recomputed`: includes recomputation.
double programs_flops_per_token(const programs *p, bool recomputed);
// Returns the same for an evaluation, which has no backward pass.
double programs_eval_flops_per_token(const programs *p);
// Returns the FLOPs of a rank's update: the products of Muon; 0: none.
double programs_update_flops(const programs *p);
// Counts the bytes that a rank sends to others in a step, by axis of the mesh, without losses and
// agreement, which take a few bytes per micro-batch.
void programs_wire(const programs *p, double bytes[N_AXES]);

// Returns whether a step is one program with one micro-batch on one device, so that its gradients
// are temporaries (backend/step_memory.h).
bool programs_makes_gradients_once(const programs *p);

// The memory of a run by class, in bytes per rank. `activations`: the arena and the values that
// stages keep for micro-batches in flight. If gradients are temporaries
// (programs_makes_gradients_once), `gradients` and `activations` are those at the peak of the step,
// and `activations` includes masks and scratch. `communication`: its part of the arena and, outside
// the back end, `messages` between stages. `data`: inputs and outputs of the programs and, outside
// the back end, `batches`: the rows of two global batches, one of which is read ahead. For a run
// with CUDA's plugin, `masks` and `workspace` belong to cuDNN's attention
// (backend/cudnn_attention.h); a compiler without a device does not know the latter. `products` is
// cuBLASLt's scratch (backend/cublas_memory.h).
typedef struct memory_plan {
    int64_t weights, gradients, optimizer, activations, communication, data, batches, messages,
            masks, workspace, products, total;
    int64_t offloaded; // in host memory, not part of the total
} memory_plan;
memory_plan programs_memory(const programs *p);
// Returns the largest number of bytes that the device holds while a loaded program runs, by the
// compiler's plan, and sets *name to that program; 0: unknown.
int64_t programs_compiled_bytes(const programs *p, const char **name);
// Checks the programs that are loaded. DRV_E_DEVICE: one needs more than the device gives.
DRV_CHECKED drv_status programs_check_fit(const programs *p);
// Compares the memory that the back end holds with the plan (design D4). DRV_E_DEVICE: it holds
// more than planned. Logs a warning if it holds less, since the plan is wrong then too.
DRV_CHECKED drv_status programs_check_held(const programs *p);

// Warn of slow code that the compiler has produced, with a line for each kind: in one program, and
// in all loaded programs on devices where it matters.
void program_facts_warn(const char *program, const program_facts *f);
void programs_warn(const programs *p);
// Prints the facts of a program in indented lines.
void program_facts_print(FILE *to, const program_facts *f);
