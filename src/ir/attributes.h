// The attributes of a node: the numbers that say what it does beyond its inputs. A row lists those
// that its op reads (op.h); in its nodes all others are zero. The text of a graph prints what is
// listed. Each list is X(g, type, name), g being the member of op_attrs that holds the struct.
#pragma once
#include "base/dtype.h"

// The attributes of collectives: which ranks of the mesh a node uses. All zero for other ops.
#define MESH_USE(X, g)                                                                             \
    X(g, int, axis)     /* collectives: mesh axis */                                               \
    X(g, int, ranks)    /* collectives: size of that axis */                                       \
    X(g, int, groups)   /* groups of `ranks` ranks each (docs/adr/0048); 0: one */                 \
    X(g, int, across)   /* the ranks are those with the same shard, one per group */               \
    X(g, int, dim)      /* collectives: dim that is split among the ranks */                       \
    X(g, int, axes)     /* sum_squares: axes to sum over as well, bits 1 << axis */                \
    X(g, int, ends)     /* all_reduce: only among the first and last rank of the axis */           \
    X(g, int, n_alike)  /* sum_squares: leading inputs replicated on tensor ranks */               \
    X(g, int, replicas) /* tensor ranks that share one key-value head */                           \
    X(g, int, in_place) /* all_reduce: the input is state, updated in place */                     \
    X(g, int, async)    /* collectives: runs while later nodes compute (docs/adr/0027) */          \
    X(g, int, whole)    /* sum_shard: every rank gets the sums of all shards */                    \
    X(g, int, summed)   /* reduce_shard: summed by sum_shard before; nothing is sent */            \
    X(g, int, owner)    /* to_owner, from_owner: place of the rank with the matrix */              \
    X(g, int, owns)     /* this rank is the owner */

// The tree in which a node adds, so that the bits do not depend on the number of ranks or threads
// or on the size of a micro-batch (docs/adr/0012, docs/adr/0015, docs/adr/0026). All zero for ops
// that sum neither over tokens nor over dimensions that ranks split.
#define SUM_TREE(X, g)                                                                             \
    X(g, int, row_blocks)   /* reduction blocks of each row on this rank (zigzag.h); 0: one */     \
    X(g, int, partial_sums) /* over tokens, in each row block; 0: one */                           \
    X(g, int, blocks)       /* reduction blocks, on this rank, of sums that tensor ranks split */  \
    X(g, int, dx_blocks)    /* matmul, lora_up: reduction blocks of the gradient of x, or t */     \
    X(g, int, dw_blocks)  /* matmul, lora_up: runs of tokens in the gradient of the weight or B */ \
    X(g, int, dw_ranks)   /* likewise: ranks along the axis that hold other tokens */              \
    X(g, int, data_ranks) /* sums over row blocks: neighbours with the same block */               \
    X(g, int, in_accum_group) /* add_shard: micro-batches in a group; sum_shard: in a step */      \
    X(g, int, open)           /* join_shards: open sums at the end of a step */                    \
    X(g, int, wide)           /* the result is a partial sum, in the accumulation type */          \
    X(g, int, dx_wide)        /* the gradient of x is a partial sum */                             \
    X(g, int, apart)    /* linear_cross_entropy: gradients of w are first summed in a buffer */    \
    X(g, int, segment2) /* matmul: K index at which the second segment starts */                   \
    X(g, int, segment3) /* matmul: K index at which the third segment starts */

// The heads in the columns of an input, on this rank.
#define HEAD_SIZES(X, g)                                                                           \
    X(g, int, n_heads)                                                                             \
    X(g, int, n_kv_heads)                                                                          \
    X(g, int, head_dim)

// One list of attributes for each family of ops.
#define UPDATE_ATTRS(X, g) /* adamw, momentum, orthogonalise, descend */                           \
    X(g, double, eps)                                                                              \
    X(g, double, beta1)                                                                            \
    X(g, double, beta2)                                                                            \
    X(g, double, weight_decay)                                                                     \
    X(g, int, ns_steps)   /* steps of Newton-Schulz */                                             \
    X(g, int, second_row) /* row at which the second matrix begins; 0: none */                     \
    X(g, int, third_row)  /* row at which the third matrix begins; 0: none */                      \
    X(g, int, rows)       /* orthogonalise: rows of this rank's part of the weight */              \
    X(g, int, columns)    /* orthogonalise: columns of that part */                                \
    X(g, dtype, to)       /* type of the result */
#define ROPE_ATTRS(X, g)                                                                           \
    X(g, double, theta) /* the base of the angles; the next four: Llama 3.1's scaling */           \
    X(g, double, factor)                                                                           \
    X(g, double, low_freq_factor)                                                                  \
    X(g, double, high_freq_factor)                                                                 \
    X(g, double, original_context)                                                                 \
    X(g, dtype, table_dtype) /* type of the table */                                               \
    X(g, int, inverse)       /* rotate back */
#define ATTENTION_ATTRS(X, g)                                                                      \
    X(g, int, seq)             /* tokens per row, on this rank */                                  \
    X(g, int, causal)          /* every row is one document: position[t] is t */                   \
    X(g, int, documents)       /* the most documents of a row; 0: unknown */                       \
    X(g, int, window)          /* most tokens that a token attends to, with itself; 0: all */      \
    X(g, int, all_heads)       /* query heads of all tensor ranks; 0: n_heads */
#define VOCABULARY_ATTRS(X, g) /* embedding, linear_cross_entropy */                               \
    X(g, int, part)            /* split vocabulary: rows per rank; the last may have fewer */      \
    X(g, int, chunk)           /* rows of logits at a time */                                      \
    X(g, int, skip_dx)         /* the gradient of the input is not wanted */                       \
    X(g, int, skip_dw)         /* the gradient of the weight is not wanted (it is frozen) */
#define DROPOUT_ATTRS(X, g)                                                                        \
    X(g, double, rate) /* dropout probability */                                                   \
    X(g, double, seed) /* training.seed, below 2^53 */                                             \
    X(g, int, site)    /* the number of the input in the model (param_branches) */                 \
    X(g, int, seq)     /* tokens per row */
#define NORM_ATTRS(X, g)                                                                           \
    X(g, double, eps)                                                                              \
    X(g, int, skip_dw) /* the gradient of the weight is not wanted (it is frozen) */
#define PREFERENCE_ATTRS(X, g)                                                                     \
    X(g, double, beta)                                                                             \
    X(g, double, smoothing)
#define MATMUL_ATTRS(X, g)                                                                         \
    X(g, int, ta) /* transpose a */                                                                \
    X(g, int, tb)                                                                                  \
    X(g, int, fp8)        /* fp8_use: how both operands are rounded before they are multiplied */  \
    X(g, int, fp8_axes)   /* axes whose ranks hold other parts of the operands: 1 << axis */
#define WHOLE_ATTRS(X, g) /* zeros, gather_weight: shape and type of the result */                 \
    X(g, int, rows)                                                                                \
    X(g, int, columns) /* 0: the result is a vector */                                             \
    X(g, dtype, type)
#define NARROW_ATTRS(X, g) X(g, dtype, to) /* narrow, join_kv: type of the result */

// The families whose structs are made of their lists; low_rank, which has branches, is not.
#define OP_FAMILIES(G)                                                                             \
    G(update, UPDATE_ATTRS)                                                                        \
    G(rope, ROPE_ATTRS)                                                                            \
    G(attention, ATTENTION_ATTRS)                                                                  \
    G(vocabulary, VOCABULARY_ATTRS)                                                                \
    G(dropout, DROPOUT_ATTRS)                                                                      \
    G(norm, NORM_ATTRS)                                                                            \
    G(preference, PREFERENCE_ATTRS)                                                                \
    G(whole, WHOLE_ATTRS)                                                                          \
    G(matmul, MATMUL_ATTRS)                                                                        \
    G(narrow, NARROW_ATTRS)

// Products in fp8 (docs/adr/0047): each operand is rounded to fp8 with its own scale. FORWARD: both
// to e4m3; GRADIENT: a, which is a gradient of activations, to e5m2, and b to e4m3.
typedef enum fp8_use { FP8_NONE, FP8_FORWARD, FP8_GRADIENT } fp8_use;

#define FIELD(g, type, name) type name;
typedef struct mesh_use {
    MESH_USE(FIELD, mesh)
} mesh_use;
typedef struct sum_tree {
    SUM_TREE(FIELD, sum)
} sum_tree;
typedef struct head_sizes {
    HEAD_SIZES(FIELD, heads)
} head_sizes;
#define G(family, LIST)                                                                            \
    typedef struct family##_attrs {                                                                \
        LIST(FIELD, family)                                                                        \
    } family##_attrs;
OP_FAMILIES(G)
#undef G
#undef FIELD

// A low-rank branch (ops/low_rank.c): its first column in the matrix of its projection, its factor.
typedef struct low_rank_branch {
    int column;
    double alpha;
} low_rank_branch;
enum { MAX_BRANCHES = 3 };
typedef struct low_rank_attrs {
    low_rank_branch branches[MAX_BRANCHES];
    int from; // lora_up_grad_b: first column of the branch in t
} low_rank_attrs;

typedef struct op_attrs {
    mesh_use mesh;
    sum_tree sum;
    head_sizes heads;
    union {                      // attributes of the op's family
        low_rank_attrs low_rank; // first, as the largest: {0} clears the whole union
#define G(family, LIST) family##_attrs family;
        OP_FAMILIES(G)
#undef G
    };
} op_attrs;
