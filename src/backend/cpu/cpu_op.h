// The CPU back end's table of ops: a row describes how a node becomes an instruction and how much
// scratch it needs. Each row, `cpu_op_NAME` for an op of IR_OPS, is next to its functions in
// run_*.c. An op without a row does not link.
#pragma once
#include "backend/cpu/gemm.h"
#include "base/exact_sum.h"
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
    void *workspace; // of the size that the row's workspace() returned
    int64_t workspace_bytes;
    const kernels *kernels;
    const kernels *attention; // may be of another level (see gemm.h on arithmetic)
    gemm *gemm[MAX_GEMMS];
    const instruction *next_product; // the next product of a single row; after the last one, the
                                     // first one; NULL: none
    comm_group *group;               // of an op with an axis; NULL: one rank
    comm_group *along[N_AXES];       // of an op with several (mesh.axes, fp8_axes); NULL: one rank
    comm_group *
            replicas; // of attention of rows that ranks share: tensor ranks with one key-value head
    int tensor_place; // of this rank
    // Lists, up to a NULL, of what asynchronous nodes may be writing (cpu_state.h); NULL: one rank.
    struct state **touched, **written; // of all inputs and outputs; of the outputs of such a node
    int64_t *sizes;                    // gather_weight, add_shard: bytes of the shards, by place
    const char *label;                 // of an asynchronous node, for messages
    double *seconds;                   // of its node, since nodes are timed
    drv_status *failed; // set with drv_fail when communication fails, which ends the program
};

// Returns whether an instruction is a matrix product of a single row (generation), whose time is
// that of reading the weights.
bool is_row_product(const instruction *ins);

// The functions depend on the node, the number of threads and the arithmetic of products in this
// process (gemm.h), but not on an open back end.
typedef struct cpu_op {
    // Cuts the work into chunks of a fixed size and calls the kernels. All three NULL: nothing to
    // compute.
    void (*run)(const instruction *ins);
    // Instead of `run`: computes `n` rows of the first output, at most CHUNK_ROWS, or `n` of its
    // elements, at most CHUNK_ELEMENTS.
    void (*rows)(const instruction *ins, int64_t first, int64_t n);
    void (*elements)(const instruction *ins, int64_t first, int64_t n);
    // An asynchronous node (attrs.mesh.async) has two halves. `begin` runs at once and returns the
    // bytes that `rest` will send, or a negative number if there is nothing left to do. `rest` runs
    // on the communication thread while later nodes run; it may only access state and what the node
    // writes, since other temporaries may be overwritten by then.
    int64_t (*begin)(const instruction *ins);
    drv_status (*rest)(const void *ins);
    // Returns the bytes of scratch while it runs. NULL: none.
    int64_t (*workspace)(const node *n, int n_threads);
    // Prepares data that `run` needs besides pointers, or sets another out->run. NULL: not needed.
    drv_status (*lower)(arena *a, gemm_machine *m, const node *n, instruction *out);
    bool whole_axis;    // communicates over all ranks of its axis even if there are replicas
    bool over_replicas; // communicates over the tensor ranks that share a key-value head
} cpu_op;

extern const cpu_op *const cpu_ops[N_OPS];

// --- shorthands for run functions
// Chunks of an op, counted in rows, in elements of a flat array, or in columns.
enum { CHUNK_ROWS = 32, CHUNK_ELEMENTS = 1 << 15, CHUNK_COLUMNS = 64 };

// Returns the number of elements in chunk c of n elements in chunks of `size`.
static inline int64_t chunk_length(int64_t n, int64_t size, int64_t c) {
    return n - c * size < size ? n - c * size : size;
}

// Returns the function that runs an op as its row says; NULL: nothing to compute.
void (*run_of_op(const cpu_op *row))(const instruction *ins);
// Calls fn(ins, c) for each chunk c of n elements in chunks of `size`, on all threads.
void run_chunks(const instruction *ins, int64_t n, int64_t size, par_fn *fn);

// Adds the squares of n elements. Only the exact sum is the same with any kernels, which give a sum
// of squares in several words.
void add_squares(const kernels *by, dtype dt, const char *x, int64_t n, exact_sum *sum);

static inline const char *input_at(const instruction *ins, int k, int64_t element) {
    return (const char *)ins->in[k] + element * dtype_bytes(ins->node->in[k]->dt);
}

static inline char *output_at(const instruction *ins, int k, int64_t element) {
    return (char *)ins->out[k] + element * dtype_bytes(ins->node->out[k]->dt);
}
