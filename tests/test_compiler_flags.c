// What a plugin's compiler is told, by platform: for CUDA that it must not choose kernels whose
// sums come in another order each time, just where the calls of cuDNN say the same.
#include "harness.h"

#include "backend/pjrt/compiler_flags.h"
#include "backend/pjrt/runtime/compile_options.h"
#include "backend/pjrt/stablehlo/lower.h"
#include "ir/op.h"

#define DETERMINISTIC "xla_gpu_exclude_nondeterministic_ops="

// A plugin that was never opened, beside a folder with what CUDA's compiler needs.
static pjrt_plugin plugin_named(arena *a, const char *name) {
    const char *dir = temporary_dir(a), *tools = path_join(a, dir, "tools");
    OK(dir_make(path_join(a, tools, "bin")));
    OK(dir_make(path_join(a, tools, "nvvm/libdevice")));
    OK(file_write_atomic(path_join(a, tools, "bin/ptxas"), "", 0));
    OK(file_write_atomic(path_join(a, tools, "nvvm/libdevice/libdevice.10.bc"), "", 0));
    return (pjrt_plugin){.name = name, .path = path_join(a, dir, "plugin.so")};
}

// Its value, that of the last one as XLA takes it; "": it is not set.
static const char *value_of(const compiler_flags *f, const char *name) {
    const char *value = "";
    for (int i = 0; i < f->n; i++)
        if (str_starts(f->list[i], name)) value = f->list[i] + strlen(name);
    return value;
}

static compiler_flags choose(arena *a, const char *platform, const backend_opts *opts) {
    const pjrt_plugin plugin = plugin_named(a, platform);
    compiler_flags flags;
    OK(compiler_flags_choose(a, &plugin, opts, &flags));
    return flags;
}

TEST(cuda_is_deterministic) {
    const backend_opts plain = {0}, target = {.target = "cuda:h200"},
                       fastest = {.nondeterministic = true};
    compiler_flags f = choose(a, "cuda", &plain);
    assert_string_equal(value_of(&f, DETERMINISTIC), "True");
    assert_string_equal(value_of(&f, "xla_gpu_deterministic_ops="), "");
    assert_string_equal(value_of(&f, "xla_gpu_enable_triton_gemm="), "False"); // else it fails
    f = choose(a, "cuda", &target);
    assert_string_equal(value_of(&f, DETERMINISTIC), "True");
    f = choose(a, "cuda", &fastest);
    assert_string_equal(value_of(&f, DETERMINISTIC), "False");
    assert_string_equal(value_of(&f, "xla_gpu_deterministic_ops="), "False");
    f = choose(a, "cpu", &plain);
    assert_string_equal(value_of(&f, DETERMINISTIC), "");
    f = choose(a, "neuron", &plain);
    assert_int_equal(f.n, 0);
}

TEST(users_cannot_part_it_from_the_calls) {
    static const char *const flags[] = {DETERMINISTIC "False", DETERMINISTIC "True",
            "xla_gpu_deterministic_ops=True"};
    const pjrt_plugin plugin = plugin_named(a, "cuda");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const backend_opts opts = {.flags = &flags[i], .n_flags = 1};
        compiler_flags out;
        FAILS(compiler_flags_choose(a, &plugin, &opts, &out), DRV_E_USAGE,
                "expected the key training.deterministic instead");
    }
    static const char *const other = "xla_gpu_enable_triton_gemm=True";
    const compiler_flags f = choose(a, "cuda", &(backend_opts){.flags = &other, .n_flags = 1});
    assert_string_equal(value_of(&f, "xla_gpu_enable_triton_gemm="), "True");
    backend_opts target = {.flags = &other, .n_flags = 1, .target = "cuda:h200"};
    compiler_flags out;
    FAILS(compiler_flags_choose(a, &plugin, &target, &out), DRV_E_USAGE,
            "can only be checked on the GPU");
    target.nondeterministic = true;
    OK(compiler_flags_choose(a, &plugin, &target, &out));
}

// Whoever is refused a flag has nothing to free.
TEST(a_broken_flag_appends_nothing) {
    static const char *const broken[] = {"xla_no_value", "=1", ""};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const char *flags[] = {"xla_first=1", broken[i]};
        const compile_options options = {.n_replicas = 1, .flags = flags, .n_flags = 2};
        str out = {0};
        FAILS(compile_options_encode(&options, &out), DRV_E_USAGE, "expected NAME=VALUE");
        assert_null(out.p);
    }
}

// The text of attention and its gradient as cuDNN's calls.
static str calls_of(arena *a, bool deterministic) {
    enum { TOKENS = 128, HEADS = 2, D = 64 };
    const op_attrs attrs = {.heads = {HEADS, 1, D},
            .attention.seq = TOKENS,
            .attention.causal = true};
    const lower_options options = {.cudnn.head_dim = 256,
            .cudnn.deterministic = deterministic,
            .ranks = mesh_single()};
    const int64_t tokens[] = {TOKENS}, qkv_dim[] = {TOKENS, (HEADS + 2) * D},
                  o_dim[] = {TOKENS, HEADS * D};
    graph *g = graph_new(a, "attention");
    tensor *qkv = graph_state(g, TENSOR_INPUT, "qkv", DT_BF16, 2, qkv_dim),
           *position = graph_state(g, TENSOR_INPUT, "position", DT_I32, 1, tokens),
           *d_o = graph_state(g, TENSOR_INPUT, "do", DT_BF16, 2, o_dim);
    const node *forward = graph_add(g, OP_attention, 2, (tensor *[]){qkv, position}, &attrs);
    tensor *in[] = {d_o, qkv, forward->out[0], forward->out[1], position};
    graph_output(g, graph_add(g, OP_attention_grad, 5, in, &attrs)->out[0], "dqkv");
    lowered l;
    OK(lower_graph(a, g, &options, &l));
    return l.text;
}

static int times(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++)
        n++;
    return n;
}

TEST(calls_say_what_the_flags_say) {
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        str text = calls_of(a, deterministic);
        assert_int_equal(times(text.p, "__cudnn$fmhaSoftmax"), 2);
        assert_int_equal(times(text.p, deterministic ? "force_deterministic\\\":true"
                                                     : "force_deterministic\\\":false"),
                2);
        str_free(&text);
    }
}
