// The CPU back end's table of ops: a row says how a node becomes an instruction and what
// scratch it needs. The rows stand beside the functions that they name, in run_*.c: `cpu_op_NAME`
// for each op of IR_OPS. An op without a row does not link.
#pragma once
#include "backend/cpu/gemm.h"
#include "base/parallel.h"
#include "comm/comm.h"
#include "ir/graph.h"
#include "kernels/kernels.h"

enum { MAX_GEMMS = 9 }; // of one instruction: three for each matrix of orthogonalise

// One lowered node. Pointers are set when the program is linked to memory.
typedef struct instruction instruction;
struct instruction {
    void (*run)(const instruction *ins);
    const node *node;
    void **in, **out;
    void *workspace; // as many bytes as the row's workspace() says
    int64_t workspace_bytes;
    const kernels *kernels;
    const kernels *attention; // may be of another level (see gemm.h on arithmetic)
    gemm *gemm[MAX_GEMMS];
    const instruction *next_product; // the next one of a single row, in a circle; NULL: none
    comm_group *group;               // of an op with an axis; NULL: one rank
    comm_group *along[N_AXES];       // of an op with several (attrs.mesh.axes); NULL: one rank
    comm_group *
            replicas; // of attention of rows that ranks share: tensor ranks with one key-value head
    int tensor_place; // of this rank
    struct state **touched; // named state, up to a NULL (cpu_state.h); NULL: one rank
    double *seconds;        // of its node, where nodes are timed
    drv_status *failed; // set, with a message, when other ranks cannot be reached: the program ends
};

// Returns whether an instruction is a matrix product of a single row (generation): bound by how
// fast its weights are read.
bool is_row_product(const instruction *ins);

// Every function depends on the node, the number of threads, and how products are multiplied in
// this process (gemm.h), not on an open back end.
typedef struct cpu_op {
    // Cuts the work in chunks of a fixed size and calls the kernels. All three NULL: nothing to
    // compute.
    void (*run)(const instruction *ins);
    // In the place of `run`, computes a chunk: `n` rows of the first output, at most CHUNK_ROWS, or
    // of its elements, at most CHUNK_ELEMENTS.
    void (*rows)(const instruction *ins, int64_t first, int64_t n);
    void (*elements)(const instruction *ins, int64_t first, int64_t n);
    // A node that goes on during those that follow (attrs.mesh.async) has two halves. `begin` does
    // what cannot wait and returns how many bytes the rest sends to others, or a negative number
    // where there is no rest; the rest runs on another thread, with state alone, since temporaries
    // are gone by then.
    int64_t (*begin)(const instruction *ins);
    drv_status (*rest)(const void *ins);
    // Returns the bytes of scratch while it runs. NULL: none.
    int64_t (*workspace)(const node *n, int n_threads);
    // Builds what `run` needs beyond pointers, or sets another out->run. NULL: nothing.
    drv_status (*lower)(arena *a, gemm_machine *m, const node *n, instruction *out);
    bool whole_axis;    // works over all ranks of its axis, whatever replicas there are
    bool over_replicas; // `run` joins the tensor ranks that have one key-value head (replicas)
} cpu_op;

extern const cpu_op *const cpu_ops[N_OPS];

// --- shorthands for run functions
// Chunks of an op, counted in rows, in elements of a flat array, or in columns.
enum { CHUNK_ROWS = 32, CHUNK_ELEMENTS = 1 << 15, CHUNK_COLUMNS = 64 };

// Returns how many of n things, in chunks of `size`, are in chunk c.
static inline int64_t chunk_length(int64_t n, int64_t size, int64_t c) {
    return n - c * size < size ? n - c * size : size;
}

// Returns the function that runs an op as its row says; NULL: nothing to compute.
void (*run_of_op(const cpu_op *row))(const instruction *ins);
// Calls fn(ins, c, thread) for each chunk c of n things.
void run_chunks(const instruction *ins, int64_t n, int64_t size, par_fn *fn);

static inline const char *input_at(const instruction *ins, int k, int64_t element) {
    return (const char *)ins->in[k] + element * dtype_bytes(ins->node->in[k]->dt);
}

static inline char *output_at(const instruction *ins, int k, int64_t element) {
    return (char *)ins->out[k] + element * dtype_bytes(ins->node->out[k]->dt);
}
