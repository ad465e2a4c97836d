// Every op on a PJRT plugin: the examples of all rows of the op table, in fp32 and bf16, against
// the CPU back end's definition in double; attention in small blocks as in one; numbers in f32
// where a device has no f64. Skipped, saying so, where there is no plugin.
#include "harness.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/pjrt/pjrt_backend.h"
#include "backend/pjrt/runtime/plugin.h"

// What programs are lowered with; changed by the tests below.
static lower_options lowered_with = {.has_f64 = true, .has_fp8 = true, .has_host_memory = true};

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
    OK(backend_open(r.a, name, opts, &r.b));
    if (strcmp(name, "pjrt") == 0) *pjrt_lowering(r.b) = lowered_with;
    r.e = (example){.g = graph_new(r.a, op_name(op)), .dt = dt};
    example_make(&r.e, op, which);
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

// Of reduction blocks of the row, of several accumulation groups in shards, or an op without a
// rule: the back end refuses it.
static bool is_refused(const node *last) {
    return last->attrs.sum.row_blocks > 1 || last->attrs.sum.partial_sums > 1 ||
           lower_has_several_sums(last) || !lower_ops[last->op]->lower;
}

// Whether the example is refused; if so, the message says which op it is.
static bool expect_refusal(const backend_opts *opts, op_kind op, int which, dtype dt) {
    arena *a = arena_new("refused");
    example e = {.g = graph_new(a, "refused"), .dt = dt};
    example_make(&e, op, which);
    const node *last = e.g->nodes[e.g->n_nodes - 1];
    const bool refused = is_refused(last);
    if (refused) {
        backend *b;
        executable *program;
        OK(backend_open(a, "pjrt", opts, &b));
        e.g->stage = op_rows[op]->built ? STAGE_BUILT : STAGE_DIFFERENTIATED;
        assert_int_equal(backend_compile(a, b, e.g, NULL, &program), DRV_E_DEVICE);
        if (!strstr(drv_message(), op_name(op)) ||
                !strstr(drv_message(), "the pjrt back end cannot"))
            fail_msg("%s, example %d: \"%s\"", op_name(op), which, drv_message());
        backend_close(b);
    }
    arena_free(a);
    return refused;
}

static void compare(const backend_opts *opts, op_kind op, int which, dtype dt) {
    if (expect_refusal(opts, op, which, dt)) return;
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
            fail_msg("%s, example %d, output %d, %s: relative error %.3g, bound %.3g", op_name(op),
                    which, o, dtype_name(dt), error, bound);
    }
    run_close(&got);
    run_close(&want);
}

static bool depends_on_dtype(op_kind op, int which) {
    arena *a = arena_new("texts");
    str text[2] = {{0}};
    for (int dt = DT_F32; dt <= DT_BF16; dt++) {
        example e = {.g = graph_new(a, "example"), .dt = (dtype)dt};
        example_make(&e, op, which);
        graph_print(e.g, &text[dt == DT_BF16]);
    }
    const bool differ = text[0].n != text[1].n || memcmp(text[0].p, text[1].p, text[0].n) != 0;
    str_free(&text[0]), str_free(&text[1]);
    arena_free(a);
    return differ;
}

// One client for all examples of an op: opening one for each took longer than running them, and a
// single one would keep the programs of all ops.
static void every_example(void **state) {
    for (int op = 0; op < N_OPS; op++) {
        if (op_rows[op]->on_host)
            continue; // the example of from_host has it; a result there has no bytes to read
        arena *a = arena_new("client");
        backend_opts opts = *(const backend_opts *)*state;
        OK(device_pool_open(a, &opts, 1, &opts.pool));
        for (int which = 0; which < n_examples((op_kind)op); which++) {
            compare(&opts, (op_kind)op, which, DT_F32);
            if (depends_on_dtype((op_kind)op, which)) compare(&opts, (op_kind)op, which, DT_BF16);
        }
        device_pool_close(opts.pool);
        arena_free(a);
    }
}

// Random bits are those of the CPU: in fp32 arithmetic, which differs in last places, a threshold
// lies between two results in one of some thousand roundings. With other bits half of them differ.
static void compare_bits(const backend_opts *opts, op_kind op, int which) {
    op_run got = run_open("pjrt", opts, op, which, DT_F32),
           want = run_open("cpu", opts, op, which, DT_F32);
    for (int o = 0; o < got.last->n_out; o++) {
        const tensor *t = got.last->out[o];
        const double *x = output(&got, o), *y = output(&want, o);
        int64_t n_other = 0;
        for (int64_t k = 0; k < tensor_elements(t); k++)
            n_other += x[k] != y[k];
        if (t->dt == DT_BF16 && n_other > 1)
            fail_msg("%s, example %d, output %d: %lld of %lld differ", op_name(op), which, o,
                    (long long)n_other, (long long)tensor_elements(t));
    }
    run_close(&got);
    run_close(&want);
}

static void random_bits(void **state) {
    static const op_kind ops[] = {OP_adamw_rounded, OP_add_rounded};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int which = 0; which < n_examples(ops[i]); which++)
            compare_bits(*state, ops[i], which);
}

// Devices without f64: loss, norms and hyper are f32 there.
static void numbers_in_f32(void **state) {
    static const op_kind ops[] = {OP_linear_cross_entropy, OP_linear_cross_entropy_grad,
            OP_sum_squares, OP_adamw, OP_adamw_rounded, OP_preference, OP_preference_grad};
    lowered_with.has_f64 = false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int which = 0; which < n_examples(ops[i]); which++)
            compare(*state, ops[i], which, DT_F32);
    lowered_with.has_f64 = true;
}

static void fp8_needs_a_device_that_has_it(void **state) {
    arena *a = arena_new("refused");
    const int64_t dim[] = {4, 4};
    backend *b;
    executable *program;
    graph *g = graph_new(a, "narrow");
    OK(backend_open(a, "pjrt", *state, &b));
    pjrt_lowering(b)->has_fp8 = false;
    tensor *in[] = {graph_state(g, TENSOR_INPUT, "x", DT_BF16, 2, dim),
            graph_state(g, TENSOR_INPUT, "w", DT_BF16, 2, dim)};
    const op_attrs attrs = {.matmul.tb = 1, .matmul.fp8 = FP8_FORWARD};
    graph_output(g, graph_add(g, OP_matmul, 2, in, &attrs)->out[0], "y");
    FAILS(backend_compile(a, b, g, NULL, &program), DRV_E_USAGE,
            "training.precision is fp8, but the device cannot multiply fp8");
    backend_close(b);
    arena_free(a);
}

// Rows of five tokens in blocks of 1 .. 4: three and fewer pairs are written out, more are a loop;
// the last block is shorter. In bf16, where the casts are others, of 2 (a loop) and 4 (written out).
static void attention_in_blocks(void **state) {
    for (lowered_with.attention_block = 1; lowered_with.attention_block <= 4;
            lowered_with.attention_block++)
        for (int dt = DT_F32; dt <= (lowered_with.attention_block % 2 ? DT_F32 : DT_BF16); dt++) {
            compare(*state, OP_attention, 0, (dtype)dt);
            compare(*state, OP_attention_grad, 0, (dtype)dt);
        }
    lowered_with.attention_block = 3; // what is hidden begins and ends in blocks, or is one
    compare(*state, OP_attention, 2, DT_F32);
    compare(*state, OP_attention_grad, 3, DT_F32);
    lowered_with.attention_block = 0;
}

// Rows of tokens added in one order, as on a GPU: blocks of sorted tokens, and what blocks have of
// a row together. Row 3 has more tokens than two blocks hold, others few, and row 0 and 9 none.
static void rows_in_one_order(void **state) {
    enum { TOKENS = 700, ROWS = 10, COLUMNS = 5 };
    arena *a = arena_new("rows");
    backend *device;
    executable *program;
    int32_t ids[TOKENS];
    double expected[ROWS * COLUMNS] = {0};
    OK(backend_open(a, "pjrt", *state, &device));
    pjrt_lowering(device)->adds_in_order = true;
    graph *program_graph = graph_new(a, "rows");
    const int64_t ids_dim[] = {TOKENS}, added_dim[] = {TOKENS, COLUMNS},
                  table_dim[] = {ROWS, COLUMNS};
    tensor *in[] = {graph_state(program_graph, TENSOR_INPUT, "ids", DT_I32, 1, ids_dim),
            graph_state(program_graph, TENSOR_INPUT, "added", DT_F32, 2, added_dim),
            graph_state(program_graph, TENSOR_GRAD, "table", DT_F32, 2, table_dim)};
    const tensor *sum = graph_add(program_graph, OP_embedding_grad, 3, in, NULL)->out[0];
    OK(backend_compile(a, device, program_graph, NULL, &program));
    for (int t = 0; t < TOKENS; t++)
        ids[t] = t % 2 ? 3 : 1 + (int32_t)(noise(1, (uint64_t)t) * 4 + 4) % 8;
    OK(backend_write(device, "ids", 0, sizeof ids, ids));
    for (int k = 0; k < ROWS * COLUMNS; k++)
        element_write(device, in[2], k, expected[k] = (double)(float)noise(3, (uint64_t)k));
    for (int k = 0; k < TOKENS * COLUMNS; k++) {
        const double x = (double)(float)noise(2, (uint64_t)k);
        element_write(device, in[1], k, x);
        expected[ids[k / COLUMNS] * COLUMNS + k % COLUMNS] += x;
    }
    OK(backend_run(device, program));
    for (int k = 0; k < ROWS * COLUMNS; k++) // sums of at most 400 numbers below 1
        if (!(fabs(element_read(device, sum, k) - expected[k]) < 1e-4))
            fail_msg("row %d: %.9g, expected %.9g", k / COLUMNS, element_read(device, sum, k),
                    expected[k]);
    backend_close(device);
    arena_free(a);
    lowered_with.adds_in_order = true;
    for (int which = 0; which < n_examples(OP_embedding_grad); which++)
        compare(*state, OP_embedding_grad, which, DT_BF16);
    lowered_with.adds_in_order = false;
}

// Angles at large positions, where fp32 has lost them.
static void far_positions(void **state) {
    enum { N = 6, D = 8 };
    static const int32_t at[N] = {0, 1, 4095, 131071, 524287, 1048575};
    arena *a = arena_new("rope");
    backend *device;
    executable *program;
    OK(backend_open(a, "pjrt", *state, &device));
    graph *g = graph_new(a, "far");
    tensor *position = graph_state(g, TENSOR_INPUT, "position", DT_I32, 1, (int64_t[]){N});
    const op_attrs attrs = {.heads.head_dim = D, .rope.theta = 500000, .rope.table_dtype = DT_F32};
    tensor *table = graph_add(g, OP_rope_table, 1, &position, &attrs)->out[0];
    graph_output(g, table, "table");
    OK(backend_compile(a, device, g, NULL, &program));
    OK(backend_write(device, "position", 0, sizeof at, at));
    OK(backend_run(device, program));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D / 2; j++) {
            const double angle = at[i] * pow(500000, -2.0 * j / D);
            const double c = element_read(device, table, i * D + j),
                         s = element_read(device, table, i * D + D / 2 + j);
            if (!(fabs(c - cos(angle)) < 4e-7 && fabs(s - sin(angle)) < 4e-7))
                fail_msg("position %d, pair %d: cos %.9g, sin %.9g, expected %.9g, %.9g", at[i], j,
                        c, s, cos(angle), sin(angle));
        }
    backend_close(device);
    arena_free(a);
}

static bool has_plugin(const char *wanted) {
    arena *a = arena_new("plugin");
    const char *name, *path;
    const drv_status status = plugin_find(a, wanted, &name, &path);
    if (status == DRV_OK) print_message("reads %s, outside the tree\n", path);
    if (status != DRV_OK) fprintf(stderr, "left out: %s\n", drv_message());
    arena_free(a);
    return status == DRV_OK;
}

static int test_plugin(const char *plugin) {
    backend_opts opts = {.plugin = plugin, .cache_dir = "none"};
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(every_example, &opts),
            cmocka_unit_test_prestate(random_bits, &opts),
            cmocka_unit_test_prestate(numbers_in_f32, &opts),
            cmocka_unit_test_prestate(fp8_needs_a_device_that_has_it, &opts),
            cmocka_unit_test_prestate(attention_in_blocks, &opts),
            cmocka_unit_test_prestate(rows_in_one_order, &opts),
            cmocka_unit_test_prestate(far_positions, &opts)};
    return cmocka_run_group_tests_name(plugin, tests, NULL, NULL);
}

// The oldest plugin that is supported, in a process of its own: two copies of XLA do not live in one.
static int test_oldest(void) {
    arena *a = arena_new("oldest");
    const char *folder = path_join(a, plugin_folder(a), "oldest");
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        setenv("DROVER_PJRT_DIR", folder, 1);
        exit(has_plugin("cpu") ? test_plugin("cpu") : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) status = 1;
    arena_free(a);
    return status;
}

// With a plugin's name, on that alone: `test_pjrt_ops cuda`.
int main(int argc, char **argv) {
    enum { SKIPPED = 77 };
    if (argc > 1) return has_plugin(argv[1]) ? test_plugin(argv[1]) : SKIPPED;
    const int oldest = test_oldest();
    par_set_threads(2);
    if (!has_plugin("cpu")) return oldest ? oldest : SKIPPED;
    return test_plugin("cpu") || oldest;
}
