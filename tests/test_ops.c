// Every op's gradient against central differences in double, h = 1e-5, from the example in its row.
// L = sum of r * output with random r; the kernels are the reference ones (f64 has no others).
#include "harness.h"

#include <math.h>

#include "ir/op.h"
#include "passes/passes.h"

static const double h = 1e-5, tolerance = 1e-6;

typedef struct op_case {
    arena *a;
    backend *b;
    executable *forward;
    graph *g;
} op_case;

static void fill(backend *b, const graph *g) {
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->def || (t->cls != TENSOR_WEIGHT && t->cls != TENSOR_INPUT)) continue;
        for (int64_t k = 0; k < tensor_elements(t); k++) {
            double x = noise(hash_name(t->name), (uint64_t)k);
            int32_t id = (int32_t)(k * 5 % 7);
            if (strcmp(t->name, "position") == 0)
                id = (int32_t)(k % 5 < 3 ? k % 5 : k % 5 - 3); // two documents
            if (strcmp(t->name, "labels") == 0 && k == 2) id = -1;
            if (t->dt == DT_I32)
                OK(backend_write(b, 0, t->name, 4 * k, 4, &id));
            else
                OK(backend_write(b, 0, t->name, 8 * k, 8, &x));
        }
    }
}

// The differentiable outputs of the last node: all but statistics that the gradient only reads.
static int outputs(const node *n) {
    if (n->op == OP_rmsnorm || n->op == OP_attention) return 1;
    return n->op == OP_add_rmsnorm ? 2 : n->n_out;
}

static double loss_of(op_case *c, const node *last) {
    double sum = 0;
    OK(backend_run(c->b, c->forward));
    for (int o = 0; o < outputs(last); o++)
        for (int64_t k = 0; k < tensor_elements(last->out[o]); k++) {
            double x;
            OK(backend_read(c->b, 0, last->out[o]->name, 8 * k, 8, &x));
            sum += x *
                   (last->op == OP_linear_cross_entropy ? 1 : noise(99 + (uint64_t)o, (uint64_t)k));
        }
    return sum;
}

// The rule's gradient: the cotangents of the outputs are inputs "d0", "d1".
static void differentiate(graph *g, node *last, grad_ctx *ctx) {
    const int n = g->n_tensors;
    *ctx = (grad_ctx){.g = g,
            .n = n,
            .d = ARENA_ARRAY(g->a, tensor *, n),
            .buffer = ARENA_ARRAY(g->a, tensor *, n)};
    for (int i = 0; i < n; i++) {
        const tensor *t = g->tensors[i];
        const bool activation = t->cls == TENSOR_WEIGHT &&
                                (strcmp(t->name, "x") == 0 || strcmp(t->name, "d") == 0 ||
                                        strcmp(t->name, "gu") == 0 || strcmp(t->name, "qkv") == 0 ||
                                        strcmp(t->name, "a") == 0 || strcmp(t->name, "b") == 0 ||
                                        strcmp(t->name, "h") == 0);
        if (t->cls == TENSOR_WEIGHT && !activation)
            ctx->buffer[i] = graph_state(g, TENSOR_GRAD, arena_printf(g->a, "grad.%s", t->name),
                    t->dt, t->n_dims, t->dim);
    }
    for (int o = 0; o < outputs(last); o++)
        ctx->d[last->out[o]->id] = graph_state(g, TENSOR_INPUT, arena_printf(g->a, "d%d", o),
                last->out[o]->dt, last->out[o]->n_dims, last->out[o]->dim);
    g->phase = PHASE_BACKWARD;
    op_rows[last->op]->grad(ctx, last);
    g->stage = STAGE_DIFFERENTIATED;
}

static void check_op(op_kind op) {
    op_case c = {.a = arena_new("op")};
    OK(backend_open(c.a, "cpu", &c.b));
    c.g = graph_new(c.a, "forward");
    op_rows[op]->example(c.g, DT_F64);
    node *last = c.g->nodes[c.g->n_nodes - 1];
    for (int o = 0; o < last->n_out; o++)
        graph_output(last->out[o], arena_printf(c.a, "out%d", o));
    OK(graph_verify(c.g, STAGE_BUILT));
    OK(backend_compile(c.a, c.b, c.g, NULL, &c.forward));

    graph *g = graph_new(c.a, "backward");
    op_rows[op]->example(g, DT_F64);
    node *twin = g->nodes[g->n_nodes - 1];
    grad_ctx ctx;
    differentiate(g, twin, &ctx);
    for (int i = 0; i < ctx.n; i++)
        if (ctx.d[i] && ctx.d[i]->def && !ctx.d[i]->name)
            graph_output(ctx.d[i], arena_printf(c.a, "dx.%s", g->tensors[i]->name));
    graph_prune(g);
    OK(graph_verify(g, STAGE_DIFFERENTIATED));
    executable *backward;
    OK(backend_compile(c.a, c.b, g, NULL, &backward));
    fill(c.b, c.g);
    for (int o = 0; o < outputs(last); o++)
        for (int64_t k = 0; k < tensor_elements(last->out[o]); k++) {
            double r = op == OP_linear_cross_entropy ? 1 : noise(99 + (uint64_t)o, (uint64_t)k);
            OK(backend_write(c.b, 0, arena_printf(c.a, "d%d", o), 8 * k, 8, &r));
        }
    OK(backend_run(c.b, backward));

    int checked = 0;
    for (int i = 0; i < ctx.n; i++) {
        const tensor *t = g->tensors[i];
        if (t->cls != TENSOR_WEIGHT || t->def) continue;
        const char *name = ctx.buffer[i] ? arena_printf(c.a, "grad.%s", t->name)
                           : ctx.d[i]    ? ctx.d[i]->name
                                         : NULL;
        if (!name) fail_msg("%s gives no gradient for %s", op_rows[op]->name, t->name);
        for (int64_t k = 0; k < tensor_elements(t); k++) {
            double x, up, down, got;
            OK(backend_read(c.b, 0, name, 8 * k, 8, &got));
            OK(backend_read(c.b, 0, t->name, 8 * k, 8, &x));
            const double plus = x + h, minus = x - h;
            OK(backend_write(c.b, 0, t->name, 8 * k, 8, &plus));
            up = loss_of(&c, last);
            OK(backend_write(c.b, 0, t->name, 8 * k, 8, &minus));
            down = loss_of(&c, last);
            OK(backend_write(c.b, 0, t->name, 8 * k, 8, &x));
            const double want = (up - down) / (2 * h);
            if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
                fail_msg("%s: d/d%s[%lld] is %.9g, differences give %.9g", op_rows[op]->name,
                        t->name, (long long)k, got, want);
            checked++;
        }
    }
    assert_true(checked > 0);
    backend_close(c.b);
    arena_free(c.a);
}

static void gradients(void **state) {
    (void)state;
    int n = 0;
    for (int op = 0; op < N_OPS; op++) {
        const op_row *row = op_rows[op];
        if (!row->grad || !row->example) continue;
        check_op((op_kind)op);
        n++;
    }
    assert_int_equal(n, 9);
}

// A differentiable row without an example would escape the test above; collectives are linear and
// are checked by their pairing.
static void every_row_has_an_example(void **state) {
    (void)state;
    for (int op = 0; op < N_OPS; op++)
        if (op_rows[op]->grad && !op_rows[op]->example)
            assert_true(op == OP_all_reduce || op == OP_all_gather || op == OP_reduce_scatter);
}

static void collectives_pair_up(void **state) {
    (void)state;
    arena *a = arena_new("collectives");
    const op_kind forward[] = {OP_all_gather, OP_reduce_scatter},
                  back[] = {OP_reduce_scatter, OP_all_gather};
    for (int i = 0; i < 2; i++) {
        graph *g = graph_new(a, "g");
        tensor *x = graph_state(g, TENSOR_WEIGHT, "x", DT_F32, 2, (int64_t[]){8, 3});
        node *n = graph_add(g, forward[i], 1, &x, &(op_attrs){.axis = AXIS_TENSOR, .ranks = 4});
        assert_int_equal(n->out[0]->dim[0], i ? 2 : 32);
        grad_ctx c = {.g = g,
                .n = g->n_tensors,
                .d = ARENA_ARRAY(a, tensor *, 4),
                .buffer = ARENA_ARRAY(a, tensor *, 4)};
        c.d[n->out[0]->id] = graph_state(g, TENSOR_INPUT, "d", DT_F32, 2, n->out[0]->dim);
        op_rows[forward[i]]->grad(&c, n);
        assert_int_equal(g->nodes[1]->op, back[i]);
        assert_int_equal(g->nodes[1]->out[0]->dim[0], 8);
    }
    arena_free(a);
}

static void verifier_refuses(void **state) {
    (void)state;
    arena *a = arena_new("verify");
    graph *g = graph_new(a, "g");
    tensor *x = graph_state(g, TENSOR_WEIGHT, "x", DT_F32, 2, (int64_t[]){4, 8});
    tensor *y = graph_add(g, OP_add, 2, (tensor *[]){x, x}, NULL)->out[0];
    tensor *z = graph_add(g, OP_add, 2, (tensor *[]){y, x}, NULL)->out[0];
    OK(graph_verify(g, STAGE_BUILT));
    y->dim[1] = 9;
    FAILS(graph_verify(g, STAGE_BUILT), DRV_E_DATA, "outputs do not follow");
    y->dim[1] = 8;
    node *first = g->nodes[0];
    g->nodes[0] = g->nodes[1];
    g->nodes[1] = first;
    FAILS(graph_verify(g, STAGE_BUILT), DRV_E_DATA, "before it is defined");
    g->nodes[1] = g->nodes[0];
    g->nodes[0] = first;
    // A backward op is not legal in a built graph; a read after an in-place update is refused.
    tensor *acc = graph_state(g, TENSOR_GRAD, "acc", DT_F32, 2, (int64_t[]){8, 8});
    graph_add(g, OP_matmul, 3, (tensor *[]){z, z, acc}, &(op_attrs){.ta = 1});
    graph_add(g, OP_add, 2, (tensor *[]){acc, acc}, NULL);
    FAILS(graph_verify(g, STAGE_BUILT), DRV_E_DATA, "has overwritten");
    graph *d = graph_new(a, "d");
    tensor *gu = graph_state(d, TENSOR_WEIGHT, "gu", DT_F32, 2, (int64_t[]){4, 8});
    tensor *dy = graph_state(d, TENSOR_WEIGHT, "dy", DT_F32, 2, (int64_t[]){4, 4});
    graph_add(d, OP_swiglu_grad, 2, (tensor *[]){dy, gu}, NULL);
    FAILS(graph_verify(d, STAGE_BUILT), DRV_E_DATA, "not allowed at stage");
    arena_free(a);
}

int main(void) {
    par_set_threads(2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients),
            cmocka_unit_test(every_row_has_an_example), cmocka_unit_test(collectives_pair_up),
            cmocka_unit_test(verifier_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
