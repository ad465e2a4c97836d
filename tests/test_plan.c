// Plans by their properties, and every preset without allocating a weight.
#include "harness.h"

#include "ir/op.h"
#include "plan/place.h"

static int64_t some_workspace(void *ctx, const node *n) {
    (void)ctx;
    return n->op == OP_attention ? 1000 : 0;
}

// No two temporaries that live at the same time overlap, unless they share storage.
static void check_plan(const plan *p) {
    const graph *g = p->g;
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        assert_ptr_equal(p->storage[p->storage[i]->id], p->storage[i]);
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
            while (held && held != t && held->alias && op_rows[held->def->op]->renames)
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

typedef struct preset_run {
    arena *a;
    run_config cfg;
    programs p;
} preset_run;

static preset_run *build(const char *const *sets, int n) {
    arena *a = arena_new("plan");
    preset_run *r = ARENA_NEW(a, preset_run);
    r->a = a;
    OK(config_load(a, NULL, sets, n, &r->cfg));
    OK(programs_build(a, &r->cfg, &r->p));
    return r;
}

TEST(plans_hold) {
    static const char *const modes[] = {"training.recompute=none", "training.recompute=selective",
            "training.recompute=full"};
    int64_t arena_bytes[3];
    for (int m = 0; m < 3; m++) {
        const char *sets[] = {"model.preset=llama-15m", "data.sequence_length=512", modes[m]};
        preset_run *r = build(sets, 3);
        graph *graphs[] = {r->p.step_graph, r->p.update_graph, r->p.eval_graph};
        for (int i = 0; i < 3; i++) {
            plan *made = plan_make(r->a, graphs[i], some_workspace, NULL);
            check_plan(made);
            check_values(made);
            if (i == 0) arena_bytes[m] = made->arena_bytes;
        }
        arena_free(r->a);
    }
    assert_true(arena_bytes[1] < arena_bytes[0]);
    assert_true(arena_bytes[2] < arena_bytes[1]);
}

// --- placing, against the slow truthful version: all items that are alive, lowest gap first
static int64_t lowest_gap(const place_item *items, int n, const place_item *x) {
    int64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const place_item *y = &items[i];
            const bool together = y->first <= x->last && x->first <= y->last;
            if (!together || y->offset + y->bytes <= offset || offset + x->bytes <= y->offset)
                continue;
            offset = y->offset + y->bytes;
            moved = true;
        }
    }
    return offset;
}

TEST(placing_is_greedy) {
    enum { MAX_ITEMS = 160 };
    place_item items[MAX_ITEMS];
    for (uint64_t seed = 0; seed < 300; seed++) {
        const rng_key key = {seed, RNG_TEST, 1};
        uint64_t drawn = 0;
        const int n = (int)(rng_u64(&key, drawn++) % MAX_ITEMS),
                  n_times = 1 + (int)(rng_u64(&key, drawn++) % 90);
        for (int i = 0; i < n; i++) {
            const int x = (int)(rng_u64(&key, drawn++) % (uint64_t)n_times),
                      y = (int)(rng_u64(&key, drawn++) % (uint64_t)n_times);
            const int64_t bytes = 64 * (1 + (int64_t)(rng_u64(&key, drawn++) % 7));
            items[i] = (place_item){bytes, x < y ? x : y, x < y ? y : x, i, -1};
        }
        const int64_t end = place_items(items, n, n_times, NULL);
        int64_t highest = 0;
        for (int i = 0; i < n; i++) {
            const int64_t want = lowest_gap(items, i, &items[i]);
            if (items[i].offset != want)
                fail_msg("seed %llu, item %d: at %lld, the lowest gap is at %lld",
                        (unsigned long long)seed, i, (long long)items[i].offset, (long long)want);
            if (want + items[i].bytes > highest) highest = want + items[i].bytes;
            assert_true(i == 0 || items[i].bytes <= items[i - 1].bytes);
        }
        assert_true(end == highest);
    }
}

// --- storage
// An output must not take over the storage of an input that the node reads by another name as well.
TEST(storage_is_not_read_twice) {
    graph *g = graph_new(a, "g");
    tensor *x = graph_state(g, TENSOR_INPUT, "x", DT_F32, 2, (int64_t[]){4, 8});
    tensor *y = graph_add(g, OP_add, 2, (tensor *[]){x, x}, NULL)->out[0];
    tensor *same = graph_add(g, OP_barrier, 2, (tensor *[]){y, x}, NULL)->out[0];
    tensor *twice = graph_add(g, OP_add, 2, (tensor *[]){y, same}, NULL)->out[0];
    tensor *once = graph_add(g, OP_add, 2, (tensor *[]){twice, x}, NULL)->out[0];
    graph_output(g, graph_add(g, OP_add, 2, (tensor *[]){once, x}, NULL)->out[0], "out");
    g->stage = STAGE_DIFFERENTIATED;
    OK(graph_verify(g, STAGE_DIFFERENTIATED));
    const plan *p = plan_make(a, g, NULL, NULL);
    assert_ptr_equal(p->storage[same->id], y);
    assert_ptr_equal(p->storage[twice->id], twice);
    assert_ptr_equal(p->storage[once->id], twice);
    check_plan(p);
    check_values(p);
}

// --- the memory of the host
// Each layer but the last leaves its kept values there, so that the device needs no more for more
// layers; without the key nothing is there.
TEST(offloaded_values_need_no_device) {
    memory_plan memory[2][2];
    for (int more = 0; more < 2; more++)
        for (int offload = 0; offload < 2; offload++) {
            const char *sets[] = {"model.preset=llama-15m", "data.sequence_length=512",
                    "backend=pjrt", "pjrt.plugin=cpu",
                    more ? "model.num_hidden_layers=5" : "model.num_hidden_layers=4",
                    offload ? "training.offload=activations" : "training.offload=none"};
            preset_run *r = build(sets, 6);
            backend *b = backend_open_planner(r->a, true);
            OK(programs_load(r->a, b, &r->p));
            check_plan(r->p.held.all[0].plan);
            check_values(r->p.held.all[0].plan);
            memory[more][offload] = programs_memory(&r->p);
            backend_close(b);
            arena_free(r->a);
        }
    assert_int_equal(memory[0][0].offloaded, 0);
    const int64_t layer = memory[1][1].offloaded - memory[0][1].offloaded;
    // But for its statistics, which stay.
    assert_true(memory[1][1].activations - memory[0][1].activations < layer / 100);
    // The last layer reads the residual stream that the third one leaves.
    assert_int_equal(memory[0][1].offloaded, 3 * layer - 512 * 288 * 2);
    assert_true(memory[1][0].activations - memory[0][0].activations >= layer);
}

// --- a step of one micro-batch on a device
static preset_run *plan_on(const char *plugin, const char *preset, int tokens,
        const char *const *more, int n_more) {
    const char *sets[24] = {"backend=pjrt", "training.micro_batch_size=1",
            "training.precision=bf16", "training.recompute=selective", "training.eval_every=0"};
    char text[3][64];
    int n = 5;
    snprintf(text[0], sizeof text[0], "pjrt.plugin=%s", plugin);
    snprintf(text[1], sizeof text[1], "model.preset=%s", preset);
    snprintf(text[2], sizeof text[2], "data.sequence_length=%d", tokens);
    for (int i = 0; i < 3; i++)
        sets[n++] = text[i];
    for (int i = 0; i < n_more; i++)
        sets[n++] = more[i];
    preset_run *r = build(sets, n);
    OK(programs_load(r->a, backend_open_planner(r->a, true), &r->p));
    return r;
}

// Returns the most that is in memory at any node: temporaries, scratch, and gradients from the
// first node that writes them on, both uses of a tied table as one; all gradients when the update
// begins.
static int64_t most_at_a_time(const plan *made) {
    const graph *g = made->g;
    int64_t most = 0, gradients = 0;
    bool *is_written = calloc((size_t)g->n_tensors, sizeof *is_written);
    for (int i = 0; i < g->n_nodes; i++) {
        int64_t sum = made->scratch_bytes[i];
        for (int k = 0; k < g->n_tensors; k++)
            if (g->tensors[k]->cls == TENSOR_TEMP && made->storage[k] == g->tensors[k] &&
                    made->first[k] >= 0 && made->first[k] <= i && i <= made->last[k])
                sum += tensor_bytes(g->tensors[k]);
        for (int o = 0; o < g->nodes[i]->n_out; o++) {
            const tensor *root = made->storage[g->nodes[i]->out[o]->id];
            if (root->cls != TENSOR_GRAD || is_written[root->id]) continue;
            if (graph_find(g, arena_printf(g->a, "%s.second", root->name))) continue;
            is_written[root->id] = true;
            gradients += tensor_bytes(root);
        }
        if (sum + gradients > most) most = sum + gradients;
    }
    free(is_written);
    return gradients > most ? gradients : most;
}

// A step of one micro-batch needs what is in memory at each node, and little more, which is lost
// between values; that of two micro-batches holds all gradients at each node. In fp32 all weights
// are read by the update, so nothing else is in their memory.
TEST(gradients_begin_where_they_are_made) {
    static const char *const more[] = {"training.recompute=none", "training.recompute=full",
            "model.tie_word_embeddings=false", "lora.rank=8", "model.num_hidden_layers=2"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        int64_t total[2];
        for (int n = 1; n <= 2; n++) {
            const char *keys[] = {n == 1 ? "training.global_batch_size=1"
                                         : "training.global_batch_size=2",
                    "training.precision=fp32", more[i]};
            preset_run *r = plan_on("cpu", "llama-15m", 512, keys, 3);
            const memory_plan memory = programs_memory(&r->p);
            const plan *made = held_find(&r->p.held, "step")->plan;
            const int64_t planned = memory.gradients + memory.activations,
                          needed = most_at_a_time(made);
            total[n - 1] = planned;
            assert_int_equal(programs_makes_gradients_once(&r->p), n == 1);
            if (n == 1 && (planned < needed || (double)planned > 1.05 * (double)needed))
                fail_msg("%s: planned %lld bytes, in memory %lld", more[i], (long long)planned,
                        (long long)needed);
            if (n == 2) assert_int_equal(memory.activations, made->arena_bytes);
            arena_free(r->a);
        }
        assert_true(total[0] < total[1]);
    }
}

// What XLA plans for such steps on an H200 ("Memory of a device", CUDA plugin of jax-cuda13-pjrt
// 0.12.0.1, PJRT 0.116):
//   drover compile run.yaml --target cuda:h200
// with backend pjrt, a row a step, recompute selective, bf16, rows of documents and these keys. The
// plan is within 1 %.
TEST(plans_are_the_compilers) {
    static const struct {
        const char *preset;
        int tokens;
        const char *keys[3];
        int64_t compiled;
    } cases[] = {
            {"llama-3.2-1b", 4096, {"model.num_hidden_layers=4"}, 10558492840},
            {"llama-3.2-1b", 4096, {"model.num_hidden_layers=4", "model.tie_word_embeddings=false"},
                    13911830984},
            {"llama-3.2-1b", 4096, {"model.num_hidden_layers=4", "training.recompute=none"},
                    11030483880},
            {"llama-3.2-1b", 4096, {"model.num_hidden_layers=4", "training.recompute=full"},
                    9920960680},
            {"llama-3.2-1b", 4096, {"model.num_hidden_layers=4", "lora.rank=16"}, 3443279664},
            {"llama-3.2-1b", 4096, {"model.num_hidden_layers=4", "training.precision=fp8"},
                    10615121832},
            {"llama-3.2-1b", 4096,
                    {"model.num_hidden_layers=4", "optimizer.state_dtype=bf16",
                            "training.grad_dtype=bf16"},
                    6510924328},
            {"llama-3.1-8b", 8192, {"model.num_hidden_layers=4"}, 33815229672},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *keys[5] = {"training.global_batch_size=1", "data.pack=documents"};
        int n = 2;
        for (int k = 0; k < 3 && cases[i].keys[k]; k++)
            keys[n++] = cases[i].keys[k];
        preset_run *r = plan_on("cuda", cases[i].preset, cases[i].tokens, keys, n);
        const memory_plan memory = programs_memory(&r->p);
        const int64_t planned = memory.total - memory.batches - memory.messages - memory.workspace;
        const double error = (double)planned / (double)cases[i].compiled - 1;
        print_message("%s, %s: planned %lld, %+.2f %%\n", cases[i].preset, keys[n - 1],
                (long long)planned, 100 * error);
        if (error > 0.01 || error < -0.01)
            fail_msg("%s, %s: planned %lld bytes, compiled %lld", cases[i].preset, keys[n - 1],
                    (long long)planned, (long long)cases[i].compiled);
        arena_free(r->a);
    }
}

// --- the plan and what is held
TEST(the_back_end_holds_the_plan) {
    static const char *const extra[] = {"training.precision=bf16", "training.precision=fp32",
            "training.recompute=full", "model.tie_word_embeddings=false", "model.hidden_size=72",
            "data.sequence_length=37"};
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        const char *sets[] = {"model.preset=tiny", "data.sequence_length=64",
                "model.intermediate_size=100", "model.vocab_size=301", extra[i]};
        test_run *r = test_run_open(sets, 5);
        const memory_plan memory = programs_memory(&r->p);
        const int64_t planned = memory.total - memory.batches; // those are not the back end's
        assert_int_equal(backend_held_bytes(r->p.held.b), planned);
        OK(programs_check_held(&r->p));
        test_run_batch(r, 1, 16);
        test_run_step(r, 1e-3);
        OK(backend_run(r->p.held.b, r->p.update));
        assert_int_equal(backend_held_bytes(r->p.held.b), planned);

        // A program that the plan does not know of.
        graph *g = graph_new(r->a, "stranger");
        tensor *x = graph_state(g, TENSOR_CACHE, "stranger", DT_F32, 1, (int64_t[]){1});
        graph_output(g, graph_add(g, OP_add, 2, (tensor *[]){x, x}, NULL)->out[0], "twice");
        executable *e;
        OK(backend_compile(r->a, r->p.held.b, g, NULL, &e));
        FAILS(programs_check_held(&r->p), DRV_E_DEVICE, "that were planned");
        test_run_close(r);
    }
}

// Floating-point operations to train on one token of a row: 6 a weight that is multiplied, and the
// causal half of attention, 12 * layers * heads * head_dim * (seq + 1) / 2.
static double flops_of_training(const model_config *m, int64_t seq) {
    const double q = (double)(m->num_attention_heads * m->head_dim),
                 kv = (double)(m->num_key_value_heads * m->head_dim),
                 layers = (double)m->num_hidden_layers;
    const double layer =
            (double)m->hidden_size * (2 * q + 2 * kv + 3 * (double)m->intermediate_size);
    const double weights = layers * layer + (double)m->vocab_size * (double)m->hidden_size;
    return 6 * weights + 12 * layers * q * (double)(seq + 1) / 2;
}

// Parameters of the published models, in millions.
TEST(presets) {
    static const double millions[] = {6738.415616, 13015.86432, 68976.648192, 8030.261248,
            70553.706496, 8030.261248, 70553.706496, 405853.388800, 1235.814400,
            3212.749824,              // llama
            7241.732096, 7248.023552, // mistral
            494.032768, 1543.714304, 3085.938688, 7615.616512, 14770.033664, 32763.876352,
            72706.203648, 596.049920, 1720.574976, 4022.468096, 8190.735360, 14768.307200,
            32762.123264, // qwen3
            3075.098624,  // smollm3
            134.515008, 15.191712, 0};
    for (int i = 0; i < n_model_presets; i++) {
        const char *sets[] = {arena_printf(a, "model.preset=%s", model_preset_name(i)),
                "data.sequence_length=512"};
        run_config cfg;
        programs built;
        backend *device;
        OK(config_load(a, NULL, sets, 2, &cfg));
        if (millions[i] > 0)
            assert_true(model_parameters(&cfg.model) == (int64_t)(millions[i] * 1e6 + 0.5));
        device = backend_open_planner(a, false);
        OK(programs_build(a, &cfg, &built));
        OK(programs_load(a, device, &built));
        memory_plan m = programs_memory(&built);
        const int64_t n = model_parameters(&cfg.model);
        // bf16 weights, fp32 gradients, master and two moments; norms have no copy.
        const int64_t table =
                cfg.model.vocab_size * cfg.model.hidden_size; // tied: one for each use
        assert_true(m.gradients == 4 * (n + (cfg.model.tie_word_embeddings ? table : 0)));
        assert_true(m.weights > 2 * n - 1 && m.weights < 2 * n + n / 50);
        assert_true(m.optimizer > 12 * n - n / 50 && m.optimizer <= 12 * n);
        // FLOPs of the graph are those of the formula, 6 a weight and the causal half of attention.
        const double want =
                flops_of_training(&cfg.model, cfg.sequence_length) * (double)cfg.sequence_length;
        const double flops = held_find(&built.held, "step")->plan->flops;
        assert_true(flops > 0.9999 * want && flops < 1.0001 * want);
    }
}

TEST(the_text_is_stable) {
    str text[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        run_config c;
        programs p;
        OK(config_load(a, NULL, (const char *[]){"model.preset=tiny", "data.sequence_length=16"}, 2,
                &c));
        OK(programs_build(a, &c, &p));
        graph_print(p.step_graph, &text[i]);
    }
    assert_string_equal(text[0].p, text[1].p);
    assert_non_null(strstr(text[0].p, "linear_cross_entropy_grad("));
    assert_non_null(strstr(text[0].p, "{n_heads 8, n_kv_heads 4, head_dim 8, seq 16, "));
    str_free(&text[0]);
    str_free(&text[1]);
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
