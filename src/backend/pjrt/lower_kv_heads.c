// Key-value heads that several tensor ranks work with (ir/ops/kv_heads.c). Over one rank shares are
// wholes; of several the program is refused (check_nodes in lower.c).
#include "backend/pjrt/lower.h"

static void same(lowering *l, const node *n) {
    lower_set(l, n, 0, lower_in(l, n, 0));
}

static void join_kv(lowering *l, const node *n) {
    lower_round(l, n, 0, lower_in(l, n, 0));
}

const lower_op lower_op_gather_kv = {.lower = same};
const lower_op lower_op_slice_kv = {.lower = same};
const lower_op lower_op_share_kv = {.lower = same};
const lower_op lower_op_join_kv = {.lower = join_kv};
