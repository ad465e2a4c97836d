// The op table, from the examples in its rows alone: every example runs on every level of kernels
// and is compared with the reference in double, and every gradient rule is compared with central
// differences in double.
#include "harness.h"

#include <math.h>

#include "base/cpu.h"
#include "ir/grad.h"

// One example of an op on a back end; results of its last node can be read.
typedef struct op_run {
    arena *a;
    backend *b;
    example e;
    node *last;
    executable *program;
} op_run;

static void build_example(op_kind op, int which, dtype dt, arena *a, example *e) {
    *e = (example){.g = graph_new(a, op_name(op)), .dt = dt};
    example_make(e, op, which);
    const node *last = e->g->nodes[e->g->n_nodes - 1];
    if (last->op != op)
        fail_msg("example %d of %s ends in %s", which, op_name(op), op_name(last->op));
}

static node *last_node(const graph *g) {
    return g->nodes[g->n_nodes - 1];
}

static graph_stage stage_of(op_kind op) {
    return op_rows[op]->built ? STAGE_BUILT : STAGE_DIFFERENTIATED;
}

static op_run run_open(op_kind op, int which, dtype dt) {
    op_run r = {.a = arena_new("example")};
    OK(backend_open_host(r.a, &r.b));
    build_example(op, which, dt, r.a, &r.e);
    r.last = last_node(r.e.g);
    for (int o = 0; o < r.last->n_out; o++)
        if (tensor_root(r.last->out[o])->cls == TENSOR_TEMP)
            graph_output(r.e.g, r.last->out[o], arena_printf(r.a, "out%d", o));
    r.e.g->stage = stage_of(op);
    OK(graph_verify(r.e.g, stage_of(op)));
    OK(backend_compile(r.a, r.b, r.e.g, NULL, &r.program));
    OK(backend_prepare(r.b));
    example_fill(r.b, &r.e);
    return r;
}

static void run_close(op_run *r) {
    backend_close(r->b);
    arena_free(r->a);
}

TEST(every_row_has_an_example) {
    for (int op = 0; op < N_OPS; op++)
        if (n_examples((op_kind)op) == 0) fail_msg("%s has no example", op_name((op_kind)op));
}

// --- every example at every level
// Sums of at most 40 products: the root mean square of fp32 is a few times 2^-24. bf16 rounds
// values on the way (probabilities, the saved output) and at the end: a few times 2^-9.
static double tolerance_of(dtype computed, dtype stored) {
    return computed == DT_BF16 || stored == DT_BF16 ? 0x1p-6 : 4e-6;
}

static double *output(const op_run *r, int o) {
    const tensor *t = r->last->out[o];
    double *x = ARENA_ARRAY(r->a, double, tensor_elements(t));
    for (int64_t k = 0; k < tensor_elements(t); k++)
        x[k] = element_read(r->b, t, k);
    return x;
}

static void compare_with_reference(op_kind op, int which, dtype dt, const char *level) {
    setenv("DROVER_CPU", level, 1);
    op_run got = run_open(op, which, dt);
    setenv("DROVER_CPU", "ref", 1);
    op_run want = run_open(op, which, DT_F64);
    OK(backend_run(got.b, got.program));
    OK(backend_run(want.b, want.program));
    assert_int_equal(got.last->n_out, want.last->n_out);
    for (int o = 0; o < got.last->n_out; o++) {
        const tensor *t = got.last->out[o];
        assert_true(same_shape(t, want.last->out[o]));
        const double bound = tolerance_of(dt, t->dt),
                     error = relative_error(output(&got, o), output(&want, o), tensor_elements(t));
        if (!(error <= bound))
            fail_msg("%s, example %d, output %d, %s, level %s: relative error %.3g, bound %.3g",
                    op_name(op), which, o, dtype_name(dt), level, error, bound);
    }
    run_close(&got);
    run_close(&want);
}

TEST(examples_at_all_levels) {
    for (cpu_level level = CPU_REF; level <= cpu_detect(); level++)
        for (int op = 0; op < N_OPS; op++)
            for (int which = 0; which < n_examples((op_kind)op); which++) {
                compare_with_reference((op_kind)op, which, DT_F32, cpu_level_name(level));
                compare_with_reference((op_kind)op, which, DT_BF16, cpu_level_name(level));
            }
    unsetenv("DROVER_CPU");
}

// --- gradients: L = sum of r * output with random r
static const double h = 1e-5, tolerance = 1e-6;

typedef enum wanted { ALL, ACTIVATIONS, WEIGHTS } wanted; // the others are frozen

typedef struct grad_case {
    op_run forward;
    op_kind op;
    int which;
    wanted wanted;
    graph *g; // backward
    grad_ctx ctx;
} grad_case;

static double cotangent(int o, int64_t k) {
    return noise(99 + (uint64_t)o, (uint64_t)k);
}

static int n_differentiable(const node *n) {
    return n->n_out - op_rows[n->op]->n_statistics;
}

static double loss_of(const op_run *r) {
    double sum = 0;
    OK(backend_run(r->b, r->program));
    for (int o = 0; o < n_differentiable(r->last); o++)
        for (int64_t k = 0; k < tensor_elements(r->last->out[o]); k++)
            sum += cotangent(o, k) * element_read(r->b, r->last->out[o], k);
    return sum;
}

// The backward graph. What is to be wanted becomes a trainable weight; cotangents are inputs.
static void differentiate(grad_case *of) {
    example inputs;
    arena *a = of->forward.a;
    build_example(of->op, of->which, DT_F64, a, &inputs);
    graph *built = of->g = inputs.g;
    for (int i = 0; i < inputs.n_inputs; i++) {
        tensor *t = built->tensors[inputs.input[i].t->id];
        const bool weight = inputs.input[i].role == EXAMPLE_WEIGHT;
        if (inputs.input[i].role == EXAMPLE_GIVEN) continue;
        t->cls = TENSOR_WEIGHT;
        t->trainable = weight ? of->wanted != ACTIVATIONS : of->wanted != WEIGHTS;
    }
    node *last = last_node(built);
    of->ctx = grad_open(built);
    for (int o = 0; o < n_differentiable(last); o++) {
        tensor *out = last->out[o];
        of->ctx.d[out->id] = graph_state(built, TENSOR_INPUT, arena_printf(a, "d%d", o), out->dt,
                out->n_dims, out->dim);
    }
    built->phase = PHASE_BACKWARD;
    op_rows[of->op]->grad(&of->ctx, last);
    grad_close(&of->ctx);
    built->stage = STAGE_DIFFERENTIATED;
    for (int i = 0; i < of->ctx.n; i++) {
        tensor *d = of->ctx.d[i];
        if (d && d->def && !d->name) graph_output(built, d, arena_printf(a, "dx%d", i));
    }
    graph_prune(built);
    OK(graph_verify(built, STAGE_DIFFERENTIATED));
}

static void run_backward(grad_case *c) {
    executable *backward;
    backend *b = c->forward.b;
    OK(backend_compile(c->forward.a, b, c->g, NULL, &backward));
    for (int o = 0; o < n_differentiable(c->forward.last); o++) {
        const tensor *d = graph_find(c->g, arena_printf(c->forward.a, "d%d", o));
        for (int64_t k = 0; k < tensor_elements(d); k++)
            element_write(b, d, k, cotangent(o, k));
    }
    OK(backend_run(b, backward));
}

// The gradient of an input as the rule made it; NULL if it was not wanted.
static const tensor *gradient_of(const grad_case *c, const example_input *in) {
    const tensor *of_graph = c->g->tensors[in->t->id];
    if (!of_graph->trainable) {
        if (grad_buffer(&c->ctx, of_graph) || grad_of(&c->ctx, of_graph))
            fail_msg("%s: a gradient for %s, which is frozen", op_name(c->op), of_graph->name);
        return NULL;
    }
    const tensor *d = in->role == EXAMPLE_WEIGHT ? grad_buffer(&c->ctx, of_graph)
                                                 : grad_of(&c->ctx, of_graph);
    if (!d) fail_msg("%s gives no gradient for %s", op_name(c->op), of_graph->name);
    return d;
}

// With reduction blocks of the row each has an accumulator: together they are the gradient.
static double sum_over_blocks(const op_run *r, const tensor *d, int64_t n, int64_t k) {
    double sum = 0;
    for (int64_t at = k; at < tensor_elements(d); at += n)
        sum += element_read(r->b, d, at);
    return sum;
}

static int64_t compare_with_differences(const grad_case *c, const example_input *in) {
    const op_run *r = &c->forward;
    const tensor *d = gradient_of(c, in);
    if (!d) return 0;
    for (int64_t k = 0; k < tensor_elements(in->t); k++) {
        const double x = element_read(r->b, in->t, k),
                     got = sum_over_blocks(r, d, tensor_elements(in->t), k);
        element_write(r->b, in->t, k, x + h);
        const double up = loss_of(r);
        element_write(r->b, in->t, k, x - h);
        const double want = (up - loss_of(r)) / (2 * h);
        element_write(r->b, in->t, k, x);
        if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want))))
            fail_msg("%s, example %d: d/d%s[%lld] is %.9g, differences give %.9g", op_name(c->op),
                    c->which, in->t->name, (long long)k, got, want);
    }
    return tensor_elements(in->t);
}

static bool has_role(const example *e, example_role role) {
    for (int i = 0; i < e->n_inputs; i++)
        if (e->input[i].role == role) return true;
    return false;
}

static int64_t check_gradient(op_kind op, int which, wanted w) {
    grad_case c = {.forward = run_open(op, which, DT_F64), .op = op, .which = which, .wanted = w};
    const example *e = &c.forward.e;
    int64_t checked = 0;
    if ((w != WEIGHTS && has_role(e, EXAMPLE_ACTIVATION)) ||
            (w != ACTIVATIONS && has_role(e, EXAMPLE_WEIGHT))) {
        differentiate(&c);
        run_backward(&c);
        for (int i = 0; i < e->n_inputs; i++)
            if (e->input[i].role != EXAMPLE_GIVEN)
                checked += compare_with_differences(&c, &e->input[i]);
        assert_true(checked > 0);
    }
    run_close(&c.forward);
    return checked;
}

TEST(gradients) {
    for (int op = 0; op < N_OPS; op++) {
        int64_t checked = 0;
        if (!op_rows[op]->grad) continue;
        for (int which = 0; which < n_examples((op_kind)op); which++)
            for (wanted w = ALL; w <= WEIGHTS; w++)
                checked += check_gradient((op_kind)op, which, w);
        if (checked == 0) fail_msg("%s: no example has a gradient", op_name((op_kind)op));
    }
}

int main(void) {
    par_set_threads(4); // the gradient of attention takes both sequences of an example together
    return tests_run();
}
