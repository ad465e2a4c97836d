// The programs of a run (design D3), made from its config: one forward/backward pass of a
// micro-batch, or those of the pipeline stages of this rank; the update; evaluation.
#pragma once
#include <stdio.h>

#include "plan/pipeline.h"
#include "weights/held_model.h"

enum { MAX_SLOTS = 20 }; // 2^20 accumulation groups

// Programs of a rank with several accumulation groups (parallel.accumulation_groups): gradients to
// and from each slot, of those weights that one program adds to.
typedef struct accum_group_programs {
    executable *aside[MAX_SLOTS], *back[MAX_SLOTS];
} accum_group_programs;

// The programs of one pipeline stage of this rank. Inputs and kept state lie in the pool.
typedef struct stage_programs {
    int n_slots;
    bool trains_before, trains_here; // something is trained in stages before it; in it
    bool drops;                      // it has dropout, and so the input origin.CHUNK
    graph *graph[N_CUTS], *eval_graph;
    executable *run[N_CUTS], *eval; // run[CUT_WEIGHTS] NULL: weight gradients are not split off
    accum_group_programs accum_groups[N_CUTS]; // of the weights that each part adds to
} stage_programs;

// Returns whether a stage has a backward pass.
static inline bool stage_trains(const stage_programs *s) {
    return s->trains_before || s->trains_here;
}

// Called for each program, in order, when all have been compiled.
typedef struct compile_report {
    void (*tell)(void *ctx, const char *name, int n_nodes, const load_request *made);
    void *ctx;
} compile_report;

typedef struct programs {
    held_model held;
    run_layout layout;
    graph *step_graph, *update_graph, *eval_graph;
    executable *step, *update, *eval;
    // Whole steps (backend.h: step_parts), where the back end has them and one rank and one
    // accumulation group make a step, not of pairs: it takes the place of step and update, which
    // are NULL.
    executable *whole_step;
    accum_group_programs accum_groups;
    int n_accum_slots;
    // A pipeline: the stages take the place of step and eval, which are NULL.
    int n_stages; // of this rank; 0: no pipeline
    stage_programs *stage;
    bool is_outline; // see programs_outline
    pipeline_schedule schedule;
    pipeline_slots slots;
    pipeline_pool pool;         // of what micro-batches in flight have
    const state_pool *pooled;   // the same memory, as tensors name it; NULL: no pipeline
    int *round, n_rounds;       // of the tasks of this rank (pipeline_rounds)
    int64_t message_bytes;      // of what a stage hands to the next one
    struct pipeline_link *link; // to the neighbours; NULL until there is a stepper
} programs;

// Builds the graphs alone: nothing is planned or allocated. Each is verified as it is built, as it
// is differentiated, and after the last pass over it.
DRV_CHECKED drv_status programs_build(arena *a, const run_config *cfg, programs *p);
// Builds the same graphs for a search, which does not run them: a long schedule has fewer
// micro-batches (pipeline_shortened) and no rounds, so that the memory of activations may differ by
// a little from that of the whole schedule.
DRV_CHECKED drv_status programs_outline(arena *a, const run_config *cfg, programs *p);
// Returns whether a chunk of this rank is the last stage, which has labels and loss.
bool programs_is_last(const programs *p, int chunk);
// Returns whether any chunk of this rank is.
bool programs_has_loss(const programs *p);
// Writes the gradient of every loss that a micro-batch has.
DRV_CHECKED drv_status programs_write_dloss(programs *p, double dloss);
// Plans all programs for a back end and loads them, and says to those that round by chance which
// part of each weight this rank has. DRV_E_DEVICE: as programs_check_fit says, among others.
DRV_CHECKED drv_status programs_load(arena *a, backend *b, programs *p);
// Builds a run's programs, or their outline, and plans them as the host's back end would, without a
// device.
DRV_CHECKED drv_status programs_plan(arena *a, const run_config *cfg, programs *p);
DRV_CHECKED drv_status programs_plan_outline(arena *a, const run_config *cfg, programs *p);
// Compiles all of them, even if some fail, and returns the first failure.
DRV_CHECKED drv_status programs_compile(arena *a, backend *b, programs *p,
        const compile_report *report);

// Finishes accumulation group number `accumulation group` of `n_accum_groups` of this rank: adds
// every slot that holds its left neighbour in the tree, and stores the sum in the first free slot;
// that of the last group is the sum of all.
DRV_CHECKED drv_status programs_finish_accum_group(programs *p,
        const accum_group_programs *accum_groups, int64_t accum_group, int64_t n_accum_groups);

// Counts the arithmetic of a step by the nodes of its graph: 6 operations a number of a trained
// matrix and token, 4 where it is frozen, and the causal half of attention. `recomputed`: with what
// is computed a second time to save memory. Over all ranks that share a row.
double programs_flops_per_token(const programs *p, bool recomputed);
// Returns the same of an evaluation, which has no backward pass.
double programs_eval_flops_per_token(const programs *p);
// Returns the arithmetic of a rank's update: the products of Muon; 0: none.
double programs_update_flops(const programs *p);
// Counts the bytes that a rank sends to others in a step, by axis of the mesh; losses and agreement
// aside, which are a few bytes per micro-batch.
void programs_wire(const programs *p, double bytes[N_AXES]);

// Returns whether a step is one program with one micro-batch on one device, so that its gradients
// are temporaries (backend/step_memory.h).
bool programs_makes_gradients_once(const programs *p);

// The memory of a run by class, in bytes per rank. `activations` is the arena and what stages keep
// of micro-batches in flight; where gradients are made once, `gradients` and `activations` are what
// is in memory when the step needs most, with masks and scratch in `activations`. `communication`
// is part of the arena and, outside the back end, `messages` between stages; `data` is inputs and
// outputs of the programs and, outside the back end, `batches`: the rows of two global batches, one
// of which is read ahead. Where a run would open CUDA's plugin, `masks` and `workspace` are of
// cuDNN's attention (backend/cudnn_attention.h), the latter not known to a compiler without a
// device, and `products` is cuBLASLt's scratch (backend/cublas_memory.h).
typedef struct memory_plan {
    int64_t weights, gradients, optimizer, activations, communication, data, batches, messages,
            masks, workspace, products, total;
    int64_t offloaded; // in the host's memory beside a device, not part of the total
} memory_plan;
memory_plan programs_memory(const programs *p);
// Returns the most that the device holds while a loaded program runs, as its compiler plans it, and
// the program's name; 0: unknown.
int64_t programs_compiled_bytes(const programs *p, const char **name);
// Checks the programs that are loaded. DRV_E_DEVICE: one needs more than the device gives.
DRV_CHECKED drv_status programs_check_fit(const programs *p);
// Compares the memory that the back end holds with the plan (design D4). DRV_E_DEVICE: it holds
// more than planned. Logs a warning if it holds less, since the plan is wrong then too.
DRV_CHECKED drv_status programs_check_held(const programs *p);

// Warns of slow code that the compiler has produced, with a line for each kind, in all loaded
// programs on devices where it matters.
void program_facts_warn(const char *program, const program_facts *f);
void programs_warn(const programs *p);
// Prints all of it in indented lines.
void program_facts_print(FILE *to, const program_facts *f);
