// Memory of a process that no plan knows.
#include "weights/process_bytes.h"

#include "base/parallel.h"
#include "base/round.h"
#include "ckpt/block_hash.h"
#include "weights/carry.h"
#include "weights/run_layout.h"

// Measured on Zen 5 with 1 to 64 layers and 1 to 8 ranks (bench/results/2026-11-22-layouts.md).
#define ALONE_BYTES  ((int64_t)20 << 20)  // code, libraries, reading data
#define MPI_BYTES    ((int64_t)12 << 20)  // its code, and what it holds
#define LAYER_BYTES  ((int64_t)100 << 10) // of a graph
#define THREAD_BYTES ((int64_t)128 << 10)

// A block of a file that a rank writes; among ranks that have not all the same also what it sends
// to those that write others, and what they send (ckpt/shared_writer.c).
static int64_t save_bytes(const run_config *cfg, const mesh *m) {
    const int alike = cfg->zero ? 1 : m->size[AXIS_DATA] * m->size[AXIS_CONTEXT],
              ranks = mesh_ranks(m) / alike;
    const int64_t state = 12 *
                          model_parameters(&cfg->model), // masters and moments, the largest file
            block = state < CKPT_BLOCK_BYTES ? state : CKPT_BLOCK_BYTES;
    return block + 2 * block * (ranks - 1) / ranks;
}

int64_t process_bytes(const run_config *cfg) {
    mesh m = run_mesh(cfg);
    for (int axis = 0; axis < N_AXES; axis++)
        if (m.size[axis] == 0) m.size[axis] = 1; // of a model that is not trained
    const int ranks = mesh_ranks(&m), stages = m.size[AXIS_PIPELINE];
    return ALONE_BYTES + THREAD_BYTES * par_threads() + (ranks > 1 ? MPI_BYTES : 0) +
           LAYER_BYTES * div_up(cfg->model.num_hidden_layers, stages) + carry_bytes(cfg) +
           save_bytes(cfg, &m);
}
