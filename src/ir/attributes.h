// The attributes of a node: the numbers that say what it does beyond its inputs. A row lists those
// that its op reads (op.h); in its nodes all others are zero. The text of a graph prints what is
// listed. Each list is X(g, type, name), g being the member of op_attrs that holds the struct.
#pragma once
#include "base/dtype.h"

// The attributes of collectives: which ranks of the mesh a node uses. All zero for other ops.
#define MESH_USE(X, g)                                                                             \
    X(g, int, axis)     /* collectives: mesh axis */                                               \
    X(g, int, ranks)    /* collectives: size of that axis */                                       \
    X(g, int, groups)   /* it has so many groups of `ranks` (docs/adr/0048); 0: one */             \
    X(g, int, across)   /* among the ranks, one of each group, with the same shard */              \
    X(g, int, dim)      /* collectives: dim that is cut in parts */                                \
    X(g, int, axes)     /* sum_squares: over them as well, bits 1 << axis */                       \
    X(g, int, ends)     /* all_reduce: only of the first and the last rank of the axis */          \
    X(g, int, n_alike)  /* sum_squares: first inputs that all tensor ranks have */                 \
    X(g, int, replicas) /* tensor ranks that work with one key-value head */                       \
    X(g, int, in_place) /* all_reduce: of state */                                                 \
    X(g, int, async)    /* collectives: runs while later nodes compute (docs/adr/0027) */          \
    X(g, int, whole)    /* sum_shard: every rank gets the sums of all shards */                    \
    X(g, int, summed)   /* reduce_shard: sum_shard has summed it; nothing is sent */               \
    X(g, int, owner)    /* to_owner, from_owner: place of the rank with the whole */               \
    X(g, int, owns)     /* this rank is the owner */

// The tree in which a node adds, so that the bits do not depend on the number of ranks or threads
// or on the size of a micro-batch (docs/adr/0012, docs/adr/0015, docs/adr/0026). All zero for ops
// that sum neither over tokens nor over dimensions that ranks split.
#define SUM_TREE(X, g)                                                                             \
    X(g, int, row_blocks)   /* reduction blocks of each row on this rank (zigzag.h); 0: one */     \
    X(g, int, partial_sums) /* of tokens, for each row block; 0: one */                            \
    X(g, int, blocks)       /* sums over what tensor ranks split: reduction blocks on this rank */ \
    X(g, int, dx_blocks)    /* matmul, lora_up: those of the gradient of x, or of t */             \
    X(g, int, dw_blocks) /* matmul, lora_up: runs of tokens in the gradient of the weight, of B */ \
    X(g, int, dw_ranks)  /* and ranks along the axis that have other tokens */                     \
    X(g, int, data_ranks)     /* sums over row blocks: neighbours with the same block */           \
    X(g, int, in_accum_group) /* add_shard: micro-batches in a group; sum_shard: in a step */      \
    X(g, int, open)           /* join_shards: open sums at the end of a step */                    \
    X(g, int, wide)           /* the result is a partial sum, in the accumulation type */          \
    X(g, int, dx_wide)        /* dx is one */                                                      \
    X(g, int, apart)    /* linear_cross_entropy: the gradients of w by chunk are summed apart */   \
    X(g, int, segment2) /* matmul: K index at which the second segment starts; */                  \
    X(g, int, segment3) /* and the third */

// The heads in the columns of an input, on this rank.
#define HEAD_SIZES(X, g)                                                                           \
    X(g, int, n_heads)                                                                             \
    X(g, int, n_kv_heads)                                                                          \
    X(g, int, head_dim)

// One list for each family of ops that has attributes of its own.
#define UPDATE_ATTRS(X, g) /* adamw, momentum, orthogonalise, descend */                           \
    X(g, double, eps)                                                                              \
    X(g, double, beta1)                                                                            \
    X(g, double, beta2)                                                                            \
    X(g, double, weight_decay)                                                                     \
    X(g, int, ns_steps)   /* steps of Newton-Schulz */                                             \
    X(g, int, second_row) /* row with which the second matrix begins; 0: no such */                \
    X(g, int, third_row)  /* likewise */                                                           \
    X(g, int, rows)       /* orthogonalise: of this rank's part of the weight */                   \
    X(g, int, columns)    /* likewise */                                                           \
    X(g, dtype, to)       /* type of the result */
#define ROPE_ATTRS(X, g)                                                                           \
    X(g, double, theta) /* the base of the angles; below, how Llama 3.1 stretches them */          \
    X(g, double, factor)                                                                           \
    X(g, double, low_freq_factor)                                                                  \
    X(g, double, high_freq_factor)                                                                 \
    X(g, double, original_context)                                                                 \
    X(g, dtype, table_dtype) /* type of the table */                                               \
    X(g, int, inverse)       /* rotate back */
#define ATTENTION_ATTRS(X, g)                                                                      \
    X(g, int, seq)             /* tokens per row, on this rank */                                  \
    X(g, int, causal)          /* every row is one document, position[t] is t */                   \
    X(g, int, documents)       /* the most documents of a row; 0: unknown */                       \
    X(g, int, window)          /* most tokens that one sees, with itself; 0: any number */         \
    X(g, int, all_heads)       /* query heads of all tensor ranks; 0: n_heads */
#define VOCABULARY_ATTRS(X, g) /* embedding, linear_cross_entropy */                               \
    X(g, int, part)    /* split vocabulary: rows of a rank, of the last one perhaps fewer */       \
    X(g, int, chunk)   /* rows of logits at a time */                                              \
    X(g, int, skip_dx) /* the gradient of the input is not wanted */                               \
    X(g, int, skip_dw) /* that of the weight is not wanted (it is frozen) */
#define DROPOUT_ATTRS(X, g)                                                                        \
    X(g, double, rate) /* the share that is dropped */                                             \
    X(g, double, seed) /* training.seed, below 2^53 */                                             \
    X(g, int, site)    /* the place in the model, a number */                                      \
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
    X(g, int, fp8_axes)   /* axes whose ranks have other parts of them: 1 << axis */
#define WHOLE_ATTRS(X, g) /* zeros, gather_weight: of the result */                                \
    X(g, int, rows)                                                                                \
    X(g, int, columns) /* 0: it is a vector */                                                     \
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

// Products in fp8 (docs/adr/0047): both operands are rounded to fp8 with a scale of their own.
// FORWARD: both to e4m3; GRADIENT: a, which is a gradient of activations, to e5m2, b to e4m3.
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
    union {                      // of the op's family alone
        low_rank_attrs low_rank; // first, as the largest: {0} clears the whole union
#define G(family, LIST) family##_attrs family;
        OP_FAMILIES(G)
#undef G
    };
} op_attrs;
