// From a graph to StableHLO: one rule per op, `lower_op_NAME` for each op of IR_OPS, in lower_*.c.
// An op without a rule does not link. A rule reads the values of a node's inputs and sets those of
// its outputs:
//
//   static void add(lowering *l, const node *n) {
//       lower_set(l, n, 0, hlo_binary(&l->h, "add", lower_in(l, n, 0), lower_in(l, n, 1)));
//   }
//   const lower_op lower_op_add = {.lower = add};
//
// Values are immutable: an output that is "in place" is a new value, and the program's signature
// says that it takes the memory of its input.
// Legend: l the lowering; n the node; h the text of the program; c the state of a rule.
#pragma once
#include <string.h>

#include "backend/backend.h"
#include "backend/buffer_shape.h"
#include "backend/pjrt/stablehlo/hlo.h"
#include "base/arena.h"
#include "ir/graph.h"
#include "backend/cudnn_attention.h"

typedef struct lower_options {
    bool has_fp8;         // else graphs with products in fp8 are refused
    bool has_host_memory; // the device reaches memory of its host; else no graph may use it
    bool adds_in_order;   // a scatter must not let the device choose the order of additions
    bool has_f64;         // else numbers in f64 (loss, norms, hyper) are f32 on the device
    int attention_block;  // queries and keys at a time; 0: 512
    cudnn_choice cudnn;   // the attention that cuDNN computes, on CUDA
    mesh ranks;           // those that run a program together, one per device; zeros: one rank
} lower_options;

typedef struct step_numbers { // of an update, scalars in the type of its arithmetic
    hlo_value grad_scale, lr, c1, c2;
    hlo_value finite; // whether the norm of the gradients is
    hlo_value zero; // 0 in a form that is not a constant to XLA, which it would write once and copy
} step_numbers;

typedef struct lowering { // a graph while it is being lowered
    hlo_text h;
    const graph *g;
    lower_options options;
    hlo_value *values; // by tensor id
    bool *is_set;      // by tensor id: its rule has run
    int *last_read;    // by tensor id: the last node that reads it; -1: none
    bool has_fences;   // it trains: there are barriers between layers (lower_order.c)
    int node;          // whose rule is running
    bool has_places;
    hlo_value places; // i32[N_AXES]: where this rank is along each axis of options.ranks
    mesh mesh;      // of the graph, but for the pipeline: mesh_of_update, or that of options.ranks
    bool of_update; // the former, where it is another one
    bool has_updated;
    hlo_value updated; // the weight that was updated last (lower_update.c)
    // Made by the first rule that needs them, and used by all others; NULL: not made yet.
    const tensor *norm2; // the norm of `numbers`
    step_numbers numbers;
    struct row_mask *masks; // of attention (lower_documents.c)
    struct row_segments *segments;
    const tensor *step_word_of; // from which `step_word` was made (lower_rounded.c)
    hlo_value step_word;
} lowering;

typedef struct lower_op {
    // Appends the operations of a node. NULL: a graph that has the op is refused.
    void (*lower)(lowering *l, const node *n);
    int vocabulary; // 1 + the input that has this rank's rows of the vocabulary; 0: none
    int sums; // 1 + the input with sums of gradients in shards, each of which may have one; 0: none
    bool of_update; // its ranks are those of the update, also beside context ranks
} lower_op;
extern const lower_op *const lower_ops[N_OPS];

// --- what rules use
hlo_value lower_in(const lowering *l, const node *n, int k);
// The value must have the type and dims of the output.
void lower_set(lowering *l, const node *n, int o, hlo_value v);
hlo_type lower_type(const lowering *l, dtype dt);
// Returns a value, not yet named, with the type and dims of a tensor.
hlo_value lower_like(const lowering *l, const tensor *t);
// Returns the type of sums that belong to values of a tensor.
hlo_type lower_acc(const lowering *l, const tensor *t);
// Input k in the accumulation type of input `like`.
hlo_value lower_in_acc(lowering *l, const node *n, int k, int like);
// Converts to the type of output o and sets it.
void lower_round(lowering *l, const node *n, int o, hlo_value v);
void lower_same(lowering *l, const node *n); // a rule: output 0 is input 0

// --- the whole
typedef struct lowered_state { // an argument or a result of the program
    const char *name;          // of the state
    dtype host;                // its type on the host; shape.dt is that on the device
    buffer_shape shape;
    int n_slots;            // 0, 1: one
    const state_pool *pool; // as in tensor
    bool dies;              // of an argument: no program reads it after this one
    int alias;              // of a result: the argument whose memory it takes; -1: none
} lowered_state;

typedef struct lowered_line { // where the text of a node begins
    int first;                // line, from 1
    const graph *g;
    int node;
} lowered_line;

// The argument of programs of several ranks with this rank's place along each axis: i32[N_AXES].
#define LOWERED_PLACES ".places"
// Returns the bytes of a node's values that are neither inputs nor outputs, for plans.
int64_t lowered_workspace(const node *n);
// Values that a part of a program passes to the next have names that begin with this.
#define LOWERED_TEMPORARY "."
static inline bool lowered_is_temporary(const char *name) {
    return strncmp(name, LOWERED_TEMPORARY, strlen(LOWERED_TEMPORARY)) == 0 &&
           strcmp(name, LOWERED_PLACES) != 0;
}

// An exchange: stages of a pipeline sum a state between two programs, over all of them, or over the
// first and the last.
typedef enum exchange_kind { EXCHANGE_NONE, EXCHANGE_PIPELINE, EXCHANGE_ENDS } exchange_kind;
typedef struct lowered_exchange {
    exchange_kind kind;
    const char *name; // of the state
} lowered_exchange;

typedef struct lowered {
    const char *name; // of the program
    str text;         // freed by the caller
    lowered_state *in, *out;
    int n_in, n_out;
    lowered_line *lines;
    int n_lines;
    lowered_exchange before, after;
    struct lowered *next; // the next part of the program; NULL: this is the last one
} lowered;

// DRV_E_DEVICE: the graph has an op that this back end does not run.
DRV_CHECKED drv_status lower_graph(arena *a, const graph *g, const lower_options *options,
        lowered *out);
// Lowers a whole training step (backend.h).
DRV_CHECKED drv_status lower_step(arena *a, const step_parts *parts, const lower_options *options,
        lowered *out);

// Puts the node that wrote a line of the text before the message of a plugin's failure, if the
// message names the line (":LINE:COLUMN"), else the graph. Returns `failed`.
drv_status lower_explain(const lowered *l, drv_status failed);

// --- what programs of one and of two graphs share (lower.c)
typedef struct state_use { // by tensor id
    bool *read;            // state that nodes read
    const tensor **last;   // the last value of a state that the graph writes; else NULL
} state_use;
state_use lower_state_use(arena *a, const graph *g, int first, int end); // by nodes [first, end)
// Returns whether a node keeps shards of sums for several accumulation groups or reduction blocks,
// for which there is no rule.
bool lower_has_several_sums(const node *n);
// Opens the lowering of a graph, before its first value is made. DRV_E_DEVICE: as lower_graph.
DRV_CHECKED drv_status lower_open(arena *a, const graph *g, const lower_options *options,
        lowering *out);
lowered_state lower_state(const lowering *l, const tensor *t, int alias);
// If there are several ranks, adds the first argument, LOWERED_PLACES.
void lower_add_places(lowering *l, lowered *out);
// Write the first lines, with the arguments %v0, %v1, ..., and the last ones, with the results v.
void lower_head(lowering *l, const lowered *out);
void lower_results(lowering *l, const hlo_value *v, int n);
// Keep the order of the graph (lower_order.c). lower_note_reads finds the last reader of each
// value. lower_fence makes all values that nodes [first, end) leave to later ones or to the host
// exist before any of them is read.
void lower_note_reads(lowering *l);
void lower_fence(lowering *l, int first, int end);
// Applies the rules of the nodes [first, end), in their order; `out` has room for their lines.
void lower_nodes(lowering *l, lowered *out, int first, int end);
