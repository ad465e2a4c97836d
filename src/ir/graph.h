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
    X(join_shards)                                                                                 \
    X(take_shard)                                                                                  \
    X(gather_shards)                                                                               \
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

// Says what a tensor is for. All but TENSOR_TEMP have a name, live across programs and are counted
// in the plan under their class.
typedef enum tensor_class {
    TENSOR_TEMP,
    TENSOR_INPUT,     // written by the host before a run
    TENSOR_OUTPUT,    // read by the host after a run
    TENSOR_WEIGHT,    // what the model multiplies with
    TENSOR_GRAD,      // accumulated gradient of a weight
    TENSOR_OPTIMIZER, // master weights and moments
    TENSOR_CACHE,     // keys and values while generating
    TENSOR_KEPT,      // what one program of a pipeline stage leaves for another
    N_TENSOR_CLASSES
} tensor_class;

enum { MAX_DIMS = 3, MAX_OUT = 5, MAX_REDUCTION_BLOCKS = 256 };

typedef struct node node;

typedef struct tensor {
    int id;
    const char *name; // NULL for most temporaries
    dtype dt;
    int n_dims;
    int64_t dim[MAX_DIMS];
    // A frozen weight that is held in blocks of quantised numbers: dt is what ops see of it (op.h:
    // reads_blocks). NULL: elements of dt.
    const block_matrix *blocks;
    tensor_class cls;
    // Autodiff makes its gradient. Weights begin with true, real inputs with false.
    bool trainable;
    // The copies of a state tensor; a program sees the one that the back end was told.
    int n_slots;
    node *def;            // NULL: exists before the program runs
    struct tensor *alias; // shares this older value's storage; NULL otherwise
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
    // Reduction blocks of each row on this rank (zigzag.h), 1 unless set. Tokens lie block after
    // block, and the gradient of a weight has an accumulator for each.
    int row_blocks;
    // A micro-batch adds so many partial sums for each of these reduction blocks to a gradient,
    // each the sum of some rows (docs/adr/0026); 1 unless set. They differ in the rows alone, which
    // lie in order.
    int partial_sums;
    int layer;   // given to nodes that are added
    phase phase; // likewise
} graph;

graph *graph_new(arena *a, const char *name);

// Makes a named tensor that exists before the program runs.
tensor *graph_state(graph *g, tensor_class cls, const char *name, dtype dt, int n_dims,
        const int64_t *dim);
tensor *graph_find(const graph *g, const char *name); // a named tensor; NULL if absent
// Makes the state in which the gradient of a weight is summed: as w is, in the accumulation type;
// on a rank that has several reduction blocks of each row (g->row_blocks) one after the other for
// each: [row_blocks, ...].
tensor *graph_accumulator(graph *g, const char *name, const tensor *w);

// Appends a node; shapes of the outputs come from the op's row. Wrong inputs are our bug: abort.
node *graph_add(graph *g, op_kind op, int n_in, tensor *const *in, const op_attrs *attrs);
// Makes a node without appending it (passes insert it themselves).
node *graph_make(graph *self, op_kind op, int n_in, tensor *const *in, const op_attrs *attrs);
void graph_append(graph *g, node *n);

// Names a value and keeps it for the host. The name must live as long as the graph.
void graph_output(graph *g, tensor *t, const char *name);
// Gives an output's name to another value; the old one becomes a temporary.
void graph_move_output(graph *g, tensor *from, tensor *to);

// Drops nodes whose results are neither used nor kept nor written to state.
void graph_prune(graph *g);

int64_t tensor_elements(const tensor *t);
int64_t tensor_bytes(const tensor *t); // of one slot
// Returns the blocks that hold the storage in which t lies; NULL: it is held as elements.
const block_matrix *tensor_blocks(const tensor *t);
const tensor *tensor_root(const tensor *t); // follows aliases to the storage's first value

// Checks that shapes, aliases, attributes and numbers of ranks are those of the op rows and of the
// mesh, that every value is defined before it is read, that nobody reads what was overwritten, and
// that the stage allows every op. DRV_E_DATA names the node; also where g has not reached `stage`.
DRV_CHECKED drv_status graph_verify(const graph *g, graph_stage stage);

// Prints one line per node. Graphs with the same text compute the same: it holds the mesh and the
// reduction blocks of a row, the state, the nodes in order, every type and every attribute to the
// last bit. (Two texts may differ in the numbers of temporaries alone.)
void graph_print(const graph *g, str *out);
