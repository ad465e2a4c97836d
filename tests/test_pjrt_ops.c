// Every op on a PJRT plugin: the examples of all rows of the op table, in fp32 and bf16, against
// the CPU back end's definition in double; attention in small blocks as in one; numbers in f32
// where a device has no f64. Skipped, saying so, where there is no plugin.
#include "harness.h"

#include "backend/pjrt/plugin.h"

// One example of an op on a back end; results of its last node can be read.
typedef struct op_run {
    arena *a;
    backend *b;
    example e;
    node *last;
    executable *program;
} op_run;

static op_run run_open(const char *name, const backend_opts *opts, op_kind op, int which,
        dtype dt) {
    op_run r = {.a = arena_new("example")};
    OK(backend_open_with(r.a, name, opts, &r.b));
    r.e = (example){.g = graph_new(r.a, op_rows[op]->name), .dt = dt};
    op_rows[op]->examples[which](&r.e);
    r.last = r.e.g->nodes[r.e.g->n_nodes - 1];
    for (int o = 0; o < r.last->n_out; o++)
        if (tensor_root(r.last->out[o])->cls == TENSOR_TEMP)
            graph_output(r.e.g, r.last->out[o], arena_printf(r.a, "out%d", o));
    r.e.g->stage = op_rows[op]->built ? STAGE_BUILT : STAGE_DIFFERENTIATED;
    OK(backend_compile(r.a, r.b, r.e.g, NULL, &r.program));
    example_fill(r.b, &r.e);
    OK(backend_run(r.b, r.program));
    return r;
}

static void run_close(op_run *r) {
    backend_close(r->b);
    arena_free(r->a);
}

static double *output(const op_run *r, int o) {
    const tensor *t = r->last->out[o];
    double *x = ARENA_ARRAY(r->a, double, tensor_elements(t));
    for (int64_t k = 0; k < tensor_elements(t); k++)
        x[k] = element_read(r->b, t, k);
    return x;
}

// Sums of at most 40 products: a few times 2^-24. bf16 rounds values on the way (probabilities, the
// saved output) and at the end: a few times 2^-9.
static double tolerance_of(dtype computed, dtype stored) {
    return computed == DT_BF16 || stored == DT_BF16 ? 0x1p-6 : 1e-5;
}

static void compare(const backend_opts *opts, op_kind op, int which, dtype dt) {
    op_run got = run_open("pjrt", opts, op, which, dt);
    setenv("DROVER_CPU", "ref", 1);
    op_run want = run_open("cpu", opts, op, which, DT_F64);
    unsetenv("DROVER_CPU");
    assert_int_equal(got.last->n_out, want.last->n_out);
    for (int o = 0; o < got.last->n_out; o++) {
        const tensor *t = got.last->out[o];
        const double bound = tolerance_of(dt, t->dt),
                     error = relative_error(output(&got, o), output(&want, o), tensor_elements(t));
        if (!(error <= bound))
            fail_msg("%s, example %d, output %d, %s: relative error %.3g, bound %.3g",
                    op_rows[op]->name, which, o, dtype_name(dt), error, bound);
    }
    run_close(&got);
    run_close(&want);
}

static void every_example(void **state) {
    const backend_opts *opts = *state;
    for (int op = 0; op < N_OPS; op++)
        for (int which = 0; which < MAX_EXAMPLES && op_rows[op]->examples[which]; which++) {
            compare(opts, (op_kind)op, which, DT_F32);
            compare(opts, (op_kind)op, which, DT_BF16);
        }
}

static bool has_plugin(void) {
    arena *a = arena_new("plugin");
    const char *name, *path;
    const drv_status status = plugin_find(a, "cpu", &name, &path);
    if (status != DRV_OK) fprintf(stderr, "skipped: %s\n", drv_message());
    arena_free(a);
    return status == DRV_OK;
}

int main(void) {
    enum { SKIPPED = 77 };
    static backend_opts defaults = {.plugin = "cpu"};
    par_set_threads(2);
    if (!has_plugin()) return SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(every_example, &defaults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
