// Building, differentiating, recomputing, verifying and planning a graph take work in proportion to
// its layers. The work is counted, not timed: src/{ir,model,passes,plan} and programs/programs.c are
// compiled for this test with -fsanitize-coverage=trace-pc, which calls a function at every branch.
#include "harness.h"

static int64_t n_branches;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    n_branches++;
}

static int64_t some_workspace(void *ctx, const node *n) {
    (void)ctx;
    return n->op == OP_attention ? 1000 : 0;
}

typedef struct plan_cost {
    double branches, nodes;
    double probes_per_item; // of placing
} plan_cost;

static plan_cost cost_of(int n_layers, const char *recompute) {
    arena *a = arena_new("deep");
    run_config cfg;
    programs built;
    const char *sets[] = {"model.preset=tiny", "data.sequence_length=64",
            arena_printf(a, "model.num_hidden_layers=%d", n_layers), recompute};
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
    n_branches = 0;
    OK(programs_build(a, &cfg, &built));
    const plan *made = plan_make(a, built.step_graph, some_workspace, NULL);
    const plan_cost cost = {(double)n_branches, built.step_graph->n_nodes,
            (double)made->place_probes / built.step_graph->n_tensors};
    arena_free(a);
    return cost;
}

// From 128 to 1,024 layers a linear program does 8 times the work, a quadratic one up to 64 times.
// What placing looks at for an item grows by 10/7 (logarithms of the nodes), not by 8.
TEST(planning_is_not_quadratic) {
    static const char *const modes[] = {"training.recompute=none", "training.recompute=selective",
            "training.recompute=full"};
    for (int i = 0; i < 3; i++) {
        const plan_cost few = cost_of(128, modes[i]), many = cost_of(1024, modes[i]);
        print_message("%s: %.0f branches per node of 128 layers, %.0f of 1,024\n", modes[i],
                few.branches / few.nodes, many.branches / many.nodes);
        if (!(few.branches > 10 * few.nodes)) fail_msg("%s: nothing is counted", modes[i]);
        if (!(many.probes_per_item < 3 * few.probes_per_item))
            fail_msg("%s: %.1f looks per item for 128 layers, %.1f for 1,024", modes[i],
                    few.probes_per_item, many.probes_per_item);
        if (!(many.branches < 11 * few.branches))
            fail_msg("%s: %.4g branches for 128 layers, %.4g for 1,024", modes[i], few.branches,
                    many.branches);
    }
}
