// The op table (design D1): one row per op. A file of ops/ contains the rows of one family, an op
// next to its gradient. A row describes everything about the op that does not depend on a device:
// inputs, shapes, aliasing, gradient, cost, recomputation, the stages in which it is legal, and
// examples from which the tests make inputs. docs/extending.md adds an op step by step.
#pragma once
#include <stddef.h>

#include "ir/example.h"
#include "ir/graph.h"

typedef struct tensor_spec {
    dtype dt;
    int n_dims;
    int64_t dim[MAX_DIMS];
    int alias_in;   // index of the input whose storage the output takes over; -1: none
    bool may_alias; // alias_in is allowed, not required: only when that input is not needed later
} tensor_spec;

// Kinds of arithmetic that run at different rates on a device.
typedef enum flops_kind { FLOPS_PRODUCTS, FLOPS_HEAD, FLOPS_ATTENTION } flops_kind;

typedef struct grad_ctx grad_ctx; // ir/grad.h

// --- attributes
typedef enum op_attr_group {
    ATTRS_mesh,
    ATTRS_sum,
    ATTRS_heads,
    ATTRS_low_rank, // from here on: the families
#define G(family, LIST) ATTRS_##family,
    OP_FAMILIES(G)
#undef G
} op_attr_group;
typedef enum op_attr_kind { ATTR_INT, ATTR_DOUBLE, ATTR_DTYPE } op_attr_kind;
typedef struct op_attr {
    const char *name;    // in the text of a graph
    op_attr_group group; // of op_attrs; a row has attributes of one family at most
    op_attr_kind kind;
    size_t offset; // in op_attrs
} op_attr;
#define ATTR_KIND_OF(x) _Generic((x), int : ATTR_INT, double : ATTR_DOUBLE, dtype : ATTR_DTYPE)
#define ATTR_AS(g, field, text)                                                                    \
    { text, ATTRS_##g, ATTR_KIND_OF(((const op_attrs *)0)->g.field), offsetof(op_attrs, g.field) }
#define ATTR(g, field) ATTR_AS(g, field, #field)
#define ATTR_RANKS     ATTR(mesh, axis), ATTR(mesh, ranks)
#define ATTR_WHOLE     ATTR(whole, rows), ATTR(whole, columns), ATTR(whole, type)
// A branch has its number, from 1, in the text.
#define ATTR_BRANCH(n)                                                                             \
    ATTR_AS(low_rank, branches[(n)-1].column, "column" #n),                                        \
            ATTR_AS(low_rank, branches[(n)-1].alpha, "alpha" #n)
#define ATTRS(...) ((const op_attr[]){__VA_ARGS__, {0}})

typedef struct op_row {
    // The number of inputs, or, if `max_in` is not 0, the smallest and the largest number; -1: any.
    int n_in, max_in;
    // Fills out[], MAX_OUT zeros, for each output. Returns NULL, or the error in the inputs or
    // attributes.
    const char *(*shape)(const node *n, tensor_spec *out);
    // The attributes that the op reads: ATTRS(ATTR_RANKS, ATTR(norm, eps)), in the order of the
    // text; NULL: none.
    const op_attr *attrs;

    // Adds the nodes of the gradient. NULL: not differentiable.
    void (*grad)(grad_ctx *ctx, node *n);
    bool reads_blocks; // input 1 may be held in blocks of quantised numbers
    int n_statistics;  // the last outputs, without a gradient: read by the gradient op or the host
    // Returns the floating-point operations that the model needs (matmuls and attention; causal
    // attention counts the attended pairs). NULL: counts as none.
    double (*flops)(const node *n);
    flops_kind flops_of;
    // Returns 1/M + 1/N + 1/K of a matrix product M x K by K x N. NULL: the op is no such product.
    double (*inverse_dims)(const node *n);
    // Returns the bytes that a product reads and writes to round its operands to fp8. NULL: none.
    double (*rounded)(const node *n);
    // Returns the bytes of memory that the op must read and write. NULL: all inputs and outputs
    // (node_bytes).
    double (*touched)(const node *n);
    // Returns the bytes that a rank sends to others. NULL: none.
    double (*wire)(const node *n);
    // Returns the bytes that an op over another axis also sends to tensor ranks. NULL: none.
    double (*wire_replicas)(const node *n);

    // Recomputation. The first n_kept outputs (the residual stream) are never dropped. `remake`
    // makes a node, not in place, that computes the other outputs from n's inputs and kept outputs;
    // NULL: n itself runs again.
    int n_kept;
    node *(*remake)(graph *g, const node *n);
    bool cheap;      // compared with the products of a layer: recomputed under KEEP_GEMMS
    bool renames;    // outputs are inputs under other names: nothing is computed or overwritten
    bool collective; // only moves or reduces data of ranks
    bool on_host;    // outputs are in host memory, not in device memory

    // Sums of gradients. `clears`: the output is the zero with which a sum begins. `goes_with`:
    // 1 + the input that the op adds to a sum or passes on; passes/cut.c keeps the op in the
    // program that computes that input. 0: no input. `in_buckets`: it sends through buckets
    // (comm_bucket_bytes).
    int goes_with;
    bool clears, in_buckets;

    bool built;                   // legal in a graph that is not differentiated yet
    const example_case *examples; // at least one; ends before one without inputs and `make`
} op_row;

extern const op_row *const op_rows[N_OPS];
const char *op_name(op_kind op);

// Fills the outputs of a node by its op's row; returns NULL, or what is wrong with the node.
const char *op_outputs(const node *n, tensor_spec out[MAX_OUT], int *n_out);

// Returns the minimum of bytes that a node reads and writes: each input and output once, or what
// its row returns.
double node_bytes(const node *n);

// Returns whether the op reads an attribute: OP_READS(n->op, mesh, axis).
#define OP_READS(op, g, field) op_reads(op, &(const op_attr)ATTR(g, field))
bool op_reads(op_kind op, const op_attr *attr);
// All attributes of all groups; the last one has no name.
extern const op_attr op_attr_table[];

// Returns what is wrong if an attribute that the op does not read is not zero, else NULL.
// Attributes of other families share the memory of the op's family and cannot be checked.
const char *op_attrs_unlisted(const node *n);

// --- shorthands for rows
static inline tensor_spec spec_like(const tensor *t) {
    return (tensor_spec){.dt = t->dt,
            .n_dims = t->n_dims,
            .dim = {t->dim[0], t->dim[1], t->dim[2]},
            .alias_in = -1};
}
static inline tensor_spec spec_in_place(const node *n, int input) {
    tensor_spec spec = spec_like(n->in[input]);
    spec.alias_in = input;
    return spec;
}
static inline tensor_spec spec_may_alias(const node *n, int input) {
    tensor_spec spec = spec_in_place(n, input);
    spec.may_alias = true;
    return spec;
}
static inline tensor_spec spec_1d(dtype dt, int64_t n) {
    return (tensor_spec){.dt = dt, .n_dims = 1, .dim = {n, 0, 0}, .alias_in = -1};
}
static inline tensor_spec spec_2d(dtype dt, int64_t n, int64_t m) {
    return (tensor_spec){.dt = dt, .n_dims = 2, .dim = {n, m, 0}, .alias_in = -1};
}
// Returns the number of reduction blocks of the row that a node processes (graph.h: row_blocks).
static inline int row_blocks_of(const op_attrs *attrs) {
    return attrs->sum.row_blocks > 1 ? attrs->sum.row_blocks : 1;
}
// Returns the number of partial sums into which a sum over tokens is split for each reduction block.
static inline int partial_sums_of(const op_attrs *attrs) {
    return attrs->sum.partial_sums > 1 ? attrs->sum.partial_sums : 1;
}
// Returns the shape of `one` for each reduction block of the row: [row_blocks, one].
static inline tensor_spec spec_by_block(const op_attrs *attrs, tensor_spec one) {
    tensor_spec all = one;
    if (attrs->sum.row_blocks <= 1) return one;
    all.n_dims = one.n_dims + 1;
    all.dim[0] = attrs->sum.row_blocks;
    for (int i = 0; i < one.n_dims && i + 1 < MAX_DIMS; i++)
        all.dim[i + 1] = one.dim[i];
    return all;
}
// Return the shape that the attributes of the family `whole` name, what is wrong with it (NULL:
// nothing), its elements, and those attributes for the shape of a weight.
static inline tensor_spec spec_whole(const op_attrs *attrs) {
    const whole_attrs *w = &attrs->whole;
    return w->columns ? spec_2d(w->type, w->rows, w->columns) : spec_1d(w->type, w->rows);
}
static inline const char *check_whole(const op_attrs *attrs) {
    const whole_attrs *w = &attrs->whole;
    if (w->rows < 1 || w->columns < 0) return "the result must have rows";
    return w->type == DT_I32 ? "the result must be real" : NULL;
}
static inline int64_t whole_elements(const op_attrs *attrs) {
    return (int64_t)attrs->whole.rows * (attrs->whole.columns ? attrs->whole.columns : 1);
}
static inline whole_attrs whole_of(const tensor *w, dtype type) {
    return (whole_attrs){(int)w->dim[0], w->n_dims == 2 ? (int)w->dim[1] : 0, type};
}
// Check the ranks of a node along its axis, and how many of them are data ranks.
static inline const char *check_ranks(const op_attrs *attrs) {
    if (attrs->mesh.ranks < 1) return "ranks must be positive";
    return attrs->mesh.axis < 0 || attrs->mesh.axis >= N_AXES ? "the mesh has no such axis" : NULL;
}
static inline const char *check_data_ranks(const op_attrs *attrs) {
    const int n = attrs->sum.data_ranks;
    return n < 1 || attrs->mesh.ranks % n ? "data ranks must divide ranks" : NULL;
}
// Checks how a weight's gradient is summed over tokens (ir/token_sums.h). If tensor ranks share the
// tokens, the tokens of a partial sum may be on several ranks.
static inline const char *check_tokens(const op_attrs *attrs, int64_t n_tokens) {
    const int ranks = attrs->mesh.ranks > 1 ? attrs->mesh.ranks : 1;
    if (attrs->sum.blocks < 0 || row_blocks_of(attrs) * attrs->sum.blocks > MAX_REDUCTION_BLOCKS)
        return "no such number of reduction blocks";
    if (n_tokens * ranks % row_blocks_of(attrs)) return "row_blocks must divide the tokens";
    if (n_tokens * ranks / row_blocks_of(attrs) % partial_sums_of(attrs))
        return "partial sums must divide the tokens";
    return NULL;
}
static inline bool is_like(const tensor *t, const tensor_spec *spec) {
    if (t->dt != spec->dt || t->n_dims != spec->n_dims) return false;
    for (int i = 0; i < t->n_dims; i++)
        if (t->dim[i] != spec->dim[i]) return false;
    return true;
}
static inline bool same_shape(const tensor *a, const tensor *b) {
    if (a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}
static inline bool same_type(const tensor *a, const tensor *b) {
    return a->dt == b->dt && same_shape(a, b);
}
static inline bool is_matrix(const tensor *t) {
    return t->n_dims == 2 && t->dt != DT_I32;
}
static inline bool is_i32(const tensor *t, int64_t n) {
    return t->n_dims == 1 && t->dt == DT_I32 && t->dim[0] == n;
}
static inline bool is_f64(const tensor *t, int64_t n) {
    return t->n_dims == 1 && t->dt == DT_F64 && t->dim[0] == n;
}
static inline bool is_acc(const tensor *t, dtype dt, int64_t n) {
    return t->n_dims == 1 && t->dt == dtype_acc(dt) && t->dim[0] == n;
}
