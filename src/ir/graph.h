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
    X(join_leaves)                                                                                 \
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

enum { MAX_DIMS = 3, MAX_OUT = 5, MAX_LEAVES = 256 };

typedef struct node node;

// Says how a node uses the ranks of the mesh; zero for ops that know no ranks.
#define MESH_USE(X)                                                                                \
    X(int, axis)     /* collectives: mesh axis */                                                  \
    X(int, ranks)    /* collectives: size of that axis */                                          \
    X(int, dim)      /* collectives: dim that is cut in parts */                                   \
    X(int, axes)     /* sum_squares: over them as well, bits 1 << axis */                          \
    X(int, ends)     /* all_reduce: of the first and the last rank of the axis alone */            \
    X(int, n_alike)  /* sum_squares: so many first inputs are the same on all tensor ranks */      \
    X(int, replicas) /* tensor ranks that work with one key-value head */                          \
    X(int, in_place) /* all_reduce: of state */                                                    \
    X(int, beside)   /* collectives: goes on beside the nodes that follow (docs/adr/0027) */       \
    X(int, whole)    /* sum_shard: of all shards, on all ranks */                                  \
    X(int, summed)   /* reduce_shard: by sum_shard, so that nothing travels */                     \
    X(int, owner)    /* to_owner, from_owner: the place that has the whole; */                     \
    X(int, owns)     /* and that is this rank */
typedef struct mesh_use {
#define X(type, name) type name;
    MESH_USE(X)
#undef X
} mesh_use;

// The tree in which a node adds up, so that the bits depend on no rank, thread or size of a
// micro-batch (docs/adr/0012, docs/adr/0015, docs/adr/0026); zero for ops that add nothing up over
// tokens or over what ranks split.
#define SUM_TREE(X)                                                                                \
    X(int, row_leaves) /* so many leaves of each row are on this rank (zigzag.h); 0: one */        \
    X(int, addends) /* sums over tokens: so many addends of each leaf of the row (docs/adr/0026);  \
                       0: one */                                                                   \
    X(int, leaves)  /* sums over what tensor ranks split: leaves here (docs/adr/0012) */           \
    X(int, dx_leaves)  /* matmul, lora_up: those of the gradient of x, or of t */                  \
    X(int, dw_leaves)  /* matmul, lora_up: runs of tokens of the gradient of the weight, of B */   \
    X(int, dw_ranks)   /* and ranks along the axis that have other tokens */                       \
    X(int, data_ranks) /* sums over leaves of the row: so many neighbours of `ranks` have one leaf \
                        */                                                                         \
    X(int, in_lane)    /* add_shard: micro-batches of a lane; sum_shard: of a rank and step */     \
    X(int, open)       /* join_shards: sums that are left at the end of a step */                  \
    X(int, wide)       /* the result is a partial sum, in the accumulation type */                 \
    X(int, dx_wide)    /* so is dx */                                                              \
    X(int, apart)      /* linear_cross_entropy: what chunks give w is summed before it is added */ \
    X(int, run1)       /* matmul: where what leaves are cut from has its second run; */            \
    X(int, run2)       /* and its third */
typedef struct sum_tree {
#define X(type, name) type name;
    SUM_TREE(X)
#undef X
} sum_tree;

// rope_table: the base of its angles, and how Llama 3.1 stretches them.
#define ROPE_ANGLES(X)                                                                             \
    X(double, theta) /* rope_table: and its frequency scaling */                                   \
    X(double, factor)                                                                              \
    X(double, low_freq_factor)                                                                     \
    X(double, high_freq_factor)                                                                    \
    X(double, original_context)
typedef struct rope_angles {
#define X(type, name) type name;
    ROPE_ANGLES(X)
#undef X
} rope_angles;

// A low-rank branch (ops/low_rank.c): its first column in the matrix of its projection, its factor.
typedef struct low_rank_branch {
    int column;
    double alpha;
} low_rank_branch;
enum { MAX_BRANCHES = 3 };

// The numbers that say what a node does beyond its inputs: X(type, name). A row lists those that
// its op reads (op.h); in its nodes all others are zero. The text of a graph prints what is listed.
#define OP_ATTRS(X)                                                                                \
    X(int, ta) /* matmul: transpose a */                                                           \
    X(int, tb)                                                                                     \
    X(int, n_heads)                                                                                \
    X(int, n_kv_heads)                                                                             \
    X(int, head_dim)                                                                               \
    X(int, seq)           /* attention: tokens per row, on this rank */                            \
    X(int, causal)        /* attention: every row is one document, position[t] is t */             \
    X(int, documents)     /* attention: of a row, at most; 0: not known */                         \
    X(int, window)        /* attention: a token sees so many at most, itself too; 0: any number */ \
    X(int, inverse)       /* rope: rotate back */                                                  \
    X(int, part)          /* split vocabulary: rows of a rank, of the last one perhaps fewer */    \
    X(int, all_heads)     /* attention: query heads of all tensor ranks; 0: n_heads */             \
    X(dtype, to)          /* narrow, join_kv: type of the result */                                \
    X(int, chunk)         /* linear_cross_entropy: rows of logits at a time */                     \
    X(int, skip_dx)       /* gradients: that of the input is not wanted */                         \
    X(int, skip_dw)       /* gradients: that of the weight is not wanted (it is frozen) */         \
    X(dtype, table_dtype) /* rope_table: type of the table */                                      \
    X(int, site)          /* dropout: the place in the model, a number */                          \
    X(int, from)          /* lora_up_grad_b: first column of the branch in t */                    \
    X(double, rate)       /* dropout: the share that is dropped */                                 \
    X(double, seed)       /* dropout: training.seed, below 2^53 */                                 \
    X(int, ns_steps)      /* orthogonalise: steps of Newton-Schulz */                              \
    X(int, second_row)    /* orthogonalise: row with which the second matrix begins; 0: no such */ \
    X(int, third_row)     /* likewise */                                                           \
    X(double, eps)        /* rmsnorm, adamw, orthogonalise */                                      \
    X(double, beta1)      /* adamw, momentum; preference: its beta, and eps its smoothing */       \
    X(double, beta2)                                                                               \
    X(double, weight_decay)

typedef struct op_attrs {
#define X(type, name) type name;
    OP_ATTRS(X)
#undef X
    mesh_use mesh;
    sum_tree sum;
    rope_angles rope;
    low_rank_branch branches[MAX_BRANCHES];
} op_attrs;

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
    // Leaves of each row on this rank (zigzag.h), 1 unless set. Tokens lie leaf after leaf, and the
    // gradient of a weight has an accumulator for each.
    int row_leaves;
    // A micro-batch adds so many addends for each of these leaves to a gradient, each the sum of
    // some rows (docs/adr/0026); 1 unless set. They differ in the rows alone, which lie in order.
    int addends;
    int layer;   // given to nodes that are added
    phase phase; // likewise
} graph;

graph *graph_new(arena *a, const char *name);

// Makes a named tensor that exists before the program runs.
tensor *graph_state(graph *g, tensor_class cls, const char *name, dtype dt, int n_dims,
        const int64_t *dim);
tensor *graph_find(const graph *g, const char *name); // a named tensor; NULL if absent
// Makes the state in which the gradient of a weight is summed: as w is, in the accumulation type;
// on a rank that has several leaves of each row (g->row_leaves) one after the other for each:
// [row_leaves, ...].
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
// leaves of a row, the state, the nodes in order, every type and every attribute to the last bit.
// (Two texts may differ in the numbers of temporaries alone.)
void graph_print(const graph *g, str *out);
