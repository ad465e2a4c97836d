// The IR: SSA over dense tensors with static shapes (design D1). A graph is the program of one
// rank: nodes in the order in which they run. Everything lives in the graph's arena.
//
// State (weights, gradients, optimizer, caches) is named and outlives the program. A node that
// updates state in place yields a new value whose `alias` is the old one; no older value of that
// storage may be read afterwards (graph_verify checks it).
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "kernels/blocks/block_matrix.h"
#include "base/dtype.h"
#include "base/name_map.h"
#include "base/status.h"
#include "base/str.h"
#include "ir/attributes.h"
#include "ir/mesh.h"

// Every op. Its row is op_row_NAME in a file of ops/.
#define IR_OPS(X)                                                                                  \
    X(embedding)                                                                                   \
    X(embedding_grad)                                                                              \
    X(rmsnorm)                                                                                     \
    X(add_rmsnorm)                                                                                 \
    X(rmsnorm_grad)                                                                                \
    X(head_norm)                                                                                   \
    X(head_norm_grad)                                                                              \
    X(add_bias)                                                                                    \
    X(bias_grad)                                                                                   \
    X(matmul)                                                                                      \
    X(matmul_add)                                                                                  \
    X(rope_table)                                                                                  \
    X(rope)                                                                                        \
    X(attention)                                                                                   \
    X(attention_grad)                                                                              \
    X(cached_attention)                                                                            \
    X(swiglu)                                                                                      \
    X(swiglu_grad)                                                                                 \
    X(add)                                                                                         \
    X(narrow)                                                                                      \
    X(dropout)                                                                                     \
    X(lora_up)                                                                                     \
    X(lora_up_grad)                                                                                \
    X(lora_up_grad_b)                                                                              \
    X(linear_cross_entropy)                                                                        \
    X(linear_cross_entropy_grad)                                                                   \
    X(preference)                                                                                  \
    X(preference_grad)                                                                             \
    X(sum_squares)                                                                                 \
    X(sum_shard)                                                                                   \
    X(reduce_shard)                                                                                \
    X(add_shard)                                                                                   \
    X(await_shard)                                                                                 \
    X(join_shards)                                                                                 \
    X(take_shard)                                                                                  \
    X(gather_shards)                                                                               \
    X(gather_weight)                                                                               \
    X(adamw)                                                                                       \
    X(join_blocks)                                                                                 \
    X(adamw_rounded)                                                                               \
    X(momentum)                                                                                    \
    X(orthogonalise)                                                                               \
    X(to_owner)                                                                                    \
    X(from_owner)                                                                                  \
    X(descend)                                                                                     \
    X(zeros)                                                                                       \
    X(add_rounded)                                                                                 \
    X(put_aside)                                                                                   \
    X(take_back)                                                                                   \
    X(barrier)                                                                                     \
    X(to_host)                                                                                     \
    X(from_host)                                                                                   \
    X(share)                                                                                       \
    X(all_reduce)                                                                                  \
    X(all_gather)                                                                                  \
    X(reduce_scatter)                                                                              \
    X(gather_kv)                                                                                   \
    X(slice_kv)                                                                                    \
    X(share_kv)                                                                                    \
    X(join_kv)

typedef enum op_kind {
#define X(name) OP_##name,
    IR_OPS(X)
#undef X
            N_OPS
} op_kind;

// The purpose of a tensor. All classes but TENSOR_TEMP have a name, outlive a program, and are
// counted in the plan under their class.
typedef enum tensor_class {
    TENSOR_TEMP,
    TENSOR_INPUT,     // written by the host before a run
    TENSOR_OUTPUT,    // read by the host after a run
    TENSOR_WEIGHT,    // in the type in which the model computes
    TENSOR_GRAD,      // accumulated gradient of a weight
    TENSOR_OPTIMIZER, // master weights and moments
    TENSOR_CACHE,     // keys and values while generating
    TENSOR_KEPT,      // passed from one program of a pipeline stage to another
    N_TENSOR_CLASSES
} tensor_class;

enum { MAX_DIMS = 3, MAX_OUT = 5, MAX_REDUCTION_BLOCKS = 256 };

typedef struct node node;

// Memory that state of several graphs uses at different times. It is seen through spans: ranges of
// the pool that the host moves between runs of programs (backend_use_slot).
typedef struct state_pool {
    int64_t bytes;
} state_pool;

typedef struct tensor {
    int id;
    const char *name; // NULL for most temporaries
    dtype dt;
    int n_dims;
    int64_t dim[MAX_DIMS];
    // A frozen weight may be stored in blocks of quantised numbers; ops read it as dt (op.h:
    // reads_blocks). NULL: it is stored as elements of dt.
    const block_matrix *blocks;
    tensor_class cls;
    // Autodiff computes its gradient. Initially true for weights, false for real inputs.
    bool trainable;
    // The number of values that a state tensor in a pool holds: one per micro-batch in flight.
    int n_slots;
    const state_pool *pool; // NULL: separate storage, or a temporary
    int span;               // the span of the pool that holds it
    int64_t in_span;        // its offset in the span, in bytes
    bool dies;              // no program reads the value after this one
    node *def;              // NULL: exists before the program runs
    struct tensor *alias;   // shares this older value's storage; NULL otherwise
} tensor;

typedef enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE } phase;

struct node {
    op_kind op;
    int n_in, n_out;
    tensor **in;
    tensor *out[MAX_OUT];
    op_attrs attrs;
    int layer; // -1: outside the layers
    phase phase;
    bool recomputed; // a copy made by the recompute pass
};

typedef enum graph_stage { STAGE_BUILT, STAGE_DIFFERENTIATED, STAGE_PLANNED } graph_stage;

typedef struct graph {
    arena *a;
    const char *name;
    graph_stage stage;
    node **nodes;
    int n_nodes, cap_nodes;
    tensor **tensors;
    int n_tensors, cap_tensors;
    name_map names; // -> tensor
    mesh mesh;      // of the ranks that run it; one rank unless set
    // Reduction blocks of each row on this rank (zigzag.h), 1 unless set. Tokens are ordered by
    // block, and the gradient of a weight has an accumulator for each.
    int row_blocks;
    // The partial sums that a micro-batch adds to a gradient for each of these reduction blocks,
    // each over some consecutive rows (docs/adr/0026); 1 unless set.
    int partial_sums;
    bool between_steps; // it runs while no micro-batch of a pipeline is in flight
    int layer;          // of the nodes that graph_add appends
    phase phase;        // likewise
} graph;

graph *graph_new(arena *a, const char *name);

// Makes a named tensor that exists before the program runs.
tensor *graph_state(graph *g, tensor_class cls, const char *name, dtype dt, int n_dims,
        const int64_t *dim);
tensor *graph_find(const graph *g, const char *name); // a named tensor; NULL if absent
// Makes the state that accumulates the gradient of a weight: the shape of w in the accumulation
// type; [row_blocks, ...] on a rank that has several reduction blocks of each row (g->row_blocks).
tensor *graph_accumulator(graph *g, const char *name, const tensor *w);

// Appends a node; the op's row computes the shapes of the outputs. Aborts on invalid inputs, which
// are a bug of ours.
node *graph_add(graph *g, op_kind op, int n_in, tensor *const *in, const op_attrs *attrs);
// Makes a node without appending it (passes insert it themselves).
node *graph_make(graph *self, op_kind op, int n_in, tensor *const *in, const op_attrs *attrs);
void graph_append(graph *g, node *n);
// Empties the list of a graph's nodes and returns it. A pass then appends them again, with its own
// nodes between them.
typedef struct node_list {
    node **nodes;
    int n;
} node_list;
node_list graph_take_nodes(graph *g);
// Nodes that are appended after this are outside the layers, and in the forward phase.
void graph_leave_layers(graph *g);

// Names a value and makes it an output that the host can read. The name must live as long as the
// graph.
void graph_output(graph *g, tensor *t, const char *name);
// Gives an output's name to another value; the old one becomes a temporary.
void graph_move_output(graph *g, tensor *from, tensor *to);

// Removes nodes whose results are neither read nor kept nor written to state.
void graph_prune(graph *g);

int64_t tensor_elements(const tensor *t);
int64_t tensor_bytes(const tensor *t); // of one slot
// Returns the quantised blocks in which the storage of t is kept; NULL: it is kept as elements.
const block_matrix *tensor_blocks(const tensor *t);
const tensor *tensor_root(const tensor *t); // follows aliases to the storage's first value

// Checks that shapes, aliases, attributes and numbers of ranks agree with the op rows and the mesh,
// that every value is defined before it is read, that no node reads an overwritten value, and that
// every op is allowed in the stage. DRV_E_DATA names the node; also if g has not reached `stage`.
DRV_CHECKED drv_status graph_verify(const graph *g, graph_stage stage);

// Prints one line per node. Graphs with the same text compute the same: the text contains the mesh,
// the reduction blocks of a row, the state, the nodes in order, and every type and attribute to the
// last bit. (Two texts may differ in the numbers of temporaries only.)
void graph_print(const graph *g, str *out);
