// What a node of several partial sums adds to gradients (docs/adr/0026): the bits of the same op
// without the attribute, called once for each partial sum, one after the other; and, in double, the
// sum.
#include "harness.h"

#include <math.h>

#include "ir/token_sums.h"

enum { MAX_IN = 6 };

// How the tokens of an input are found: a row for each, a number for each, none (a weight), or a
// number for each sum of tokens (dloss).
typedef enum input_kind { BY_ROW, BY_TOKEN, WHOLE, BY_SUM, ACCUMULATOR } input_kind;

typedef struct op_input {
    const char *name;
    input_kind kind;
    dtype dt;
    int64_t rows, columns; // of WHOLE and ACCUMULATOR; columns 0: a vector
    double most;           // integers: ids below it; real numbers: their size
} op_input;

typedef struct partial_sums_case {
    const char *text;
    op_kind op;
    op_attrs attrs; // of the whole, with reduction blocks of the row and partial sums
    int64_t tokens; // of a partial sum
    op_input in[MAX_IN];
    int n_in, acc; // acc: the output that is the accumulator
} partial_sums_case;

typedef struct op_run {
    arena *a;
    backend *b;
    graph *g;
    node *n;
    executable *program;
} op_run;

static int64_t units(const partial_sums_case *c, bool whole) {
    return whole ? sums_of_tokens(&c->attrs) : 1;
}

static tensor *make_input(graph *g, const partial_sums_case *c, const op_input *in, bool whole) {
    const int64_t tokens = c->tokens * units(c, whole);
    const int row_blocks = whole ? row_blocks_of(&c->attrs) : 1;
    int64_t dim[3] = {row_blocks, in->rows, in->columns};
    if (in->kind == BY_ROW)
        return graph_state(g, TENSOR_INPUT, in->name, in->dt, 2, (int64_t[]){tokens, in->columns});
    if (in->kind == BY_TOKEN)
        return graph_state(g, TENSOR_INPUT, in->name, in->dt, 1, (int64_t[]){tokens});
    if (in->kind == BY_SUM)
        return graph_state(g, TENSOR_INPUT, in->name, DT_F64, 1, (int64_t[]){units(c, whole)});
    const bool outer = in->kind == ACCUMULATOR && row_blocks > 1;
    return graph_state(g, in->kind == WHOLE ? TENSOR_WEIGHT : TENSOR_GRAD, in->name, in->dt,
            (in->columns ? 2 : 1) + outer, outer ? dim : dim + 1);
}

static op_run run_open(const partial_sums_case *c, bool whole) {
    op_run r = {.a = arena_new("partial_sums")};
    tensor *in[MAX_IN];
    op_attrs attrs = c->attrs;
    OK(backend_open_host(r.a, &r.b));
    r.g = graph_new(r.a, whole ? "whole" : "one");
    for (int i = 0; i < c->n_in; i++)
        in[i] = make_input(r.g, c, &c->in[i], whole);
    if (!whole) attrs.sum.row_blocks = attrs.sum.partial_sums = 0;
    if (!whole && attrs.vocabulary.chunk > c->tokens) attrs.vocabulary.chunk = (int)c->tokens;
    r.n = graph_add(r.g, c->op, c->n_in, in, &attrs);
    for (int o = 0; o < r.n->n_out; o++)
        if (tensor_root(r.n->out[o])->cls == TENSOR_TEMP)
            graph_output(r.g, r.n->out[o], arena_printf(r.a, "out%d", o));
    r.g->stage = STAGE_DIFFERENTIATED;
    OK(graph_verify(r.g, STAGE_DIFFERENTIATED));
    OK(backend_compile(r.a, r.b, r.g, NULL, &r.program));
    OK(backend_prepare(r.b));
    return r;
}

static void run_close(op_run *r) {
    backend_close(r->b);
    arena_free(r->a);
}

// Element k of the whole input i.
static double value_of(const partial_sums_case *c, int i, int64_t k) {
    const double x = noise((uint64_t)i + 3, (uint64_t)k);
    if (c->in[i].kind == BY_SUM) return 1 + x / 2;
    if (c->in[i].dt == DT_I32) return floor((x + 1) / 2 * c->in[i].most) - (k % 7 == 3);
    return x * c->in[i].most;
}

// Elements of an input that a sum of tokens has, before those of the next.
static int64_t in_sum(const partial_sums_case *c, const op_input *in) {
    if (in->kind == BY_ROW) return c->tokens * in->columns;
    return in->kind == BY_TOKEN ? c->tokens : in->kind == BY_SUM ? 1 : 0;
}

// The inputs of the sum `unit`, or, below 0, of all.
static void fill(const op_run *r, const partial_sums_case *c, int64_t unit) {
    for (int i = 0; i < c->n_in; i++) {
        const tensor *t = r->n->in[i];
        if (unit >= 0 && c->in[i].kind == ACCUMULATOR) continue;
        for (int64_t k = 0; k < tensor_elements(t); k++)
            element_write(r->b, t, k,
                    value_of(c, i, k + (unit > 0 ? unit * in_sum(c, &c->in[i]) : 0)));
    }
}

static int accumulator_of(const partial_sums_case *c) {
    int i = 0;
    while (c->in[i].kind != ACCUMULATOR)
        i++;
    return i;
}

static void expect_part(const partial_sums_case *c, const op_run *all, const op_run *one, int o,
        int64_t part) {
    const int64_t n = tensor_elements(one->n->out[o]);
    for (int64_t k = 0; k < n; k++) {
        const double got = element_read(all->b, all->n->out[o], part * n + k),
                     want = element_read(one->b, one->n->out[o], k);
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("%s, %lld tokens: output %d, part %lld, element %lld: %a, expected %a",
                    c->text, (long long)c->tokens, o, (long long)part, (long long)k, got, want);
    }
}

static void begin_block(const partial_sums_case *c, const op_run *one, int64_t own_block) {
    const int acc = accumulator_of(c);
    const int64_t n = tensor_elements(one->n->in[acc]);
    for (int64_t k = 0; k < n; k++)
        element_write(one->b, one->n->in[acc], k, value_of(c, acc, own_block * n + k));
}

// Runs the op once for each sum of tokens, and compares what each gives and what they come to.
static void expect_chain(const partial_sums_case *c) {
    op_run all = run_open(c, true), one = run_open(c, false);
    const int partial_sums = partial_sums_of(&c->attrs);
    fill(&all, c, -1);
    OK(backend_run(all.b, all.program));
    for (int64_t unit = 0; unit < units(c, true); unit++) {
        const bool ends_accum_group = unit % partial_sums == partial_sums - 1;
        if (unit % partial_sums == 0) begin_block(c, &one, unit / partial_sums);
        fill(&one, c, unit);
        OK(backend_run(one.b, one.program));
        for (int o = 0; o < one.n->n_out; o++) {
            if (o != c->acc)
                expect_part(c, &all, &one, o, unit);
            else if (ends_accum_group)
                expect_part(c, &all, &one, o, unit / partial_sums);
        }
    }
    run_close(&one);
    run_close(&all);
}

// --- cases
enum { IN = 19, OUT = 70, VOCABULARY = 53 };

static partial_sums_case matmul_case(dtype dt) {
    return (partial_sums_case){.text = "matmul",
            .op = OP_matmul,
            .attrs = {.matmul.ta = 1},
            .in = {{"dy", BY_ROW, dt, 0, OUT, 1}, {"x", BY_ROW, dt, 0, IN, 1},
                    {"acc", ACCUMULATOR, DT_F32, OUT, IN, 1}},
            .n_in = 3};
}

static partial_sums_case low_rank_case(dtype dt) {
    return (partial_sums_case){.text = "lora_up_grad_b",
            .op = OP_lora_up_grad_b,
            .attrs = {.low_rank.branches[0].alpha = 0.7,
                    .low_rank.branches[0].column = 31,
                    .low_rank.from = 2},
            .in = {{"dy", BY_ROW, dt, 0, OUT, 1}, {"t", BY_ROW, dt, 0, 6, 1},
                    {"acc", ACCUMULATOR, DT_F32, 33, 4, 1}},
            .n_in = 3};
}

static partial_sums_case norm_case(dtype dt) {
    return (partial_sums_case){.text = "rmsnorm_grad",
            .op = OP_rmsnorm_grad,
            .attrs = {.norm.eps = 1e-5},
            .in = {{"dy", BY_ROW, dt, 0, IN, 1}, {"x", BY_ROW, dt, 0, IN, 1},
                    {"w", WHOLE, DT_F32, IN, 0, 1}, {"r", BY_TOKEN, DT_F32, 0, 0, 1},
                    {"acc", ACCUMULATOR, DT_F32, IN, 0, 1}},
            .n_in = 5,
            .acc = 1};
}

// Few rows, so that many tokens share one, within a partial sum and across.
static partial_sums_case embedding_case(dtype dt) {
    return (partial_sums_case){.text = "embedding_grad",
            .op = OP_embedding_grad,
            .in = {{"ids", BY_TOKEN, DT_I32, 0, 0, 5}, {"dx", BY_ROW, dt, 0, OUT, 1},
                    {"acc", ACCUMULATOR, DT_F32, 5, OUT, 1}},
            .n_in = 3};
}

static partial_sums_case loss_case(dtype dt) {
    return (partial_sums_case){.text = "linear_cross_entropy_grad",
            .op = OP_linear_cross_entropy_grad,
            .in = {{"h", BY_ROW, dt, 0, IN, 1}, {"w", WHOLE, dt, VOCABULARY, IN, 1},
                    {"labels", BY_TOKEN, DT_I32, 0, 0, VOCABULARY},
                    {"dloss", BY_SUM, DT_F64, 0, 0, 1},
                    {"acc", ACCUMULATOR, DT_F32, VOCABULARY, IN, 1}},
            .n_in = 5,
            .acc = 2};
}

// As many whole partial sums as a chunk of `most` rows holds, or part of one.
static void set_chunk(partial_sums_case *c, int most) {
    const int fit = (int)(most / c->tokens), partial_sums = partial_sums_of(&c->attrs);
    c->attrs.vocabulary.chunk =
            fit ? (int)c->tokens * (fit < partial_sums ? fit : partial_sums) : most;
    c->attrs.sum.apart = !fit;
}

typedef partial_sums_case (*make_case)(dtype dt);
static const make_case cases[] = {matmul_case, low_rank_case, norm_case, embedding_case, loss_case};
enum { N_CASES = sizeof cases / sizeof *cases };

// Of a partial sum: one, fewer than runs, odd, more than a chunk of logits and than a block of a
// product.
static const int64_t lengths[] = {1, 5, 37, 129, 600, 1601};

TEST(each_partial_sum_is_a_call) {
    static const struct {
        int row_blocks, partial_sums, blocks;
    } sums[] = {{0, 2, 0}, {0, 5, 0}, {2, 3, 0}, {0, 4, 4}, {2, 2, 3}};
    for (int dt = DT_F32; dt <= DT_BF16; dt++)
        for (int i = 0; i < N_CASES; i++)
            for (size_t s = 0; s < sizeof sums / sizeof *sums; s++)
                for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                    partial_sums_case c = cases[i]((dtype)dt);
                    if (sums[s].row_blocks && sums[s].blocks && lengths[l] > 600) continue;
                    c.attrs.sum.row_blocks = sums[s].row_blocks;
                    c.attrs.sum.partial_sums = sums[s].partial_sums;
                    c.tokens = lengths[l];
                    if (c.op != OP_embedding_grad && c.op != OP_linear_cross_entropy_grad)
                        c.attrs.sum.blocks = sums[s].blocks;
                    if (c.op == OP_linear_cross_entropy_grad) set_chunk(&c, 512);
                    expect_chain(&c);
                }
}

// A vocabulary in reduction blocks, and short chunks with a rest: one, two or three partial sums in
// each.
TEST(chunks_of_the_loss) {
    for (int dt = DT_F32; dt <= DT_BF16; dt++)
        for (int most = 16; most <= 130; most += 38)
            for (int blocks = 0; blocks <= 4; blocks += 4) {
                partial_sums_case c = loss_case((dtype)dt);
                c.attrs.sum.blocks = blocks;
                c.attrs.vocabulary.part = blocks ? 56 : 0;
                c.attrs.sum.row_blocks = most % 4 ? 2 : 0;
                c.attrs.sum.partial_sums = 5;
                c.tokens = 33;
                set_chunk(&c, most);
                expect_chain(&c);
            }
}

// What is frozen.
TEST(parts_of_the_loss) {
    partial_sums_case c = loss_case(DT_F32);
    c.attrs.vocabulary.skip_dx = 1;
    c.attrs.sum.partial_sums = 3;
    c.acc = 1;
    c.tokens = 21;
    set_chunk(&c, 50);
    expect_chain(&c);
}

// --- against double
// acc + sum over all tokens of dy^T x.
TEST(the_sum_is_right) {
    for (int dt = DT_F32; dt <= DT_BF16; dt++) {
        partial_sums_case c = matmul_case((dtype)dt);
        c.attrs.sum.partial_sums = 3;
        c.tokens = 67;
        op_run r = run_open(&c, true);
        static double got[OUT * IN], want[OUT * IN];
        fill(&r, &c, -1);
        for (int64_t i = 0; i < (int64_t)OUT * IN; i++) {
            want[i] = element_read(r.b, r.n->in[2], i);
            for (int64_t t = 0; t < 3 * c.tokens; t++)
                want[i] += element_read(r.b, r.n->in[0], t * OUT + i / IN) *
                           element_read(r.b, r.n->in[1], t * IN + i % IN);
        }
        OK(backend_run(r.b, r.program));
        for (int64_t i = 0; i < (int64_t)OUT * IN; i++)
            got[i] = element_read(r.b, r.n->out[0], i);
        // 201 products in fp32, whose operands are exact: sqrt(201) 2^-24 and some.
        const double error = relative_error(got, want, (int64_t)OUT * IN);
        if (!(error < 2e-6)) fail_msg("%s: relative error %.3g", dtype_name((dtype)dt), error);
        run_close(&r);
    }
}

// --- what is refused
static const char *refusal(op_kind op, int n_in, tensor *const *in, op_attrs attrs) {
    node n = {.op = op, .n_in = n_in, .attrs = attrs};
    tensor *copy[MAX_IN];
    tensor_spec out[MAX_OUT];
    int n_out;
    memcpy(copy, in, sizeof *in * (size_t)n_in);
    n.in = copy;
    return op_outputs(&n, out, &n_out);
}

TEST(what_does_not_divide) {
    for (int i = 0; i < N_CASES; i++) {
        partial_sums_case c = cases[i](DT_F32);
        graph *g = graph_new(a, "refused");
        tensor *in[MAX_IN];
        c.tokens = 20;
        if (c.op == OP_linear_cross_entropy_grad) c.attrs.vocabulary.chunk = 20;
        for (int k = 0; k < c.n_in; k++)
            in[k] = make_input(g, &c, &c.in[k], false);
        assert_null(refusal(c.op, c.n_in, in, c.attrs));
        c.attrs.sum.partial_sums = 3;
        assert_non_null(strstr(refusal(c.op, c.n_in, in, c.attrs), "must divide the tokens"));
    }
}

TEST(chunks_that_cut_partial_sums) {
    partial_sums_case c = loss_case(DT_F32);
    graph *g = graph_new(a, "refused");
    tensor *in[MAX_IN];
    c.attrs.sum.partial_sums = 4;
    c.tokens = 5;
    for (int k = 0; k < c.n_in; k++)
        in[k] = make_input(g, &c, &c.in[k], true);
    c.attrs.vocabulary.chunk = 10;
    assert_null(refusal(c.op, c.n_in, in, c.attrs));
    c.attrs.vocabulary.chunk = 12;
    assert_non_null(strstr(refusal(c.op, c.n_in, in, c.attrs), "whole partial sums"));
    c.attrs.vocabulary.chunk = 3;
    assert_non_null(strstr(refusal(c.op, c.n_in, in, c.attrs), "summed apart"));
    c.attrs.sum.apart = 1;
    assert_null(refusal(c.op, c.n_in, in, c.attrs));
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
