// The pipeline stages of a rank: their programs, the schedule, the pool (docs/adr/0011).
#pragma once
#include "programs/programs.h"

// Returns the parameters of the preference loss of a config; beta 0: it has none.
preference_loss stages_preference(const run_config *cfg);
// Returns whether the plugin that the config names, or would find, is CUDA's.
bool stages_on_cuda(const run_config *cfg);
// Returns the bytes of logits that are in memory at a time; 0: as on a CPU (llama_opts).
int64_t stages_logit_bytes(const run_config *cfg);
// Returns the options of a graph that trains.
llama_opts stages_step_opts(const programs *p);
// Builds the evaluation of a chunk whose inputs have n_slots slots; 0, 0: of the whole model.
DRV_CHECKED drv_status stages_build_eval(arena *a, programs *p, int chunk, int n_slots,
        const char *name, graph **out, executable **run);
// Differentiates a built graph from its output `name`, with the recomputation of the config.
DRV_CHECKED drv_status stages_differentiate(const programs *p, graph *g, const char *name,
        int chunk, int n_slots);

// Shards the weights of a complete program, if the run's data ranks share them.
void stages_shard_weights(const programs *p, graph *g);

// Returns the kind of table of a schedule other than auto.
pipeline_kind stages_kind(stage_schedule schedule);
// Returns the shape of the run's schedule, whose group is not chosen yet.
pipeline_shape stages_shape(const run_config *cfg);
// Finds the shape with the smallest groups of micro-batches that work. DRV_E_USAGE: there is no
// such schedule; the message names the wrong key.
DRV_CHECKED drv_status stages_find_shape(const run_config *cfg, pipeline_shape *out);
// Checks the schedule with the simulator, unless for an outline, and builds the programs of the
// chunks of p->held.params.layout. DRV_E_USAGE: as stages_find_shape.
DRV_CHECKED drv_status stages_build(arena *a, const run_config *cfg, programs *p);
// Computes the time of the run's schedule, with stages as long as the arithmetic of their layers.
DRV_CHECKED drv_status stages_time(arena *a, const run_config *cfg, pipeline_result *out);
// Places the state of micro-batches in flight in a pool that all chunks of this rank share.
void stages_place(arena *a, programs *p);
// Selects the state of a micro-batch in a chunk for programs, writes and reads.
void stages_use(programs *p, int chunk, int micro_batch);
// Copy the message of a task: to the input at which it begins, and from its result.
DRV_CHECKED drv_status stages_put(programs *p, const pipeline_task *item, const void *message);
DRV_CHECKED drv_status stages_get(const programs *p, const pipeline_task *item, void *message);
// Returns the bytes that the rank sends to other stages for a micro-batch.
double stages_sent(const programs *p);
