// Plans by their properties, and every preset without allocating a weight.
#include "harness.h"

#include "ir/op.h"

static int64_t no_workspace(void *ctx, const node *n) {
    (void)ctx;
    return n->op == OP_attention ? 1000 : 0;
}

// No two temporaries that live at the same time overlap, unless they share storage.
static void check_plan(const plan *p) {
    const graph *g = p->g;
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->cls != TENSOR_TEMP || p->first[i] < 0 || p->storage[i] != t) continue;
        assert_true(p->offset[i] >= 0 && p->offset[i] % PLAN_ALIGN == 0);
        assert_true(p->offset[i] + tensor_bytes(t) <= p->arena_bytes);
        for (int k = 0; k < i; k++) {
            const tensor *u = g->tensors[k];
            if (u->cls != TENSOR_TEMP || p->first[k] < 0 || p->storage[k] != u) continue;
            const bool together = p->first[i] <= p->last[k] && p->first[k] <= p->last[i];
            const bool overlap = p->offset[i] < p->offset[k] + tensor_bytes(u) &&
                                 p->offset[k] < p->offset[i] + tensor_bytes(t);
            if (together && overlap) fail_msg("%%%d and %%%d overlap", i, k);
        }
    }
}

// Runs the plan on paper: each read must find the value that was last written there.
static void check_values(const plan *p) {
    const graph *g = p->g;
    const tensor **owner =
            calloc((size_t)g->n_tensors, sizeof *owner); // by storage: value that it holds
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            const tensor *t = n->in[k], *root = p->storage[t->id];
            if (!t->def) continue;
            const tensor *held = owner[root->id];
            while (held && held != t && held->alias && held->def->op == OP_barrier)
                held = held->alias;
            if (held != t && owner[root->id] != t)
                fail_msg("node %d reads %%%d, but its place holds %%%d", i, t->id,
                        held ? held->id : -1);
        }
        for (int o = 0; o < n->n_out; o++)
            owner[p->storage[n->out[o]->id]->id] = n->out[o];
    }
    free(owner);
}

static void plans_hold(void **state) {
    (void)state;
    static const char *const modes[] = {"none", "selective", "full"};
    int64_t arena_bytes[3];
    for (int m = 0; m < 3; m++) {
        arena *a = arena_new("plan");
        const char *sets[] = {"model.preset=llama-15m", "data.sequence_length=512",
                arena_printf(a, "training.recompute=%s", modes[m])};
        run_config c;
        programs p;
        OK(config_from_sets(a, sets, 3, &c));
        OK(programs_build(a, &c, &p));
        graph *graphs[] = {p.step_graph, p.update_graph, p.eval_graph};
        for (int i = 0; i < 3; i++) {
            plan *made = plan_make(a, graphs[i], no_workspace, NULL);
            check_plan(made);
            check_values(made);
            if (i == 0) arena_bytes[m] = made->arena_bytes;
        }
        arena_free(a);
    }
    assert_true(arena_bytes[1] < arena_bytes[0]);
    assert_true(arena_bytes[2] < arena_bytes[1]);
}

// Parameters of the published models, in millions.
static void presets(void **state) {
    (void)state;
    static const double millions[] = {6738.415616, 13015.86432, 68976.648192, 8030.261248,
            70553.706496, 8030.261248, 70553.706496, 405853.388800, 134.515008, 15.191712, 0};
    for (int i = 0; i < n_model_presets; i++) {
        arena *a = arena_new("preset");
        const char *sets[] = {arena_printf(a, "model.preset=%s", model_preset_names[i]),
                "data.sequence_length=512"};
        run_config c;
        programs p;
        backend *b;
        OK(config_from_sets(a, sets, 2, &c));
        if (millions[i] > 0)
            assert_true(model_parameters(&c.model) == (int64_t)(millions[i] * 1e6 + 0.5));
        OK(backend_open(a, "null", &b));
        OK(programs_build(a, &c, &p));
        OK(programs_load(a, b, &p));
        memory_plan m = programs_memory(&p);
        const int64_t n = model_parameters(&c.model);
        // bf16 weights, fp32 gradients, master and two moments; norms have no copy.
        assert_true(m.gradients == 4 * n);
        assert_true(m.weights > 2 * n - 1 && m.weights < 2 * n + n / 50);
        assert_true(m.optimizer > 12 * n - n / 50 && m.optimizer <= 12 * n);
        // FLOPs of the graph are those of the formula, 6 a weight and the causal half of attention.
        double want =
                model_flops_per_token(&c.model, c.sequence_length) * (double)c.sequence_length;
        assert_true(p.step_plan->flops > 0.9999 * want && p.step_plan->flops < 1.0001 * want);
        arena_free(a);
    }
}

static void the_text_is_stable(void **state) {
    (void)state;
    str text[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        arena *a = arena_new("text");
        run_config c;
        programs p;
        OK(config_from_sets(a, (const char *[]){"model.preset=tiny", "data.sequence_length=16"}, 2,
                &c));
        OK(programs_build(a, &c, &p));
        graph_print(p.step_graph, &text[i]);
        arena_free(a);
    }
    assert_string_equal(text[0].p, text[1].p);
    assert_non_null(strstr(text[0].p, "linear_cross_entropy_grad("));
    assert_non_null(strstr(text[0].p, "{n_heads 8, n_kv_heads 4, head_dim 8, seq 16}"));
    str_free(&text[0]);
    str_free(&text[1]);
}

int main(void) {
    par_set_threads(2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_hold), cmocka_unit_test(presets),
            cmocka_unit_test(the_text_is_stable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
