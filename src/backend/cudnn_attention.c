// Chooses the form of attention by a rule, and computes the memory of each form.
#include "backend/cudnn_attention.h"

#include "base/round.h"
#include "ir/op.h"

enum {
    HEAD_DIM_STEP = 8,
    MASK_STEP = 2,       // tokens of a row
    GRADIENT_BLOCK = 64, // queries and keys
    SCRATCH_BYTES = 2    // of a query and a key in a block
};

// Only attention reads this attribute, and its gradient, which no graph has when it is built.
static bool is_attention(const node *n) {
    return OP_READS(n->op, attention, documents);
}

static bool is_gradient(const node *n) {
    return !op_rows[n->op]->built;
}

static const tensor *heads_of(const node *n) {
    return n->in[is_gradient(n) ? 1 : 0];
}

static bool hides(const node *n) {
    return n->n_in > (is_gradient(n) ? 5 : 2);
}

static int64_t rows_of(const node *n) {
    return heads_of(n)->dim[0] / n->attrs.attention.seq;
}

int64_t cudnn_mask_tokens(int64_t tokens) {
    return round_up(tokens, MASK_STEP);
}

// Returns whether cuDNN takes a node: whole rows in bf16, with heads that no other rank shares.
static bool fits(const cudnn_choice *how, const node *n) {
    const op_attrs *attrs = &n->attrs;
    const bool whole =
            attrs->mesh.ranks <= 1 && attrs->sum.row_blocks <= 1 && attrs->mesh.replicas <= 1;
    return whole && heads_of(n)->dt == DT_BF16 && attrs->heads.head_dim % HEAD_DIM_STEP == 0 &&
           attrs->heads.head_dim <= how->head_dim;
}

// Segments do not go with a window and cannot express hidden keys, and cuDNN numbers their
// statistics in s32.
static bool takes_segments(const cudnn_choice *how, const node *n) {
    const op_attrs *attrs = &n->attrs;
    const bool wanted = how->documents == DOCUMENTS_SEGMENTS ||
                        (how->documents == DOCUMENTS_BY_RULE && !how->deterministic);
    const double statistics =
            (double)heads_of(n)->dim[0] * attrs->attention.documents * attrs->heads.n_heads;
    return wanted && attrs->attention.documents > 1 && !attrs->attention.window && !hides(n) &&
           statistics < 0x1p31;
}

cudnn_form cudnn_form_of(const cudnn_choice *how, const node *n) {
    if (!fits(how, n)) return CUDNN_NONE;
    if (n->attrs.attention.causal) return CUDNN_CAUSAL;
    return takes_segments(how, n) ? CUDNN_SEGMENTS : CUDNN_MASK;
}

// --- memory
static bool same_mask(const node *a, const node *b) {
    return a->attrs.attention.window == b->attrs.attention.window && hides(a) == hides(b);
}

static bool reads_mask(const cudnn_choice *how, const node *n) {
    return is_attention(n) && cudnn_form_of(how, n) == CUDNN_MASK;
}

int64_t cudnn_mask_of(const cudnn_choice *how, const graph *g, int index, int *last) {
    const node *n = g->nodes[index];
    if (!reads_mask(how, n)) return 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (!reads_mask(how, g->nodes[i]) || !same_mask(n, g->nodes[i])) continue;
        if (i < index) return 0;
        *last = i;
    }
    const int64_t tokens = cudnn_mask_tokens(n->attrs.attention.seq);
    return rows_of(n) * tokens * tokens * dtype_bytes(DT_BF16);
}

int64_t cudnn_mask_bytes(const cudnn_choice *how, const graph *g) {
    int64_t bytes = 0;
    int last;
    for (int i = 0; i < g->n_nodes; i++)
        bytes += cudnn_mask_of(how, g, i, &last);
    return bytes;
}

static int64_t scratch_of(const cudnn_choice *how, const node *n) {
    const cudnn_form form = cudnn_form_of(how, n);
    if (form == CUDNN_NONE) return 0;
    const int64_t tokens = form == CUDNN_MASK ? cudnn_mask_tokens(n->attrs.attention.seq)
                                              : n->attrs.attention.seq,
                  heads = rows_of(n) * (form == CUDNN_SEGMENTS ? n->attrs.attention.documents : 1) *
                          n->attrs.heads.n_heads,
                  width = round_up(tokens, GRADIENT_BLOCK),
                  statistics = form == CUDNN_SEGMENTS ? heads * tokens * dtype_bytes(DT_F32) : 0;
    return statistics +
           (is_gradient(n) && how->deterministic ? heads * width * width * SCRATCH_BYTES : 0);
}

int64_t cudnn_workspace_bytes(const cudnn_choice *how, const graph *g) {
    int64_t most = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const int64_t bytes = is_attention(g->nodes[i]) ? scratch_of(how, g->nodes[i]) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}
