// Collectives. A tensor is [outer, dim, inner] around the dim that ranks divide. If outer is more
// than 1, parts are not contiguous and are packed for the message.
//
// Workspace: scratch of comm, then (if outer > 1) the whole tensor by parts.
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/round.h"
#include "ir/wire.h"

typedef struct cut {
    int64_t outer, part_bytes; // part_bytes: of one part for one index of `outer`
    int ranks;
} cut;

// `whole` is the tensor that has all parts.
static cut cut_of(const node *n, const tensor *whole) {
    cut c = {1, dtype_bytes(whole->dt), n->attrs.mesh.ranks};
    for (int d = 0; d < n->attrs.mesh.dim; d++)
        c.outer *= whole->dim[d];
    for (int d = n->attrs.mesh.dim; d < whole->n_dims; d++)
        c.part_bytes *= whole->dim[d];
    c.part_bytes /= c.ranks;
    return c;
}

// Copies from [outer, ranks, part] to [ranks, outer, part] (`pack`), or back.
static void repack(const cut *c, const char *from, char *to, bool pack) {
    for (int64_t o = 0; o < c->outer; o++)
        for (int r = 0; r < c->ranks; r++) {
            const int64_t plain = (o * c->ranks + r) * c->part_bytes,
                          packed = (r * c->outer + o) * c->part_bytes;
            memcpy(to + (pack ? packed : plain), from + (pack ? plain : packed),
                    (size_t)c->part_bytes);
        }
}

static void move(const instruction *ins) {
    if (ins->in[0] != ins->out[0])
        memcpy(ins->out[0], ins->in[0], (size_t)tensor_bytes(ins->node->in[0]));
}

static int64_t join_bytes(const node *n) {
    const tensor *x = n->in[0];
    return round_up(wire_scratch(x->dt, tensor_elements(x), n->attrs.mesh.ranks), 64);
}

static void all_reduce(const instruction *ins) {
    const tensor *x = ins->node->in[0];
    move(ins);
    if (ins->group)
        *ins->failed = comm_all_reduce(ins->group, x->dt, COMM_SUM, ins->out[0], tensor_elements(x),
                ins->workspace);
}

static int64_t reduce_workspace(const node *n, int n_threads DRV_UNUSED) {
    return join_bytes(n);
}

const cpu_op cpu_op_all_reduce = {.run = all_reduce, .workspace = reduce_workspace};

static void all_gather(const instruction *ins) {
    const cut c = cut_of(ins->node, ins->node->out[0]);
    const int64_t bytes = tensor_bytes(ins->node->in[0]);
    if (!ins->group) {
        move(ins);
        return;
    }
    char *parts = c.outer == 1 ? ins->out[0] : ins->workspace;
    *ins->failed = comm_all_gather(ins->group, ins->in[0], bytes, NULL, parts);
    if (parts != ins->out[0]) repack(&c, parts, ins->out[0], false);
}

static int64_t gather_workspace(const node *n, int n_threads DRV_UNUSED) {
    return n->attrs.mesh.ranks > 1 && cut_of(n, n->out[0]).outer > 1 ? tensor_bytes(n->out[0]) : 0;
}

const cpu_op cpu_op_all_gather = {.run = all_gather, .workspace = gather_workspace};

static void reduce_scatter(const instruction *ins) {
    const tensor *x = ins->node->in[0];
    const cut c = cut_of(ins->node, x);
    const int64_t n = tensor_elements(x);
    if (!ins->group) {
        move(ins);
        return;
    }
    char *parts = ins->in[0];
    if (c.outer > 1) {
        parts = (char *)ins->workspace + join_bytes(ins->node);
        repack(&c, ins->in[0], parts, true);
    }
    *ins->failed = comm_reduce_scatter(ins->group, x->dt, COMM_SUM, parts, n, NULL, ins->out[0],
            ins->workspace);
}

static int64_t scatter_workspace(const node *n, int n_threads DRV_UNUSED) {
    if (n->attrs.mesh.ranks == 1) return 0;
    const bool packs = cut_of(n, n->in[0]).outer > 1;
    return join_bytes(n) + (packs ? tensor_bytes(n->in[0]) : 0);
}

const cpu_op cpu_op_reduce_scatter = {.run = reduce_scatter, .workspace = scatter_workspace};

// An alias; only its gradient computes.
const cpu_op cpu_op_share = {.run = NULL};
