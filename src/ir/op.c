#include "ir/op.h"

#include <string.h>

#define X(name) extern const op_row op_row_##name;
IR_OPS(X)
#undef X

const op_row *const op_rows[N_OPS] = {
#define X(name) &op_row_##name,
        IR_OPS(X)
#undef X
};

tensor *grad_of(grad_ctx *c, const tensor *t) {
    return t->id < c->n ? c->d[t->id] : NULL;
}

void grad_add(grad_ctx *c, const tensor *t, tensor *d) {
    DRV_ASSERT(t->id < c->n, "gradient of a tensor made by autodiff");
    DRV_ASSERT(same_shape(t, d), "gradient of %%%d has another shape", t->id);
    if (c->d[t->id]) {
        tensor *in[] = {c->d[t->id], d};
        d = graph_add(c->g, OP_add, 2, in, NULL)->out[0];
    }
    c->d[t->id] = d;
}

tensor *grad_buffer(grad_ctx *c, const tensor *t) {
    return t->id < c->n ? c->buffer[t->id] : NULL;
}

void grad_buffer_set(grad_ctx *c, const tensor *t, tensor *updated) {
    DRV_ASSERT(grad_buffer(c, t), "%%%d has no accumulator", t->id);
    c->buffer[t->id] = updated;
}

void grad_replace(grad_ctx *c, tensor *old, tensor *with) {
    for (int i = 0; i < c->g->n_nodes; i++)
        for (int k = 0; k < c->g->nodes[i]->n_in; k++)
            if (c->g->nodes[i]->in[k] == old) c->g->nodes[i]->in[k] = with;
    if (old->cls == TENSOR_OUTPUT) {
        graph_output(with, old->name);
        old->cls = TENSOR_TEMP;
        old->name = NULL;
    }
}

tensor *example_weight(graph *g, const char *name, dtype dt, int64_t n, int64_t m) {
    return graph_state(g, TENSOR_WEIGHT, name, dt, m ? 2 : 1, (int64_t[]){n, m});
}

tensor *example_ids(graph *g, const char *name, int64_t n) {
    return graph_state(g, TENSOR_INPUT, name, DT_I32, 1, &n);
}
