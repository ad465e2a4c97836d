// Attention of rows that several ranks share: a ring of threads against one rank that computes in
// double; the same bits on any number of ranks for one number of reduction blocks, of the row and
// of the query heads of a group, which tensor ranks may share; the bytes on the wire.
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

// Reduction blocks first, first - 1, .. around; or rising.
static const char *sum_of(char (*text)[512], int n, int first, int step) {
    ring_tree t = {.n_blocks = n, .n_slots = ring_tree_slots(n, 1), .join = write_sum, .ctx = text};
    for (int i = 0; i < n; i++) {
        const int block = (first + n + step * i) % n, slot = ring_tree_take(&t);
        snprintf(text[slot], sizeof *text, "%d", block);
        ring_tree_add(&t, (block_run){block, block + 1}, slot);
    }
    return text[ring_tree_result(&t)];
}

TEST(a_tree_does_not_depend_on_the_order) {
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

enum { N_RESULTS = 2, MAX_REPLICAS = 4 }; // o, dqkv
typedef struct ring_run {
    const ring_case *c;
    dtype dt;
    int ranks, blocks_here;
    int blocks, replicas; // of the heads of a group, in all; tensor ranks that share one. 0: one
    double *result[N_RESULTS]; // by row, token in the row, column
} ring_run;

static int64_t columns(const ring_case *c, int result) {
    return (int64_t)(c->n_heads + (result ? 2 * c->n_kv_heads : 0)) * c->head_dim;
}

static int replicas_of(const ring_run *run) {
    return run->replicas ? run->replicas : 1;
}

// Those of a rank; and of them one among those of all: it has some of the queries.
static int64_t columns_here(const ring_run *run, int result) {
    return columns(run->c, result) -
           (int64_t)run->c->n_heads * run->c->head_dim / replicas_of(run) * (replicas_of(run) - 1);
}
static int64_t column_of(const ring_run *run, int place, int64_t column) {
    const int64_t all = (int64_t)run->c->n_heads * run->c->head_dim, here = all / replicas_of(run);
    return column < here ? place * here + column : column - here + all;
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

static nodes build(arena *a, const ring_run *run, const mesh *ranks) {
    const ring_case *shape = run->c;
    const int64_t n_tokens = shape->rows * shape->tokens / run->ranks;
    nodes made = {.g = graph_new(a, "ring")};
    const op_attrs attrs = {.heads = {shape->n_heads / replicas_of(run), shape->n_kv_heads,
                                    shape->head_dim},
            .attention.seq = (int)(shape->tokens / run->ranks),
            .mesh.axis = run->ranks > 1 ? AXIS_CONTEXT : 0,
            .mesh.ranks = run->ranks > 1 ? run->ranks : 0,
            .sum.row_blocks = run->blocks_here > 1 ? run->blocks_here : 0,
            .sum.blocks = run->blocks / replicas_of(run),
            .mesh.replicas = run->replicas};
    made.g->mesh = *ranks;
    made.qkv = graph_state(made.g, TENSOR_INPUT, "qkv", run->dt, 2,
            (int64_t[]){n_tokens, columns_here(run, 1)});
    made.d_o = graph_state(made.g, TENSOR_INPUT, "do", run->dt, 2,
            (int64_t[]){n_tokens, columns_here(run, 0)});
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

// A token that a rank has: its place among them, its row, its place in the row; the place of the
// rank among the tensor ranks.
typedef struct token_place {
    int64_t at, row, t;
    int tensor;
} token_place;
typedef void token_fn(backend *b, const nodes *x, ring_run *r, const token_place *p);
static void each_token(backend *b, const nodes *x, ring_run *r, const mesh *m, int rank,
        token_fn *fn) {
    const int place = mesh_place(m, rank, AXIS_CONTEXT);
    const zigzag cut = {r->ranks, r->blocks_here, r->c->tokens};
    const int64_t u = zigzag_chunk_tokens(&cut);
    const bool whole = r->ranks * r->blocks_here == 1;
    for (int64_t row = 0; row < r->c->rows; row++)
        for (int i = 0; i < zigzag_chunks(&cut); i++)
            for (int64_t t = 0; t < u; t++) {
                const int64_t in_row = zigzag_chunk(&cut, place, i) * u + t;
                const token_place p = {whole ? row * r->c->tokens + in_row
                                             : zigzag_token(&cut, r->c->rows, row, i) + t,
                        row, in_row, mesh_place(m, rank, AXIS_TENSOR)};
                fn(b, x, r, &p);
            }
}

static void write_token(backend *b, const nodes *x, ring_run *r, const token_place *p) {
    const ring_case *c = r->c;
    tensor *const in[] = {x->d_o, x->qkv};
    element_write(b, x->position, p->at, (double)(p->t % c->document));
    for (int k = 0; k < N_RESULTS; k++)
        for (int64_t j = 0; j < columns_here(r, k); j++) {
            double value = value_at((uint64_t)k + 3, c, p->row, p->t, column_of(r, p->tensor, j),
                    columns(c, k));
            if (r->dt == DT_F64) value = (double)bf16_to_f32(f32_to_bf16((float)value));
            if (r->dt == DT_F32) value = (double)bf16_to_f32(f32_to_bf16((float)value));
            element_write(b, in[k], p->at * columns_here(r, k) + j, value);
        }
}

// What several ranks have is the same on all.
static void read_token(backend *b, const nodes *x, ring_run *r, const token_place *p) {
    for (int k = 0; k < N_RESULTS; k++) {
        const int64_t width = columns_here(r, k);
        for (int64_t j = 0; j < width; j++) {
            double *to = &r->result[k][(p->row * r->c->tokens + p->t) * columns(r->c, k) +
                                       column_of(r, p->tensor, j)];
            const double value = element_read(b, x->out[k], p->at * width + j);
            assert_true(isnan(*to) || *to == value);
            *to = value;
        }
    }
}

// All tensor ranks share the one head.
static comm_group *group_of(comm *self, const mesh *m, mesh_axis axis) {
    comm_group *along = comm_axes(self, m, 1u << axis);
    int ranks[MAX_REPLICAS];
    if (axis != AXIS_TENSOR) return along;
    for (int i = 0; i < group_size(along); i++)
        ranks[i] = group_rank(along, i);
    return comm_ranks(self, "replicas of a key-value head", ranks, group_size(along));
}

static drv_status run_on(comm *self, arena *a, ring_run *run) {
    const mesh ranks = {.size = {1, 1, run->ranks, replicas_of(run)}};
    static const mesh_axis axes[2] = {AXIS_CONTEXT, AXIS_TENSOR};
    int64_t before[2];
    backend *device;
    plan *planned;
    executable *program;
    DRV_TRY(backend_open_host(a, &device));
    backend_join(device, self, &ranks);
    const nodes x = build(a, run, &ranks);
    DRV_TRY(graph_verify(x.g, STAGE_DIFFERENTIATED));
    DRV_TRY(backend_compile(a, device, x.g, &planned, &program));
    DRV_TRY(backend_prepare(device));
    each_token(device, &x, run, &ranks, comm_rank(self), write_token);
    for (int i = 0; i < 2; i++)
        before[i] = comm_sent(group_of(self, &ranks, axes[i]));
    DRV_TRY(backend_run(device, program));
    for (int i = 0; i < 2; i++)
        EXPECT(self, (double)(comm_sent(group_of(self, &ranks, axes[i])) - before[i]) ==
                             planned->wire_bytes[axes[i]]);
    pthread_mutex_lock(&lock);
    each_token(device, &x, run, &ranks, comm_rank(self), read_token);
    pthread_mutex_unlock(&lock);
    backend_close(device);
    return DRV_OK;
}

static drv_status ring_rank(comm *self, void *ctx) {
    arena *a = arena_new("ring");
    const drv_status status = run_on(self, a, ctx);
    arena_free(a);
    return status;
}

static ring_run run_heads(const ring_case *c, dtype dt, int context, int blocks_here, int blocks,
        int replicas) {
    ring_run r = {.c = c,
            .dt = dt,
            .ranks = context,
            .blocks_here = blocks_here,
            .blocks = blocks,
            .replicas = replicas};
    const int ranks = r.ranks * replicas_of(&r);
    for (int k = 0; k < N_RESULTS; k++) {
        const int64_t n = r.c->rows * r.c->tokens * columns(r.c, k);
        r.result[k] = mem_zeroed(sizeof(double) * (size_t)n);
        for (int64_t i = 0; i < n; i++)
            r.result[k][i] = (double)NAN;
    }
    OK(comm_run_threads(ranks, ranks == 2 ? 2 : 1, NULL, ring_rank, &r));
    return r;
}

static ring_run run_ring(const ring_case *c, dtype dt, int ranks, int blocks_here) {
    return run_heads(c, dt, ranks, blocks_here, 0, 0);
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
            fail_msg("%s, %lld tokens, documents of %d, %d ranks x %d reduction blocks: %s differs by %.3g",
                    dtype_name(got->dt), (long long)got->c->tokens, got->c->document, got->ranks,
                    got->blocks_here, names[k], error);
    }
}

TEST(ranks_find_what_one_finds_in_double) {
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

static void expect_bits(const ring_run *want, ring_run got) {
    for (int k = 0; k < N_RESULTS; k++) {
        const int64_t n = want->c->rows * want->c->tokens * columns(want->c, k);
        for (int64_t i = 0; i < n; i++)
            if (got.result[k][i] != want->result[k][i])
                fail_msg("%s, %lld tokens, documents of %d, %d ranks x %d reduction blocks, %d replicas: "
                         "element %lld of %d is %.9g, expected %.9g",
                        dtype_name(got.dt), (long long)got.c->tokens, got.c->document, got.ranks,
                        got.blocks_here, got.replicas, (long long)i, k, got.result[k][i],
                        want->result[k][i]);
    }
    free_run(&got);
}

TEST(blocks_decide_the_bits) {
    static const int layouts[][2] = {{1, 8}, {2, 4}, {4, 2}};
    for (int i = 0; i < N_CASES; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const dtype dt = bf16 ? DT_BF16 : DT_F32;
            if (cases[i].tokens % (ZIGZAG_HALVES * 8)) continue;
            ring_run want = run_ring(&cases[i], dt, 8, 1);
            for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++)
                expect_bits(&want, run_ring(&cases[i], dt, layouts[k][0], layouts[k][1]));
            free_run(&want);
        }
}

// So do those of the heads of a group, whichever tensor ranks have them: every degree of both axes.
// Reduction blocks of one head, of two and of three; the last rank has one.
TEST(blocks_of_heads_decide_the_bits) {
    static const struct {
        ring_case of;
        int blocks;
    } heads[] = {{{64, 2, 8, 1, 8, 17}, 8}, {{64, 1, 8, 1, 12, 5}, 4}, {{160, 1, 12, 1, 4, 160}, 4},
            {{1040, 1, 4, 1, 32, 333}, 4}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const dtype dt = bf16 ? DT_BF16 : DT_F32;
            ring_run want = run_heads(&heads[i].of, dt, 1, 4, heads[i].blocks, 0),
                     exact = run_ring(&heads[i].of, DT_F64, 1, 1);
            expect_near(&want, &exact, bf16 ? 1e-2 : 3e-6);
            for (int replicas = 1; replicas <= MAX_REPLICAS; replicas *= 2)
                for (int ranks = replicas == 1 ? 2 : 1; ranks <= 4; ranks *= 2)
                    expect_bits(&want, run_heads(&heads[i].of, dt, ranks, 4 / ranks,
                                               heads[i].blocks, replicas));
            free_run(&want), free_run(&exact);
        }
}
