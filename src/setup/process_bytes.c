// Estimates the memory of a process that is not in the plan.
#include "setup/process_bytes.h"

#include "base/file.h"
#include "base/parallel.h"
#include "base/round.h"
#include "ckpt/shared_writer.h"
#include "setup/carry.h"
#include "setup/run_layout.h"

// Measured on Zen 5 with Open MPI 4.1.4 (bench/results/2026-11-29-memory.md): 7 MiB for one
// process, and 22 MiB for each of eight ranks.
#define ALONE_BYTES  ((int64_t)12 << 20)  // code, libraries, reading data
#define MPI_BYTES    ((int64_t)14 << 20)  // code and buffers of the MPI library
#define LAYER_BYTES  ((int64_t)100 << 10) // graphs, for each layer
#define THREAD_BYTES ((int64_t)128 << 10)

static int64_t save_bytes(const run_config *cfg, const mesh *m) {
    const int alike = cfg->zero ? 1 : m->size[AXIS_DATA] * m->size[AXIS_CONTEXT];
    const int64_t state =
            12 * model_parameters(&cfg->model); // masters and moments, the largest file
    return shared_write_bytes(state, mesh_ranks(m) / alike);
}

// Counts the preference pairs of data sets by the sizes of their .idx files (docs/formats.md): a
// pair is two documents, each with 12 bytes for its sequence and 8 for its beginning.
static int64_t pairs_of_sets(const data_source *list, int n) {
    enum { INDEX_BYTES = 2 * (12 + 8) }; // of one pair
    int64_t pairs = 0;
    arena *a = arena_new("sizes");
    for (int i = 0; i < n; i++) {
        const int64_t bytes = file_size(arena_printf(a, "%s.idx", list[i].prefix));
        if (bytes > 0) pairs += bytes / INDEX_BYTES;
    }
    arena_free(a);
    return pairs;
}

// Counts the memory for each preference pair. The rows to train on and those of evaluations hold
// the reference's two log-probabilities (train/references.c) and the position of the pair in the
// rows (packed_rows.h). A running evaluation also holds those of the model, as they are gathered
// and as they are compared (programs/evaluate.c).
static int64_t pair_bytes(const run_config *cfg) {
    enum { ROWS_BYTES = 16 + 16, EVALUATION_BYTES = 24 + 16 };
    if (cfg->objective != OBJECTIVE_DPO) return 0;
    const int64_t train = pairs_of_sets(cfg->train, cfg->n_train),
                  valid = cfg->n_valid ? pairs_of_sets(cfg->valid, cfg->n_valid)
                                       : (cfg->split[1] > 0 ? train : 0);
    return ROWS_BYTES * (train + valid) + EVALUATION_BYTES * (train > valid ? train : valid);
}

int64_t process_bytes(const run_config *cfg) {
    mesh m = run_mesh(cfg);
    for (int axis = 0; axis < N_AXES; axis++)
        if (m.size[axis] == 0) m.size[axis] = 1; // a model that is not trained
    const int ranks = mesh_ranks(&m), stages = m.size[AXIS_PIPELINE];
    return ALONE_BYTES + THREAD_BYTES * par_threads() + (ranks > 1 ? MPI_BYTES : 0) +
           LAYER_BYTES * div_up(cfg->model.num_hidden_layers, stages) + carry_bytes(cfg) +
           pair_bytes(cfg) + save_bytes(cfg, &m);
}
