// Prints ops of key-value heads that tensor ranks share (ir/ops/kv_heads.c): assembles shares, sums
// gradients of whole heads, and takes a share. The replicas of a head are neighbours along the
// axis. On one rank a share is the whole.
// Legend: N tokens; kv the columns of k and v, [N, 2, head_dim or a share of it].
#include "backend/pjrt/stablehlo/lower_collective.h"

static int64_t columns_of_q(const node *n) {
    return (int64_t)n->attrs.heads.n_heads * n->attrs.heads.head_dim;
}

static hlo_value take_q(lowering *l, const node *n, hlo_value x) {
    return hlo_slice(&l->h, x, 1, 0, columns_of_q(n));
}

static hlo_value take_kv(lowering *l, const node *n, hlo_value x) {
    const int64_t q = columns_of_q(n), both = x.dim[1] - q;
    return hlo_reshape(&l->h, hlo_slice(&l->h, x, 1, q, both), HLO_DIMS(x.dim[0], 2, both / 2));
}

static hlo_value put_together(lowering *l, hlo_value q, hlo_value kv) {
    const hlo_value parts[] = {q,
            hlo_reshape(&l->h, kv, HLO_DIMS(kv.dim[0], kv.dim[1] * kv.dim[2]))};
    return hlo_concat(&l->h, parts, 2, 1);
}

static void gather_kv(lowering *l, const node *n) {
    const hlo_value x = lower_in(l, n, 0);
    if (n->attrs.mesh.replicas == 1) {
        lower_same(l, n);
        return;
    }
    const hlo_groups replicas =
            lower_neighbours(l, (mesh_axis)n->attrs.mesh.axis, n->attrs.mesh.replicas);
    const hlo_value kv = hlo_all_gather(&l->h, take_kv(l, n, x), 2, replicas);
    lower_set(l, n, 0, put_together(l, take_q(l, n, x), kv));
}

static void slice_kv(lowering *l, const node *n) {
    hlo_text *h = &l->h;
    const hlo_value x = lower_in(l, n, 0);
    if (n->attrs.mesh.replicas == 1) {
        lower_same(l, n);
        return;
    }
    const hlo_value place = lower_place(l, (mesh_axis)n->attrs.mesh.axis),
                    among = hlo_binary(h, "remainder", place,
                            hlo_fill(h, n->attrs.mesh.replicas, &place));
    const int64_t share = n->attrs.heads.head_dim / n->attrs.mesh.replicas;
    const hlo_index first = hlo_index_times(h, (hlo_index){true, 0, among}, share);
    lower_set(l, n, 0,
            put_together(l, take_q(l, n, x), hlo_take(h, take_kv(l, n, x), 2, first, share)));
}

// Sums travel in the accumulation type and are rounded once, as those of q are.
static void join_kv(lowering *l, const node *n) {
    const hlo_value x = lower_in(l, n, 0);
    if (n->attrs.mesh.replicas == 1) {
        lower_round(l, n, 0, x);
        return;
    }
    const hlo_groups replicas =
            lower_neighbours(l, (mesh_axis)n->attrs.mesh.axis, n->attrs.mesh.replicas);
    const hlo_value kv = hlo_all_reduce(&l->h, "add", take_kv(l, n, x), replicas);
    lower_round(l, n, 0, put_together(l, take_q(l, n, x), kv));
}

const lower_op lower_op_gather_kv = {.lower = gather_kv};
const lower_op lower_op_slice_kv = {.lower = slice_kv};
const lower_op lower_op_share_kv = {.lower = lower_same};
const lower_op lower_op_join_kv = {.lower = join_kv};
