// Attention of rows that several ranks share: a ring of threads against one rank that computes in
// double; the same bits on any number of ranks for one number of leaves; the bytes on the wire.
#include "ranks.h"

#include <math.h>
#include <pthread.h>

#include "backend/cpu/ring_tree.h"
#include "ir/zigzag.h"

// --- the tree
static void write_sum(void *ctx, int left, int right) {
    char(*text)[512] = ctx, both[1100];
    snprintf(both, sizeof both, "(%s+%s)", text[left], text[right]);
    assert_true(strlen(both) < sizeof *text);
    memcpy(text[left], both, strlen(both) + 1);
}

// Leaves first, first - 1, .. around; or rising.
static const char *sum_of(char (*text)[512], int n, int first, int step) {
    ring_tree t = {.n_leaves = n, .n_slots = ring_tree_slots(n, 1), .join = write_sum, .ctx = text};
    for (int i = 0; i < n; i++) {
        const int leaf = (first + n + step * i) % n, slot = ring_tree_take(&t);
        snprintf(text[slot], sizeof *text, "%d", leaf);
        ring_tree_add(&t, (leaf_run){leaf, leaf + 1}, slot);
    }
    return text[ring_tree_result(&t)];
}

static void a_tree_does_not_depend_on_the_order(void **state) {
    (void)state;
    static char text[RING_TREE_SLOTS][512];
    char want[512];
    assert_string_equal(sum_of(text, 6, 2, -1), "(((0+1)+(2+3))+(4+5))"); // as comm/join.h
    for (int n = 1; n <= 33; n++) {
        memcpy(want, sum_of(text, n, 0, 1), sizeof want);
        for (int first = 0; first < n; first++) {
            assert_string_equal(sum_of(text, n, first, 1), want);
            assert_string_equal(sum_of(text, n, first, -1), want);
        }
    }
}

// --- attention
typedef struct ring_case {
    int64_t tokens, rows; // of a row, in all; rows
    int n_heads, n_kv_heads, head_dim;
    int document; // tokens
} ring_case;

static const ring_case cases[] = {{16, 1, 1, 1, 2, 16}, // chunks of one token, one document
        {48, 3, 4, 2, 8, 11}, {160, 2, 6, 3, 16, 1000}, {1040, 1, 4, 2, 32, 333},
        {2064, 1, 2, 1, 16, 3}, {720, 2, 3, 3, 24, 700}};
enum { N_CASES = sizeof cases / sizeof *cases };

enum { N_RESULTS = 2 }; // o, dqkv
typedef struct ring_run {
    const ring_case *c;
    dtype dt;
    int ranks, lanes;
    double *result[N_RESULTS]; // by row, token in the row, column
} ring_run;

static int64_t columns(const ring_case *c, int result) {
    return (int64_t)(c->n_heads + (result ? 2 * c->n_kv_heads : 0)) * c->head_dim;
}

// Of token t of a row, in the order of the row.
static double value_at(uint64_t seed, const ring_case *c, int64_t row, int64_t t, int64_t column,
        int64_t width) {
    return 1.5 * noise(seed, (uint64_t)((row * c->tokens + t) * width + column));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct nodes {
    graph *g;
    tensor *qkv, *d_o, *position, *out[N_RESULTS];
} nodes;

static nodes build(arena *mem, const ring_run *run, const mesh *ranks) {
    const ring_case *shape = run->c;
    const int64_t n_tokens = shape->rows * shape->tokens / run->ranks;
    nodes made = {.g = graph_new(mem, "ring")};
    const op_attrs attrs = {.n_heads = shape->n_heads,
            .n_kv_heads = shape->n_kv_heads,
            .head_dim = shape->head_dim,
            .seq = (int)(shape->tokens / run->ranks),
            .axis = run->ranks > 1 ? AXIS_CONTEXT : 0,
            .ranks = run->ranks > 1 ? run->ranks : 0,
            .lanes = run->lanes > 1 ? run->lanes : 0};
    made.g->mesh = *ranks;
    made.qkv = graph_state(made.g, TENSOR_INPUT, "qkv", run->dt, 2,
            (int64_t[]){n_tokens, columns(shape, 1)});
    made.d_o = graph_state(made.g, TENSOR_INPUT, "do", run->dt, 2,
            (int64_t[]){n_tokens, columns(shape, 0)});
    made.position = graph_state(made.g, TENSOR_INPUT, "position", DT_I32, 1, &n_tokens);
    node *f = graph_add(made.g, OP_attention, 2, (tensor *[]){made.qkv, made.position}, &attrs);
    tensor *in[] = {made.d_o, made.qkv, f->out[0], f->out[1], made.position};
    made.out[0] = f->out[0];
    made.out[1] = graph_add(made.g, OP_attention_grad, 5, in, &attrs)->out[0];
    graph_output(made.g, made.out[0], "o");
    graph_output(made.g, made.out[1], "dqkv");
    made.g->stage = STAGE_DIFFERENTIATED;
    return made;
}

// Calls fn for each token that the rank has: its place among them, its row, its place in the row.
typedef void token_fn(backend *b, const nodes *x, ring_run *r, int64_t at, int64_t row, int64_t t);
static void each_token(backend *b, const nodes *x, ring_run *r, int place, token_fn *fn) {
    const zigzag cut = {r->ranks, r->lanes, r->c->tokens};
    const int64_t u = zigzag_chunk_tokens(&cut);
    const bool whole = r->ranks * r->lanes == 1;
    for (int64_t row = 0; row < r->c->rows; row++)
        for (int i = 0; i < zigzag_chunks(&cut); i++)
            for (int64_t t = 0; t < u; t++) {
                const int64_t in_row = zigzag_chunk(&cut, place, i) * u + t;
                fn(b, x, r,
                        whole ? row * r->c->tokens + in_row
                              : zigzag_token(&cut, r->c->rows, row, i) + t,
                        row, in_row);
            }
}

static void write_token(backend *b, const nodes *x, ring_run *r, int64_t at, int64_t row,
        int64_t t) {
    const ring_case *c = r->c;
    tensor *const in[] = {x->d_o, x->qkv};
    element_write(b, x->position, at, (double)(t % c->document));
    for (int k = 0; k < N_RESULTS; k++)
        for (int64_t j = 0; j < columns(c, k); j++) {
            double value = value_at((uint64_t)k + 3, c, row, t, j, columns(c, k));
            if (r->dt == DT_F64) value = (double)bf16_to_f32(f32_to_bf16((float)value));
            if (r->dt == DT_F32) value = (double)bf16_to_f32(f32_to_bf16((float)value));
            element_write(b, in[k], at * columns(c, k) + j, value);
        }
}

static void read_token(backend *b, const nodes *x, ring_run *r, int64_t at, int64_t row,
        int64_t t) {
    for (int k = 0; k < N_RESULTS; k++) {
        const int64_t width = columns(r->c, k);
        for (int64_t j = 0; j < width; j++)
            r->result[k][(row * r->c->tokens + t) * width + j] =
                    element_read(b, x->out[k], at * width + j);
    }
}

static drv_status run_on(comm *self, arena *mem, ring_run *run) {
    const mesh m = {{1, 1, run->ranks, 1}};
    backend *b;
    plan *planned;
    executable *program;
    DRV_TRY(backend_open(mem, "cpu", &b));
    backend_join(b, self, &m);
    const nodes x = build(mem, run, &m);
    DRV_TRY(graph_verify(x.g, STAGE_DIFFERENTIATED));
    DRV_TRY(backend_compile(mem, b, x.g, &planned, &program));
    DRV_TRY(backend_prepare(b));
    each_token(b, &x, run, comm_rank(self), write_token);
    comm_group *group = comm_axes(self, &m, 1u << AXIS_CONTEXT);
    const int64_t before = comm_sent(group);
    DRV_TRY(backend_run(b, program));
    EXPECT(self, (double)(comm_sent(group) - before) == planned->wire_bytes[AXIS_CONTEXT]);
    pthread_mutex_lock(&lock);
    each_token(b, &x, run, comm_rank(self), read_token);
    pthread_mutex_unlock(&lock);
    backend_close(b);
    return DRV_OK;
}

static drv_status ring_rank(comm *self, void *ctx) {
    arena *a = arena_new("ring");
    const drv_status status = run_on(self, a, ctx);
    arena_free(a);
    return status;
}

static ring_run run_ring(const ring_case *c, dtype dt, int ranks, int lanes) {
    ring_run r = {.c = c, .dt = dt, .ranks = ranks, .lanes = lanes};
    for (int k = 0; k < N_RESULTS; k++)
        r.result[k] = mem_zeroed(sizeof(double) * (size_t)(c->rows * c->tokens * columns(c, k)));
    OK(comm_run_threads(ranks, ranks == 2 ? 2 : 1, NULL, ring_rank, &r));
    return r;
}

static void free_run(ring_run *r) {
    for (int k = 0; k < N_RESULTS; k++)
        free(r->result[k]);
}

static void expect_near(const ring_run *got, const ring_run *want, double bound) {
    static const char *const names[N_RESULTS] = {"o", "dqkv"};
    for (int k = 0; k < N_RESULTS; k++) {
        const int64_t n = got->c->rows * got->c->tokens * columns(got->c, k);
        const double error = relative_error(got->result[k], want->result[k], n);
        if (!(error < bound))
            fail_msg("%s, %lld tokens, documents of %d, %d ranks x %d leaves: %s differs by %.3g",
                    dtype_name(got->dt), (long long)got->c->tokens, got->c->document, got->ranks,
                    got->lanes, names[k], error);
    }
}

static void ranks_find_what_one_finds_in_double(void **state) {
    (void)state;
    for (int i = 0; i < N_CASES; i++) {
        ring_run want = run_ring(&cases[i], DT_F64, 1, 1);
        for (int ranks = 2; ranks <= 8; ranks += ranks == 2 ? 1 : 5) // 2, 3, 8
            for (int bf16 = 0; bf16 < 2; bf16++) {
                if (cases[i].tokens % (ZIGZAG_HALVES * ranks)) continue;
                ring_run got = run_ring(&cases[i], bf16 ? DT_BF16 : DT_F32, ranks, 1);
                expect_near(&got, &want, bf16 ? 1e-2 : 3e-6);
                free_run(&got);
            }
        free_run(&want);
    }
}

static void expect_same(const ring_run *got, const ring_run *want, const ring_case *of) {
    for (int x = 0; x < N_RESULTS; x++)
        assert_memory_equal(got->result[x], want->result[x],
                sizeof(double) * (size_t)(of->rows * of->tokens * columns(of, x)));
}

static void leaves_decide_the_bits(void **state) {
    (void)state;
    static const int layouts[][2] = {{1, 8}, {2, 4}, {4, 2}};
    for (int i = 0; i < N_CASES; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const dtype dt = bf16 ? DT_BF16 : DT_F32;
            if (cases[i].tokens % (ZIGZAG_HALVES * 8)) continue;
            ring_run want = run_ring(&cases[i], dt, 8, 1);
            for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
                ring_run got = run_ring(&cases[i], dt, layouts[k][0], layouts[k][1]);
                expect_same(&got, &want, &cases[i]);
                free_run(&got);
            }
            free_run(&want);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_tree_does_not_depend_on_the_order),
            cmocka_unit_test(ranks_find_what_one_finds_in_double),
            cmocka_unit_test(leaves_decide_the_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
