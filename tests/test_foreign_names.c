// Where rows lie in the tensors of other trainers, and the pickles that we write for them.
#include "harness.h"

#include "source/foreign_names.h"
#include "pickle/pickle_writer.h"
#include "pickle/torch_file.h"
#include "source/megatron_args.h"

// Every row of the parts has a place of its own, and comes back from there.
static void check_round_trip(foreign_rows rows, const foreign_sizes *sizes, const int64_t *n_rows,
        int n_parts) {
    int64_t n = 0;
    bool taken[256] = {0};
    for (int k = 0; k < n_parts; k++)
        n += n_rows[k];
    for (int k = 0; k < n_parts; k++)
        for (int64_t row = 0; row < n_rows[k]; row++) {
            int part = -1;
            const int64_t there = foreign_row_of(rows, sizes, k, row);
            assert_true(there >= 0 && there < n && !taken[there]);
            taken[there] = true;
            assert_int_equal(foreign_row_back(rows, sizes, there, &part), row);
            assert_int_equal(part, k);
        }
}

TEST(rows_come_back) {
    for (int64_t kv_heads = 1; kv_heads <= 4; kv_heads *= 2)
        for (int64_t ranks = 1; ranks <= 3; ranks++) {
            const foreign_sizes s = {.layers = 1,
                    .heads = 4,
                    .kv_heads = kv_heads,
                    .head_dim = 6,
                    .intermediate = 12,
                    .tensor_ranks = ranks};
            check_round_trip(FOREIGN_ROTARY, &s, (int64_t[]){24}, 1);
            check_round_trip(FOREIGN_QKV, &s, (int64_t[]){24, 6 * kv_heads, 6 * kv_heads}, 3);
            check_round_trip(FOREIGN_GATE_UP, &s, (int64_t[]){12, 12}, 2);
        }
}

// Places that follow from the descriptions: Meta has (x_i, x_{i + d / 2}) side by side, Megatron a
// query group after the other, each with its queries, its key and its value.
TEST(rows_lie_where_they_should) {
    const foreign_sizes s = {.layers = 1,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 4,
            .intermediate = 6,
            .tensor_ranks = 2};
    static const int64_t rotary[] = {0, 2, 1, 3, 4, 6, 5, 7};
    for (int64_t row = 0; row < 8; row++)
        assert_int_equal(foreign_row_of(FOREIGN_ROTARY, &s, 0, row), rotary[row]);
    assert_int_equal(foreign_row_of(FOREIGN_QKV, &s, 0, 7), 7);     // the second head of group 0
    assert_int_equal(foreign_row_of(FOREIGN_QKV, &s, 0, 8), 16);    // the first of group 1
    assert_int_equal(foreign_row_of(FOREIGN_QKV, &s, 1, 0), 8);     // the key of group 0
    assert_int_equal(foreign_row_of(FOREIGN_QKV, &s, 2, 5), 29);    // the value of group 1
    assert_int_equal(foreign_row_of(FOREIGN_GATE_UP, &s, 0, 2), 2); // rank 0: gate 0-2, up 0-2
    assert_int_equal(foreign_row_of(FOREIGN_GATE_UP, &s, 1, 0), 3);
    assert_int_equal(foreign_row_of(FOREIGN_GATE_UP, &s, 0, 3), 6);
}

TEST(sizes_are_checked) {
    static const struct {
        const char *config, *error;
    } cases[] = {
            {"{'num_hidden_layers':2,'hidden_size':16,'intermediate_size':24,'num_attention_heads':4}",
                    NULL},
            {"{'hidden_size':16,'intermediate_size':24,'num_attention_heads':4}",
                    "x: \"num_hidden_layers\" is missing or no size, expected an integer from 1"},
            {"{'num_hidden_layers':2,'hidden_size':16,'intermediate_size':24,'num_attention_heads':0}",
                    "\"num_attention_heads\""},
            {"{'num_hidden_layers':2,'hidden_size':16,'intermediate_size':24,'num_attention_heads':4,"
             "'num_key_value_heads':3}",
                    "x: 4 heads of size 4 and 3 key-value heads"},
            {"{'num_hidden_layers':2,'hidden_size':2,'intermediate_size':24,'num_attention_heads':4}",
                    "4 heads of size 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        foreign_sizes sizes;
        snprintf(text, sizeof text, "%s", cases[i].config);
        for (char *p = text; *p; p++)
            if (*p == '\'') *p = '"';
        json_t *config = json_loads(text, 0, NULL);
        assert_non_null(config);
        if (cases[i].error)
            FAILS(foreign_sizes_read("x", config, &sizes), DRV_E_DATA, cases[i].error);
        else
            OK(foreign_sizes_read("x", config, &sizes));
        json_decref(config);
    }
}

// The same bytes as pickletools.optimize(pickle.dumps((1, -5, 70000, 2**40, 1.5, "\u00e9", True,
// None), 2)), but that Python ends the shortest form of 2**40 at its sixth byte.
TEST(pickles_are_those_of_python) {
    static const char golden[] = "\x80\x02(K\x01J\xfb\xff\xff\xffJp\x11\x01\x00"
                                 "\x8a\x08\x00\x00\x00\x00\x00\x01\x00\x00"
                                 "G?\xf8\x00\x00\x00\x00\x00\x00X\x02\x00\x00\x00\xc3\xa9\x88Nt.";
    str out = {0};
    pickle_begin(&out);
    pickle_put(&out, PUT_MARK);
    pickle_put_int(&out, 1);
    pickle_put_int(&out, -5);
    pickle_put_int(&out, 70000);
    pickle_put_int(&out, INT64_C(1) << 40);
    pickle_put_real(&out, 1.5);
    pickle_put_text(&out, "\u00e9");
    pickle_put_bool(&out, true);
    pickle_put(&out, PUT_NONE);
    pickle_put(&out, PUT_TUPLE);
    pickle_end(&out);
    assert_int_equal(out.n, sizeof golden - 1);
    assert_memory_equal(out.p, golden, out.n);
    str_free(&out);
}

// The arguments that Megatron-Core would take from a checkpoint of ours describe the same model.
TEST(arguments_of_megatron) {
#define SIZES                                                                                      \
    "'num_hidden_layers':4,'hidden_size':16,'intermediate_size':24,'num_attention_heads':2,"       \
    "'num_key_value_heads':1,'head_dim':8,'vocab_size':32,'max_position_embeddings':64,"           \
    "'rope_theta':500000.0,'rms_norm_eps':1e-05,'tie_word_embeddings':true,'hidden_act':'silu',"
    static const char *const models[] = {"'architectures':['LlamaForCausalLM'],'model_type':'llama'",
            "'architectures':['Qwen2ForCausalLM'],'model_type':'qwen2'",
            "'architectures':['Qwen3ForCausalLM'],'model_type':'qwen3'",
            "'architectures':['SmolLM3ForCausalLM'],'model_type':'smollm3','no_rope_layer_interval':4",
            "'architectures':['MistralForCausalLM'],'model_type':'mistral','sliding_window':16",
            "'architectures':['Qwen2ForCausalLM'],'model_type':'qwen2','sliding_window':16,"
            "'use_sliding_window':true,'max_window_layers':0",
            "'architectures':['Qwen3ForCausalLM'],'model_type':'qwen3','sliding_window':1,"
            "'use_sliding_window':true,'max_window_layers':3",
            "'architectures':['LlamaForCausalLM'],'model_type':'llama','rope_scaling':{'rope_type':"
            "'llama3','factor':32.0,'low_freq_factor':1.0,'high_freq_factor':4.0,"
            "'original_max_position_embeddings':8192}"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const pickle_opts opts = {.names = megatron_names, .more_names = torch_names};
        char *text = arena_printf(a, "{" SIZES "%s}", models[i]);
        str common = {0};
        pickle read;
        json_t *back;
        for (char *p = text; *p; p++)
            if (*p == '\'') *p = '"';
        json_t *config = json_loads(text, 0, NULL);
        assert_non_null(config);
        megatron_common_put(&common, config, 32);
        OK(pickle_read(a, "common.pt", 0, common.p, common.n, &opts, &read));
        OK(megatron_args_config("common.pt", pickle_get(read.root, "args"), &back));
        if (!json_equal(config, back)) fail_msg("%s", json_dumps(back, JSON_SORT_KEYS));
        json_decref(config);
        json_decref(back);
        str_free(&common);
    }
}

// Reads the config of a run with one more argument, an integer; 0: None.
static drv_status config_with(arena *a, const char *name, int64_t value, json_t **out) {
    const pickle_opts opts = {.names = megatron_names};
    str bytes = {0};
    pickle read;
    pickle_begin(&bytes);
    pickle_put(&bytes, PUT_EMPTY_DICT);
    pickle_put(&bytes, PUT_MARK);
    pickle_put_text(&bytes, name);
    if (value) pickle_put_int(&bytes, value);
    if (!value) pickle_put(&bytes, PUT_NONE);
    pickle_put(&bytes, PUT_SETITEMS);
    pickle_end(&bytes);
    OK(pickle_read(a, "x", 0, bytes.p, bytes.n, &opts, &read));
    const drv_status status = megatron_args_config("x", read.root, out);
    str_free(&bytes);
    return status;
}

TEST(arguments_of_other_models) {
    static const char *const refused[] = {"rotary_seq_len_interpolation_factor", "qk_l2_norm",
            "multi_latent_attention", "apply_residual_connection_post_layernorm", "window_size"};
    json_t *config;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        FAILS(config_with(a, refused[i], 2, &config), DRV_E_DATA, refused[i]);
        OK(config_with(a, refused[i], 0, &config));
        json_decref(config);
    }
    OK(config_with(a, "no_rope_freq", -1, &config)); // config.json has to say it
    assert_null(config);
    OK(config_with(a, "no_rope_freq", 0, &config));
    assert_non_null(config);
    json_decref(config);
}

// Reads the config of a run of four layers with a window; pattern: a digit for each layer, or NULL.
static drv_status config_with_window(arena *a, int64_t left, int64_t right, const char *pattern,
        json_t **out) {
    const pickle_opts opts = {.names = megatron_names};
    str bytes = {0};
    pickle read;
    pickle_begin(&bytes);
    pickle_put(&bytes, PUT_EMPTY_DICT);
    pickle_put(&bytes, PUT_MARK);
    pickle_put_text(&bytes, "num_layers");
    pickle_put_int(&bytes, 4);
    pickle_put_text(&bytes, "max_position_embeddings");
    pickle_put_int(&bytes, 64);
    pickle_put_text(&bytes, "window_size");
    pickle_put(&bytes, PUT_MARK);
    pickle_put_int(&bytes, left);
    pickle_put_int(&bytes, right);
    pickle_put(&bytes, PUT_TUPLE);
    if (pattern) {
        pickle_put_text(&bytes, "window_attn_skip_freq");
        pickle_put(&bytes, PUT_EMPTY_LIST);
        pickle_put(&bytes, PUT_MARK);
        for (const char *p = pattern; *p; p++)
            pickle_put_int(&bytes, *p - '0');
        pickle_put(&bytes, PUT_APPENDS);
    }
    pickle_put(&bytes, PUT_SETITEMS);
    pickle_end(&bytes);
    OK(pickle_read(a, "x", 0, bytes.p, bytes.n, &opts, &read));
    const drv_status status = megatron_args_config("x", read.root, out);
    str_free(&bytes);
    return status;
}

TEST(windows_in_arguments) {
    static const struct {
        int64_t left, right;
        const char *pattern;
        int64_t window;
        const char *refused; // else the model has that window, or 0: none
    } cases[] = {{15, 0, NULL, 16, NULL}, {0, 0, "1111", 1, NULL}, {62, 0, NULL, 63, NULL},
            {63, 0, NULL, 0, NULL}, {-1, 0, NULL, 0, NULL}, {-1, -1, NULL, 0, NULL},
            {15, 0, "0000", 0, NULL}, {15, 1, NULL, 0, "args.window_size a tuple (15, 1)"},
            {15, -1, NULL, 0, "(15, -1)"}, {-2, 0, NULL, 0, "(-2, 0)"},
            {15, 0, "0011", 0, "in some layers"}, {15, 0, "1100", 0, "args.window_attn_skip_freq"},
            {15, 0, "011", 0, "args.window_attn_skip_freq"},
            {15, 0, "0121", 0, "args.window_attn_skip_freq"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config;
        const drv_status status =
                config_with_window(a, cases[i].left, cases[i].right, cases[i].pattern, &config);
        if (cases[i].refused) {
            FAILS(status, DRV_E_DATA, cases[i].refused);
            continue;
        }
        OK(status);
        assert_int_equal(json_integer_value(json_object_get(config, "sliding_window")),
                cases[i].window);
        assert_string_equal(json_string_value(json_object_get(config, "model_type")),
                cases[i].window ? "mistral" : "llama");
        json_decref(config);
    }
}
