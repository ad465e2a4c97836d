// Graphs: what the verifier refuses, that the text tells any two graphs apart, names, pruning.
#include "harness.h"

#include <math.h>

// --- the verifier, on small graphs that are wrong in one way each
typedef struct wrong_graph {
    const char *name;
    void (*build)(graph *g, tensor *x, tensor *acc); // x f32[4,8], acc f32[8,8], both state
    graph_stage stage;
    const char *message;
} wrong_graph;

// acc + x^T x, in place.
static tensor *update(graph *g, tensor *x, tensor *acc) {
    return graph_add(g, OP_matmul, 3, (tensor *[]){x, x, acc}, &(op_attrs){.matmul.ta = 1})->out[0];
}

static tensor *sum(graph *g, tensor *a, tensor *b) {
    return graph_add(g, OP_add, 2, (tensor *[]){a, b}, NULL)->out[0];
}

static tensor *barrier(graph *g, tensor *t, tensor *dep) {
    return graph_add(g, OP_barrier, 2, (tensor *[]){t, dep}, NULL)->out[0];
}

static void other_shape(graph *g, tensor *x, tensor *acc) {
    (void)acc;
    sum(g, x, x)->dim[1] = 9;
}

static void use_before_definition(graph *g, tensor *x, tensor *acc) {
    (void)acc;
    sum(g, sum(g, x, x), x);
    node *first = g->nodes[0];
    g->nodes[0] = g->nodes[1];
    g->nodes[1] = first;
}

static void read_overwritten_state(graph *g, tensor *x, tensor *acc) {
    update(g, x, acc);
    sum(g, acc, acc);
}

static void read_oldest_of_chain(graph *g, tensor *x, tensor *acc) {
    update(g, x, update(g, x, acc));
    sum(g, acc, acc);
}

static void read_middle_of_chain(graph *g, tensor *x, tensor *acc) {
    tensor *middle = update(g, x, acc);
    update(g, x, middle);
    sum(g, middle, middle);
}

static void update_twice_from_one_value(graph *g, tensor *x, tensor *acc) {
    update(g, x, acc);
    update(g, x, acc);
}

static void read_behind_a_barrier(graph *g, tensor *x, tensor *acc) {
    tensor *same = barrier(g, acc, x);
    update(g, x, acc);
    sum(g, same, same);
}

static void update_through_a_barrier(graph *g, tensor *x, tensor *acc) {
    update(g, x, barrier(g, barrier(g, acc, x), x));
    sum(g, acc, acc);
}

// By another value of the same storage.
static void overwrite_what_is_read(graph *g, tensor *x, tensor *acc) {
    tensor *same = barrier(g, acc, x);
    graph_add(g, OP_matmul, 3, (tensor *[]){same, same, acc}, NULL);
}

static void backward_op_too_early(graph *g, tensor *x, tensor *acc) {
    (void)acc;
    tensor *dy = graph_state(g, TENSOR_INPUT, "dy", DT_F32, 2, (int64_t[]){4, 4});
    graph_add(g, OP_swiglu_grad, 2, (tensor *[]){dy, x}, NULL);
}

static void foreign_attribute(graph *g, tensor *x, tensor *acc) {
    (void)acc;
    sum(g, x, x)->def->attrs.norm.eps = 1e-5;
}

static void foreign_alias(graph *g, tensor *x, tensor *acc) {
    (void)acc;
    sum(g, x, x)->alias = x;
}

static const wrong_graph wrong_graphs[] = {
        {"other_shape", other_shape, STAGE_BUILT, "outputs do not follow"},
        {"use_before_definition", use_before_definition, STAGE_BUILT, "before it is defined"},
        {"read_overwritten_state", read_overwritten_state, STAGE_BUILT, "has overwritten"},
        {"read_oldest_of_chain", read_oldest_of_chain, STAGE_BUILT, "node 1 has overwritten"},
        {"read_middle_of_chain", read_middle_of_chain, STAGE_BUILT, "node 1 has overwritten"},
        {"update_twice", update_twice_from_one_value, STAGE_BUILT, "has overwritten"},
        {"read_behind_a_barrier", read_behind_a_barrier, STAGE_DIFFERENTIATED, "has overwritten"},
        {"update_through_a_barrier", update_through_a_barrier, STAGE_DIFFERENTIATED,
                "node 2 has overwritten"},
        {"overwrite_what_is_read", overwrite_what_is_read, STAGE_DIFFERENTIATED,
                "reads its storage twice"},
        {"backward_op_too_early", backward_op_too_early, STAGE_BUILT,
                "not allowed in a graph that is built"},
        {"foreign_attribute", foreign_attribute, STAGE_BUILT, "does not list"},
        {"foreign_alias", foreign_alias, STAGE_BUILT, "outputs do not follow"},
};

static graph *new_graph(arena *a, const char *name, tensor **x, tensor **acc) {
    graph *g = graph_new(a, name);
    *x = graph_state(g, TENSOR_WEIGHT, "x", DT_F32, 2, (int64_t[]){4, 8});
    *acc = graph_state(g, TENSOR_GRAD, "acc", DT_F32, 2, (int64_t[]){8, 8});
    return g;
}

TEST(verifier_refuses) {
    for (size_t i = 0; i < sizeof wrong_graphs / sizeof *wrong_graphs; i++) {
        const wrong_graph *wrong = &wrong_graphs[i];
        tensor *x, *acc;
        graph *g = new_graph(a, wrong->name, &x, &acc);
        wrong->build(g, x, acc);
        g->stage = wrong->stage;
        if (graph_verify(g, wrong->stage) == DRV_OK) fail_msg("%s is accepted", wrong->name);
        FAILS(graph_verify(g, wrong->stage), DRV_E_DATA, wrong->message);
    }
}

// Chains of updates, each from the newest value, with renamings of it that are read in time.
TEST(verifier_accepts_chains) {
    tensor *x, *acc;
    graph *g = new_graph(a, "chain", &x, &acc);
    tensor *same = barrier(g, acc, x);
    sum(g, same, acc);
    tensor *newer = update(g, x, same);
    sum(g, newer, newer);
    tensor *newest = barrier(g, update(g, x, newer), x);
    sum(g, newest, newest->alias);
    g->stage = STAGE_DIFFERENTIATED;
    OK(graph_verify(g, STAGE_DIFFERENTIATED));
}

// --- the text
static void print(const graph *g, str *text) {
    str_clear(text);
    graph_print(g, text);
}

// The smallest step away from a value.
static void change(op_attrs *attrs, const op_attr *field) {
    void *value = (char *)attrs + field->offset;
    if (field->kind == ATTR_DOUBLE)
        *(double *)value = nextafter(*(double *)value, HUGE_VAL);
    else if (field->kind == ATTR_DTYPE)
        *(dtype *)value = *(dtype *)value == DT_F32 ? DT_F64 : DT_F32;
    else
        *(int *)value += 1;
}

// Returns the family whose attributes a row has, the first one where it has none, and checks that
// it has those of no other one and no name twice.
static op_attr_group family_of(op_kind op) {
    op_attr_group family = ATTRS_low_rank;
    bool found = false;
    for (const op_attr *attr = op_rows[op]->attrs; attr && attr->name; attr++) {
        for (const op_attr *before = op_rows[op]->attrs; before < attr; before++)
            assert_string_not_equal(before->name, attr->name);
        if (attr->group < ATTRS_low_rank) continue;
        assert_true(!found || attr->group == family);
        family = attr->group;
        found = true;
    }
    return family;
}

static void change_each_attribute(op_kind op, int which) {
    arena *a = arena_new("text");
    str before = {0}, after = {0};
    example shown = {.g = graph_new(a, "g"), .dt = DT_F32};
    example_make(&shown, op, which);
    node *last = shown.g->nodes[shown.g->n_nodes - 1];
    shown.g->stage = STAGE_DIFFERENTIATED;
    const op_attrs attrs = last->attrs;
    for (const op_attr *attr = op_attr_table; attr->name; attr++) {
        if (attr->group >= ATTRS_low_rank && attr->group != family_of(op)) continue;
        print(shown.g, &before);
        change(&last->attrs, attr);
        print(shown.g, &after);
        if (op_reads(op, attr)) {
            if (strcmp(before.p, after.p) == 0)
                fail_msg("%s: another %s, the same text:\n%s", op_name(op), attr->name, after.p);
        } else {
            FAILS(graph_verify(shown.g, STAGE_DIFFERENTIATED), DRV_E_DATA, "does not list");
        }
        last->attrs = attrs;
    }
    str_free(&before);
    str_free(&after);
    arena_free(a);
}

TEST(the_text_is_an_identity) {
    for (int op = 0; op < N_OPS; op++)
        for (int which = 0; which < n_examples((op_kind)op); which++)
            change_each_attribute((op_kind)op, which);
}

// Sums over ranks that no node names (of norms, along the pipeline) are read from the mesh.
TEST(ranks_and_blocks_print) {
    str text = {0};
    tensor *x, *acc;
    graph *g = new_graph(a, "g", &x, &acc);
    print(g, &text);
    assert_memory_equal(text.p, "graph g {\n", 10);
    g->row_blocks = 2;
    print(g, &text);
    assert_memory_equal(text.p, "graph g on 2 reduction blocks of a row {\n", 31);
    g->mesh = (mesh){.size = {3, 1, 2, 4}};
    print(g, &text);
    const char *want =
            "graph g on pipeline 3, context 2, tensor 4, 2 reduction blocks of a row {\n";
    assert_memory_equal(text.p, want, strlen(want));
    str_free(&text);
}

TEST(frozen_weights_print) {
    str text = {0};
    tensor *x, *acc;
    graph *g = new_graph(a, "g", &x, &acc);
    print(g, &text);
    assert_null(strstr(text.p, "frozen"));
    x->trainable = false;
    print(g, &text);
    assert_non_null(strstr(text.p, "weight x f32[4,8] frozen\n"));
    str_free(&text);
}

// --- names and pruning
TEST(names_are_found) {
    graph *g = graph_new(a, "g");
    enum { N = 5000 };
    for (int i = 0; i < N; i++)
        graph_state(g, TENSOR_INPUT, arena_printf(a, "t%d", i), DT_F32, 1, (int64_t[]){1 + i});
    for (int i = 0; i < N; i++)
        assert_int_equal(graph_find(g, arena_printf(a, "t%d", i))->dim[0], 1 + i);
    assert_null(graph_find(g, "t"));
    tensor *in[] = {g->tensors[7], g->tensors[7]};
    tensor *first = graph_add(g, OP_add, 2, in, NULL)->out[0],
           *second = graph_add(g, OP_add, 2, in, NULL)->out[0];
    graph_output(g, first, "y");
    assert_ptr_equal(graph_find(g, "y"), first);
    graph_move_output(g, first, second);
    assert_ptr_equal(graph_find(g, "y"), second);
    assert_true(!first->name && first->cls == TENSOR_TEMP && second->cls == TENSOR_OUTPUT);
}

// Updates of state stay, renamings of state that nobody reads do not.
TEST(pruning_keeps_what_has_an_effect) {
    tensor *x, *acc;
    graph *g = new_graph(a, "g", &x, &acc);
    barrier(g, x, acc);
    sum(g, x, x);
    update(g, barrier(g, x, acc), acc);
    graph_output(g, sum(g, x, x), "y");
    graph_prune(g);
    static const op_kind left[] = {OP_barrier, OP_matmul, OP_add};
    assert_int_equal(g->n_nodes, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(g->nodes[i]->op, left[i]);
}
