// What cuDNN is told of rows of documents, windows, pairs and grouped heads, on a processor: a
// plugin in CUDA's place (cuda_stand_in.c) computes the calls by their definition, and attention
// and its gradient are those of the CPU's definition in double. Skipped, saying so, where there is
// no plugin for processors.
// Legend: c the case; r a run of it; g its graph; n of tokens
#include "harness.h"

#include "backend/pjrt/pjrt_backend.h"
#include "backend/pjrt/runtime/plugin.h"

enum { MAX_TOKENS = 64, MAX_LENGTHS = 8 };

typedef struct rows_case {
    const char *name;
    struct {
        int rows, tokens, heads, kv_heads, d;
    };
    int window;
    int lengths[MAX_LENGTHS]; // of the documents of all rows, one after the other; 0: the end
    int documents;            // as the data set bounds them
    bool causal, wide;
    const int32_t *hidden; // [2 N]; NULL: nothing is
    document_way way;
} rows_case;

// A row of two tokens and three continuations of 5, 4 and 5; and one of a document.
static int32_t pairs_position[32], pairs_hidden[64];

static void fill_pairs(void) {
    static const int begins[] = {2, 7, 11};
    for (int t = 0; t < 16; t++) {
        const int branch = t < 2 ? -1 : t < 7 ? 0 : t < 11 ? 1 : 2;
        pairs_position[t] = branch < 0 ? t : 2 + t - begins[branch];
        pairs_position[16 + t] = t;
        if (branch <= 0) continue;
        pairs_hidden[2 * t] = 2;
        pairs_hidden[2 * t + 1] = begins[branch];
    }
}

static void set_positions(const rows_case *c, int32_t *out) {
    const int n = c->rows * c->tokens;
    if (c->hidden) {
        memcpy(out, pairs_position, sizeof pairs_position);
        return;
    }
    for (int t = 0, left = 0, next = 0, at = 0; t < n; t++, left--, at++) {
        if (left == 0 && c->lengths[next]) left = c->lengths[next++], at = 0;
        out[t] = at;
    }
}

// --- attention and its gradient on a back end
typedef struct attention_run {
    arena *a;
    backend *b;
    tensor *qkv, *d_o, *o, *dqkv;
    executable *program;
} attention_run;

static void write_values(backend *b, const tensor *t, uint64_t seed) {
    for (int64_t k = 0; k < tensor_elements(t); k++) {
        const float x = (float)noise(seed, (uint64_t)k);
        element_write(b, t, k, (double)bf16_to_f32(f32_to_bf16(x)));
    }
}

static attention_run run_open(const rows_case *c, const char *name, const backend_opts *opts,
        dtype dt) {
    attention_run r = {.a = arena_new("attention")};
    const op_attrs attrs = {.heads = {c->heads, c->kv_heads, c->d},
            .attention.seq = c->tokens,
            .attention.window = c->window,
            .attention.causal = c->causal,
            .sum.wide = c->wide,
            .attention.documents = c->documents};
    const int64_t n[] = {c->rows * c->tokens}, hidden_dim[] = {2 * *n},
                  qkv_dim[] = {*n, (c->heads + 2 * c->kv_heads) * c->d},
                  o_dim[] = {*n, c->heads * c->d};
    int32_t positions[MAX_TOKENS];
    OK(backend_open(r.a, name, opts, &r.b));
    if (opts->plugin) pjrt_lowering(r.b)->cudnn.documents = c->way;
    graph *g = graph_new(r.a, "attention");
    r.qkv = graph_state(g, TENSOR_INPUT, "qkv", dt, 2, qkv_dim);
    r.d_o = graph_state(g, TENSOR_INPUT, "do", dt, 2, o_dim);
    tensor *position = graph_state(g, TENSOR_INPUT, "position", DT_I32, 1, n),
           *hidden =
                   c->hidden ? graph_state(g, TENSOR_INPUT, "hidden", DT_I32, 1, hidden_dim) : NULL;
    const node *f = graph_add(g, OP_attention, hidden ? 3 : 2,
            (tensor *[]){r.qkv, position, hidden}, &attrs);
    tensor *in[] = {r.d_o, r.qkv, f->out[0], f->out[1], position, hidden};
    r.o = f->out[0];
    r.dqkv = graph_add(g, OP_attention_grad, hidden ? 6 : 5, in, &attrs)->out[0];
    graph_output(g, r.o, "o");
    graph_output(g, r.dqkv, "dqkv");
    OK(backend_compile(r.a, r.b, g, NULL, &r.program));
    set_positions(c, positions);
    OK(backend_write(r.b, "position", 0, *n * (int64_t)sizeof *positions, positions));
    if (hidden) OK(backend_write(r.b, "hidden", 0, sizeof pairs_hidden, c->hidden));
    write_values(r.b, r.qkv, 1);
    write_values(r.b, r.d_o, 2);
    OK(backend_run(r.b, r.program));
    return r;
}

static void run_close(attention_run *r) {
    backend_close(r->b);
    arena_free(r->a);
}

static double *values_of(const attention_run *r, const tensor *t) {
    double *x = ARENA_ARRAY(r->a, double, tensor_elements(t));
    for (int64_t k = 0; k < tensor_elements(t); k++)
        x[k] = element_read(r->b, t, k);
    return x;
}

static const rows_case cases[] = {{"one document", {2, 16, 4, 2, 8}, .causal = true},
        {"a window of one", {2, 16, 4, 1, 8}, .causal = true, .window = 5, .lengths = {16, 16}},
        {"a mask", {2, 16, 4, 2, 8}, .lengths = {3, 12, 1, 9, 7}},
        {"a mask, heads of other ranks", {2, 16, 4, 1, 8}, .lengths = {3, 13, 16}, .wide = true},
        {"a mask of an odd row", {2, 15, 2, 2, 16}, .lengths = {3, 12, 9, 6}},
        {"a masked window", {2, 16, 4, 2, 8}, .lengths = {11, 5, 16}, .window = 4},
        {"pairs", {2, 16, 4, 2, 8}, .hidden = pairs_hidden},
        {"pairs in a window", {2, 16, 2, 1, 8}, .hidden = pairs_hidden, .window = 4},
        {"segments", {2, 16, 4, 4, 8}, .lengths = {3, 12, 1, 9, 7}, .documents = 4,
                .way = DOCUMENTS_SEGMENTS},
        {"segments, grouped", {3, 16, 4, 1, 8}, .lengths = {16, 9, 7, 1, 14, 1}, .documents = 4,
                .way = DOCUMENTS_SEGMENTS},
        {"segments of an odd row, all taken", {2, 15, 4, 2, 8}, .lengths = {1, 13, 1, 5, 5, 5},
                .documents = 3, .way = DOCUMENTS_SEGMENTS}};
enum { N_CASES = sizeof cases / sizeof *cases };

// bf16 rounds o, which the gradient reads, and the results: a few times 2^-9.
static void attention_is_that_of_the_cpu(void **state) {
    const double bound = 0x1p-7;
    for (int i = 0; i < N_CASES; i++) {
        attention_run got = run_open(&cases[i], "pjrt", *state, DT_BF16);
        setenv("DROVER_CPU", "ref", 1);
        attention_run want = run_open(&cases[i], "cpu", &(backend_opts){0}, DT_F64);
        unsetenv("DROVER_CPU");
        const tensor *pairs[][2] = {{got.o, want.o}, {got.dqkv, want.dqkv}};
        for (int k = 0; k < 2; k++) {
            const double error = relative_error(values_of(&got, pairs[k][0]),
                    values_of(&want, pairs[k][1]), tensor_elements(pairs[k][0]));
            if (!(error < bound))
                fail_msg("%s: %s differs by %g, bound %g", cases[i].name, k ? "gradient" : "output",
                        error, bound);
        }
        run_close(&got);
        run_close(&want);
    }
}

// Another first document changes no bit of the others, in either direction.
static void documents_do_not_see_each_other(void **state) {
    for (int i = 0; i < N_CASES; i++) {
        const rows_case *c = &cases[i];
        if (c->causal || c->hidden) continue;
        attention_run r = run_open(c, "pjrt", *state, DT_BF16);
        const double *o = values_of(&r, r.o), *dqkv = values_of(&r, r.dqkv);
        for (int64_t k = 0; k < c->lengths[0] * r.qkv->dim[1]; k++)
            element_write(r.b, r.qkv, k, -0.5);
        for (int64_t k = 0; k < c->lengths[0] * r.d_o->dim[1]; k++)
            element_write(r.b, r.d_o, k, 0.25);
        OK(backend_run(r.b, r.program));
        const double *changed[] = {values_of(&r, r.o), values_of(&r, r.dqkv)}, *was[] = {o, dqkv};
        const tensor *of[] = {r.o, r.dqkv};
        for (int k = 0; k < 2; k++) {
            const int64_t first = c->lengths[0] * of[k]->dim[1], n = tensor_elements(of[k]);
            assert_memory_not_equal(changed[k], was[k], sizeof(double) * (size_t)first);
            if (memcmp(changed[k] + first, was[k] + first, sizeof(double) * (size_t)(n - first)) !=
                    0)
                fail_msg("%s: another first document changed %s of the second", c->name,
                        k ? "the gradient" : "the output");
        }
        run_close(&r);
    }
}

// As XLA could not: a program whose calls say another thing than its flags is not compiled.
static void calls_and_flags_agree(void **state) {
    arena *a = arena_new("disagreement");
    const backend_opts *opts = *state;
    backend *b;
    executable *program;
    OK(backend_open(a, "pjrt", opts, &b));
    pjrt_lowering(b)->cudnn.deterministic = false;
    const op_attrs attrs = {.heads = {1, 1, 8}, .attention.seq = 4, .attention.causal = true};
    graph *g = graph_new(a, "attention");
    tensor *in[] = {graph_state(g, TENSOR_INPUT, "qkv", DT_BF16, 2, (int64_t[]){4, 24}),
            graph_state(g, TENSOR_INPUT, "position", DT_I32, 1, (int64_t[]){4})};
    graph_output(g, graph_add(g, OP_attention, 2, in, &attrs)->out[0], "o");
    FAILS(backend_compile(a, b, g, NULL, &program), DRV_E_DEVICE, "disagree");
    backend_close(b);
    arena_free(a);
}

// The stand-in finds the plugin for processors, and drover the tools of CUDA's compiler.
static bool prepare(arena *a) {
    const char *name, *path, *tools = path_join(a, temporary_dir(a), "tools");
    if (plugin_find(a, "cpu", &name, &path) != DRV_OK) return false;
    print_message("reads %s, outside the tree\n", path);
    OK(dir_make(path_join(a, tools, "bin")));
    OK(dir_make(path_join(a, tools, "nvvm/libdevice")));
    OK(file_write_atomic(path_join(a, tools, "bin/ptxas"), "", 0));
    OK(file_write_atomic(path_join(a, tools, "nvvm/libdevice/libdevice.10.bc"), "", 0));
    return setenv("STAND_IN_FOR", path, 1) == 0 && setenv("CUDA_HOME", tools, 1) == 0;
}

int main(void) {
    enum { SKIPPED = 77 };
    arena *a = arena_new("plugin");
    backend_opts opts = {.plugin = STAND_IN, .cache_dir = "none"};
    if (!prepare(a)) {
        fprintf(stderr, "left out: %s\n", drv_message());
        return SKIPPED;
    }
    par_set_threads(2);
    fill_pairs();
    OK(device_pool_open(a, &opts, 1, &opts.pool));
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(attention_is_that_of_the_cpu,
                                               &opts),
            cmocka_unit_test_prestate(documents_do_not_see_each_other, &opts),
            cmocka_unit_test_prestate(calls_and_flags_agree, &opts)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_pool_close(opts.pool);
    arena_free(a);
    return failed;
}
