// Calls of cuDNN as JAX writes them (tests/golden/cudnn_calls.json, tools/golden_cudnn.py), field
// by field: operands, results, their layouts, the configuration; and which way attention goes.
// Moves to the host's memory likewise (host_moves.json, golden_offload.py).
#include "harness.h"

#include <math.h>

#include "backend/pjrt/stablehlo/lower.h"
#include "base/json.h"
#include "backend/cudnn_attention.h"

// A call of ours, cut out of the text of a program.
typedef struct call {
    str target, config, operands, results, operand_layouts, result_layouts;
    bool has_side_effect;
    int api_version;
} call;

// The text between `after`, wherever that begins at or after p, and `before`.
static str between(const char *p, const char *after, const char *before) {
    str out = {0};
    const char *begin = strstr(p, after);
    if (!begin) fail_msg("no \"%s\" in %.200s", after, p);
    begin += strlen(after);
    const char *end = strstr(begin, before);
    if (!end) fail_msg("no \"%s\" after \"%s\"", before, after);
    str_add(&out, begin, (size_t)(end - begin));
    str_puts(&out, "");
    return out;
}

// Takes backslashes away: the text of an attribute.
static str unquoted(str quoted) {
    str out = {0};
    for (size_t i = 0; i < quoted.n; i++)
        if (quoted.p[i] != '\\') str_add(&out, &quoted.p[i], 1);
    str_puts(&out, "");
    str_free(&quoted);
    return out;
}

static call read_call(const char *line) {
    static const char types[] = "]} : (";
    str version = between(line, "api_version = ", " :"),
        effect = between(line, "has_side_effect = ", ",");
    const call c = {.target = between(line, "call_target_name = \"", "\""),
            .config = unquoted(between(line, "backend_config = \"", "\", operand_layouts")),
            .operand_layouts = between(line, "operand_layouts = [", "], result_layouts"),
            .result_layouts = between(line, "result_layouts = [", types),
            .operands = between(line, types, ") -> ("),
            .results = between(strstr(line, types), ") -> (", ")"),
            .api_version = (int)strtol(version.p, NULL, 10),
            .has_side_effect = strcmp(effect.p, "true") == 0};
    str_free(&version);
    str_free(&effect);
    return c;
}

static void free_call(call *c) {
    str *texts[] = {&c->target, &c->config, &c->operands, &c->results, &c->operand_layouts,
            &c->result_layouts};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        str_free(texts[i]);
}

// --- ours: attention and its gradient as a program
typedef struct shape {
    int64_t rows, tokens;
    int heads, kv_heads, d, window, segments;
    bool masked;
} shape;

static graph *graph_of(arena *a, const shape *of, dtype dt) {
    const op_attrs attrs = {.heads = {of->heads, of->kv_heads, of->d},
            .attention.seq = (int)of->tokens,
            .attention.window = of->window,
            .attention.causal = !of->masked && !of->segments,
            .attention.documents = of->segments};
    const int64_t n[] = {of->rows * of->tokens},
                  qkv_dim[] = {*n, (of->heads + 2 * of->kv_heads) * of->d},
                  o_dim[] = {*n, of->heads * of->d};
    graph *g = graph_new(a, "attention");
    tensor *qkv = graph_state(g, TENSOR_INPUT, "qkv", dt, 2, qkv_dim),
           *position = graph_state(g, TENSOR_INPUT, "position", DT_I32, 1, n),
           *d_o = graph_state(g, TENSOR_INPUT, "do", dt, 2, o_dim);
    const node *forward = graph_add(g, OP_attention, 2, (tensor *[]){qkv, position}, &attrs);
    tensor *in[] = {d_o, qkv, forward->out[0], forward->out[1], position};
    graph_output(g, graph_add(g, OP_attention_grad, 5, in, &attrs)->out[0], "dqkv");
    return g;
}

static str program_of(arena *a, const shape *of, const lower_options *options, dtype dt) {
    lowered l;
    OK(lower_graph(a, graph_of(a, of, dt), options, &l));
    return l.text;
}

// --- JAX's
static int integer(const json_t *object, const char *key) {
    return (int)json_integer_value(json_object_get(object, key));
}

static shape read_shape(const json_t *golden) {
    return (shape){.rows = integer(golden, "rows"),
            .tokens = integer(golden, "tokens"),
            .heads = integer(golden, "heads"),
            .kv_heads = integer(golden, "kv_heads"),
            .d = integer(golden, "head_dim"),
            .window = integer(golden, "window"),
            .segments = integer(golden, "segments"),
            .masked = json_is_true(json_object_get(golden, "masked"))};
}

// Types as they stand in our text.
static str joined_types(const json_t *list) {
    str out = {0};
    for (size_t i = 0; i < json_array_size(list); i++)
        str_printf(&out, i ? ", %s" : "%s", json_string_value(json_array_get(list, i)));
    return out;
}

static str joined_layouts(const json_t *list) {
    str out = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *layout = json_array_get(list, i);
        const size_t n = json_array_size(layout);
        str_puts(&out, i ? ", dense<" : "dense<");
        if (n > 1) str_puts(&out, "[");
        for (size_t k = 0; k < n; k++)
            str_printf(&out, k ? ", %lld" : "%lld",
                    (long long)json_integer_value(json_array_get(layout, k)));
        str_printf(&out, "%s> : tensor<%zuxindex>", n > 1 ? "]" : "", n);
    }
    return out;
}

static void same_text(const char *what, str expected, const str *ours) {
    if (strcmp(expected.p, ours->p) != 0) fail_msg("%s: %s, JAX has %s", what, ours->p, expected.p);
    str_free(&expected);
}

// All but what JAX leaves to XLA, and the last bit of the scale.
static void same_config(const json_t *expected, const call *ours) {
    json_t *config = json_loads(ours->config.p, 0, NULL);
    assert_non_null(config);
    json_t *mine = json_object_get(config, "cudnn_fmha_backend_config"),
           *theirs = json_object_get(expected, "cudnn_fmha_backend_config");
    assert_true(json_is_true(json_object_get(mine, "force_deterministic")));
    json_object_del(mine, "force_deterministic");
    const double scale = json_real_value(json_object_get(theirs, "fmha_scale"));
    assert_true(
            fabs(json_real_value(json_object_get(mine, "fmha_scale")) - scale) < 0x1p-51 * scale);
    json_object_set(mine, "fmha_scale", json_object_get(theirs, "fmha_scale"));
    char *a = json_dumps(config, JSON_SORT_KEYS), *b = json_dumps(expected, JSON_SORT_KEYS);
    if (strcmp(a, b) != 0) fail_msg("ours: %s\nJAX's: %s", a, b);
    free(a);
    free(b);
    json_decref(config);
}

static void compare(const json_t *expected, const char *line) {
    call ours = read_call(line);
    assert_string_equal(ours.target.p, json_string_value(json_object_get(expected, "target")));
    assert_int_equal(ours.api_version, integer(expected, "api_version"));
    assert_int_equal(ours.has_side_effect,
            json_is_true(json_object_get(expected, "has_side_effect")));
    same_text("operands", joined_types(json_object_get(expected, "operands")), &ours.operands);
    same_text("results", joined_types(json_object_get(expected, "results")), &ours.results);
    same_text("layouts of operands", joined_layouts(json_object_get(expected, "operand_layouts")),
            &ours.operand_layouts);
    same_text("layouts of results", joined_layouts(json_object_get(expected, "result_layouts")),
            &ours.result_layouts);
    same_config(json_object_get(expected, "backend_config"), &ours);
    free_call(&ours);
}

static const char call_op[] = "\"stablehlo.custom_call\"";

TEST(calls_are_those_of_jax) {
    json_t *golden;
    OK(json_read_file(golden_path(a, "cudnn_calls.json"), &golden));
    const json_t *cases = json_object_get(golden, "cases");
    assert_true(json_array_size(cases) >= 12);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const shape s = read_shape(one);
        const lower_options options = {.cudnn.head_dim = 256,
                .cudnn.documents = s.segments ? DOCUMENTS_SEGMENTS : DOCUMENTS_MASK,
                .cudnn.deterministic = true};
        print_message("%s\n", json_string_value(json_object_get(one, "name")));
        str text = program_of(a, &s, &options, DT_BF16);
        const char *first = strstr(text.p, call_op);
        assert_non_null(first);
        const char *second = strstr(first + 1, call_op);
        assert_non_null(second);
        assert_null(strstr(second + 1, call_op));
        compare(json_object_get(one, "forward"), first);
        compare(json_object_get(one, "backward"), second);
        str_free(&text);
    }
    json_decref(golden);
}

static int times(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++)
        n++;
    return n;
}

// A call as our text has it, but for the number of its operand.
static str move_of(const json_t *of) {
    str out = {0};
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(of, "attributes"), name, value)
            str_printf(&out, "%s%s = %s", out.n ? ", " : ") {", name, json_string_value(value));
    str_printf(&out, "} : (%s) -> %s", json_string_value(json_object_get(of, "operand")),
            json_string_value(json_object_get(of, "result")));
    return out;
}

// Moves there and back are JAX's; a device without such memory is refused before it compiles.
TEST(moves_are_those_of_jax) {
    json_t *golden;
    lowered program;
    OK(json_read_file(golden_path(a, "host_moves.json"), &golden));
    graph *g = graph_new(a, "moves");
    tensor *x = graph_state(g, TENSOR_INPUT, "x", DT_BF16, 2, (int64_t[]){8, 8});
    tensor *in[] = {graph_add(g, OP_to_host, 1, &x, NULL)->out[0], x};
    graph_output(g, graph_add(g, OP_from_host, 2, in, NULL)->out[0], "y");
    OK(lower_graph(a, g, &(lower_options){.has_host_memory = true}, &program));
    const char *first = strstr(program.text.p, call_op),
               *second = first ? strstr(first + 1, call_op) : "";
    str to_host = move_of(json_object_get(golden, "to_host")),
        from_host = move_of(json_object_get(golden, "from_host"));
    const char *found = strstr(first, to_host.p);
    if (!found || found > second) fail_msg("%s\nJAX's to the host: %s", program.text.p, to_host.p);
    if (!strstr(second, from_host.p)) fail_msg("%s\nJAX's back: %s", program.text.p, from_host.p);
    FAILS(lower_graph(a, g, &(lower_options){0}, &program), DRV_E_USAGE,
            "training.offload is activations, but the device has no memory of the kind \"pinned_host\"");
    str_free(&to_host);
    str_free(&from_host);
    str_free(&program.text);
    json_decref(golden);
}

// Rows of documents never go through the loop over blocks where the heads are cuDNN's.
TEST(heads_decide) {
    static const struct {
        shape s;
        lower_options options;
        dtype dt;
        const char *call; // NULL: blocks
    } cases[] = {
            {{2, 64, 4, 2, 64, 0, 0, true}, {.cudnn.head_dim = 256}, DT_BF16, "ScaleBias"},
            {{2, 64, 4, 2, 64, 16, 0, true}, {.cudnn.head_dim = 256}, DT_BF16, "ScaleBias"},
            {{2, 63, 4, 2, 64, 0, 0, true}, {.cudnn.head_dim = 256}, DT_BF16, "ScaleBias"},
            {{2, 64, 2, 2, 256, 0, 0, true}, {.cudnn.head_dim = 256}, DT_BF16, "ScaleBias"},
            {{2, 64, 2, 2, 256, 0, 0, true}, {.cudnn.head_dim = 128}, DT_BF16, NULL},
            {{2, 64, 2, 2, 60, 0, 0, true}, {.cudnn.head_dim = 256}, DT_BF16, NULL},
            {{2, 64, 2, 2, 64, 0, 0, true}, {.cudnn.head_dim = 256}, DT_F32, NULL},
            {{2, 64, 2, 2, 64, 0, 0, true}, {0}, DT_BF16, NULL},
            // Segments where bits may differ, the bound is known, and position says all.
            {{2, 64, 2, 2, 64, 0, 4, false}, {.cudnn.head_dim = 256}, DT_BF16, "PADDING_CAUSAL"},
            {{2, 64, 2, 2, 64, 0, 4, false}, {.cudnn.head_dim = 256, .cudnn.deterministic = true},
                    DT_BF16, "ScaleBias"},
            {{2, 64, 2, 2, 64, 16, 4, false}, {.cudnn.head_dim = 256}, DT_BF16, "ScaleBias"},
            {{2, 64, 2, 2, 64, 0, 4, false},
                    {.cudnn.head_dim = 256, .cudnn.documents = DOCUMENTS_MASK}, DT_BF16,
                    "ScaleBias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str text = program_of(a, &cases[i].s, &cases[i].options, cases[i].dt);
        if (times(text.p, "__cudnn$fmha") != (cases[i].call ? 2 : 0) ||
                (cases[i].call && times(text.p, cases[i].call) != 2))
            fail_msg("case %zu: %d calls, expected %s", i, times(text.p, "__cudnn$fmha"),
                    cases[i].call ? cases[i].call : "none");
        str_free(&text);
    }
}

// Whatever the number of layers, and in both directions.
TEST(masks_are_made_once) {
    for (int segments = 0; segments < 2; segments++) {
        const op_attrs attrs = {.heads = {2, 2, 64},
                .attention.seq = 64,
                .attention.documents = segments ? 4 : 0};
        const int64_t n[] = {128}, dim[] = {128, 384}, o_dim[] = {128, 128};
        graph *g = graph_new(a, "layers");
        tensor *position = graph_state(g, TENSOR_INPUT, "position", DT_I32, 1, n),
               *qkv = graph_state(g, TENSOR_INPUT, "qkv", DT_BF16, 2, dim),
               *d_o = graph_state(g, TENSOR_INPUT, "do", DT_BF16, 2, o_dim);
        for (int layer = 0; layer < 3; layer++) {
            g->layer = layer;
            const node *f = graph_add(g, OP_attention, 2, (tensor *[]){qkv, position}, &attrs);
            tensor *in[] = {d_o, qkv, f->out[0], f->out[1], position};
            qkv = graph_add(g, OP_attention_grad, 5, in, &attrs)->out[0];
        }
        graph_output(g, qkv, "dqkv");
        lowered l;
        OK(lower_graph(a, g, &(lower_options){.cudnn.head_dim = 256}, &l));
        assert_int_equal(times(l.text.p, call_op), 6);
        // What compares positions: the mask once; segments where they begin and end, once.
        assert_int_equal(times(l.text.p, "\"stablehlo.compare\""), segments ? 2 : 1);
        str_free(&l.text);
    }
}

// A barrier keeps XLA from turning heads once more for each that reads them; their gradient has one
// reader.
TEST(heads_are_turned_once) {
    for (int inverse = 0; inverse < 2; inverse++) {
        const op_attrs angles = {.heads.head_dim = 64,
                               .rope.theta = 10000,
                               .rope.table_dtype = DT_F32},
                       turn = {.heads.n_heads = 4, .heads.head_dim = 64, .rope.inverse = inverse};
        const int64_t n[] = {128}, dim[] = {128, 384};
        graph *g = graph_new(a, "rope");
        tensor *position = graph_state(g, TENSOR_INPUT, "position", DT_I32, 1, n),
               *qkv = graph_state(g, TENSOR_INPUT, "qkv", DT_BF16, 2, dim),
               *table = graph_add(g, OP_rope_table, 1, &position, &angles)->out[0];
        graph_output(g, graph_add(g, OP_rope, 2, (tensor *[]){qkv, table}, &turn)->out[0], "y");
        lowered l;
        OK(lower_graph(a, g, &(lower_options){.cudnn.head_dim = 256}, &l));
        assert_int_equal(times(l.text.p, "optimization_barrier"), !inverse);
        str_free(&l.text);
    }
}

// Slices in the text whose operand has the type.
static int slices_of(const char *text, const char *type) {
    int n = 0;
    while ((text = strstr(text, "\"stablehlo.slice\""))) {
        const char *operand = strstr(text, " : (");
        assert_non_null(operand);
        n += strncmp(operand + 4, type, strlen(type)) == 0;
        text = operand;
    }
    return n;
}

// Queries, keys and values are cut out of their product once: attention computed again and its
// gradient read what the forward pass has cut, on the other side of a layer's barriers. Two slices
// are of the gradient, whose heads are turned back.
TEST(heads_are_cut_once) {
    const char *sets[] = {"model.preset=tiny", "data.sequence_length=128",
            "training.micro_batch_size=1", "training.precision=bf16",
            "training.recompute=selective", "backend=pjrt"};
    run_config *cfg = ARENA_NEW(a, run_config);
    programs *p = ARENA_NEW(a, programs);
    lowered l;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, cfg));
    OK(programs_build(a, cfg, p));
    OK(lower_graph(a, p->step_graph,
            &(lower_options){.cudnn = {.head_dim = 256, .deterministic = true},
                    .adds_in_order = true},
            &l));
    const model_layout *layout = &p->held.params.layout;
    const char *product = arena_printf(a, "tensor<128x%dxbf16>", (int)layout->qkv_width);
    assert_int_equal(times(l.text.p, call_op), 3 * layout->n_layers);
    assert_int_equal(slices_of(l.text.p, product), (3 + 2) * layout->n_layers);
    // XLA would sort all elements for it.
    assert_null(strstr(l.text.p, "unique_indices = false"));
    str_free(&l.text);
}

// Of a row of 8,192 of Llama-3.1-8B, by the figures of docs/adr/0042; and in a run's plan.
TEST(memory_is_planned) {
    static const struct {
        int documents;
        bool masked;
        cudnn_choice how;
        int64_t masks, workspace;
    } figures[] = {
            {0, false, {.head_dim = 256, .deterministic = true}, 0, 4294967296},
            {0, false, {.head_dim = 256}, 0, 0},
            {0, true, {.head_dim = 256, .deterministic = true}, 134217728, 4294967296},
            {0, true, {0}, 0, 0},
            {64, false, {.head_dim = 256, .deterministic = true}, 134217728, 4294967296},
            {64, false, {.head_dim = 256}, 0, 64 * 32 * 8192 * 4},
            {64, false, {.head_dim = 256, .deterministic = true, .documents = DOCUMENTS_SEGMENTS},
                    0, 64 * 4294967296 + 64 * 32 * 8192 * 4},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const graph *g = graph_of(a,
                &(shape){1, 8192, 32, 8, 128, 0, figures[i].documents, figures[i].masked}, DT_BF16);
        assert_int_equal(cudnn_mask_bytes(&figures[i].how, g), figures[i].masks);
        assert_int_equal(cudnn_workspace_bytes(&figures[i].how, g), figures[i].workspace);
    }
}

static memory_plan plan_of(arena *a, const char *key) {
    const char *sets[] = {"model.preset=tiny", "data.sequence_length=128", "backend=pjrt",
            "training.micro_batch_size=2", "pjrt.plugin=cuda", key};
    run_config *cfg = ARENA_NEW(a, run_config);
    programs *p = ARENA_NEW(a, programs);
    backend *null;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, cfg));
    null = backend_open_planner(a, true);
    OK(programs_build(a, cfg, p));
    OK(programs_load(a, null, p));
    const memory_plan m = programs_memory(p);
    backend_close(null);
    return m;
}

TEST(runs_are_planned_with_it) {
    enum { HEADS = 8, HIDDEN = 64, GATE_UP = 2 * 172 }; // of the preset
    const int64_t mask = 2 * 128 * 128 * 2, heads = plan_of(a, "data.pack=auto").workspace / mask;
    const memory_plan documents = plan_of(a, "data.pack=documents"),
                      other = plan_of(a, "pjrt.plugin=cpu");
    assert_int_equal(heads, HEADS); // of a row the gradient takes for each what a mask takes
    assert_int_equal(documents.masks, mask);
    assert_int_equal(documents.total, other.total + mask + heads * mask + documents.products);
    assert_int_equal(other.masks + other.workspace + other.products, 0);
    // The most is the gradient of what goes into gate and up, [2 x 128, GATE_UP] by [GATE_UP,
    // HIDDEN] in bf16. A larger model's get what XLA gives a product at most.
    assert_int_equal(documents.products, 2 * GATE_UP * (2 * 128 + HIDDEN));
    assert_int_equal(plan_of(a, "model.preset=llama-3.2-1b").products, 32 << 20);
    // Without a name it is the plugin that a run would find.
    setenv("DROVER_PJRT_PLUGIN", "cuda", 1);
    assert_int_equal(plan_of(a, "pjrt.plugin=").products, documents.products);
    setenv("DROVER_PJRT_PLUGIN", "cpu", 1);
    assert_int_equal(plan_of(a, "pjrt.plugin=").products, 0);
    unsetenv("DROVER_PJRT_PLUGIN");
    assert_int_equal(plan_of(a, "data.pack=stream").masks, 0);
    assert_int_equal(plan_of(a, "training.deterministic=false").workspace, 0);
    assert_int_equal(plan_of(a, "training.precision=fp32").workspace, 0);
}
