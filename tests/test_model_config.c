// config.json of Hugging Face: what is no Llama is refused by the name of its field; what is one is
// read, written and read back, from transformers 4 and 5 alike.
#include "harness.h"

static drv_status read_text(arena *a, const char *text, model_config *out) {
    static const char *folder;
    if (!folder) folder = temporary_dir(a);
    OK(file_write_atomic(path_join(a, folder, "config.json"), text, strlen(text)));
    return model_config_read(folder, out);
}

#define SHAPE                                                                                        \
    "\"vocab_size\": 32, \"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4"
#define FACTORS "\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4"
#define LLAMA3  FACTORS ", \"original_max_position_embeddings\": 64"

TEST(what_is_no_llama_is_refused) {
    static const struct {
        const char *json, *says[3];
    } cases[] = {{"[]", {"config.json", "expected a JSON object, found a list of 0"}},
            {"{", {"config.json:1", "not valid JSON"}},
            {"{\"model_type\": \"gpt2\"}", {"model_type", "\"gpt2\"", "expected \"llama\""}},
            {"{\"model_type\": \"qwen2_moe\"}",
                    {"qwen2_moe", "a mixture of experts", "\"qwen3\" or \"smollm3\""}},
            {"{\"model_type\": \"deepseek_v3\"}",
                    {"deepseek_v3", "multi-head latent attention and a mixture of experts"}},
            {"{\"model_type\": \"new\", \"kv_lora_rank\": 512, \"n_routed_experts\": 8}",
                    {"\"new\"", "has multi-head latent attention and a mixture of experts;"}},
            {"{\"model_type\": \"new\", \"kv_lora_rank\": null, \"num_experts\": 0}",
                    {"\"new\"", "expected \"llama\""}},
            {"{\"model_type\": \"falcon_h1\", \"time_step_limit\": [0.0, Infinity]}",
                    {"falcon_h1", "state-space layers"}},
            {"{\"a\": [NaN, -Infinity], \"b\": \"\\\"Infinity\", \"vocab_size\": Infinity}",
                    {"vocab_size", "\"Infinity\"", "a whole number"}},
            {"{\"vocab_size\": Infinite}", {"config.json:1", "not valid JSON"}},
            {"{\"model_type\": \"qwen3\", \"attention_bias\": true}",
                    {"attention_bias", "\"true\"", "expected false"}},
            {"{\"vocab_size\": \"x\"}", {"vocab_size", "\"x\"", "a whole number from 1"}},
            {"{\"vocab_size\": \"32\"}", {"vocab_size", "\"32\"", "a whole number"}},
            {"{\"vocab_size\": 1e99}", {"vocab_size", "a whole number"}},
            {"{\"vocab_size\": -3}", {"vocab_size", "\"-3\"", "1 to 16777216"}},
            {"{\"vocab_size\": [32]}", {"vocab_size", "a list of 1"}},
            {"{\"hidden_act\": \"gelu\"}", {"hidden_act", "\"gelu\"", "expected \"silu\""}},
            {"{\"partial_rotary_factor\": 0.5}",
                    {"partial_rotary_factor", "\"0.5\"", "expected 1"}},
            {"{\"rope_scaling\": \"linear\"}", {"rope_scaling", "\"linear\"", "null or an object"}},
            {"{\"attention_bias\": true}", {"attention_bias", "\"true\"", "expected false"}},
            {"{\"mlp_bias\": true}", {"mlp_bias", "\"true\"", "expected false"}},
            {"{\"tie_word_embeddings\": \"yes\"}", {"tie_word_embeddings", "true or false"}},
            {"{\"quantization_config\": {\"bits\": 4}}", {"quantization_config", "not quantized"}},
            {"{\"rope_scaling\": {\"rope_type\": \"yarn\"}}", {"rope_type", "yarn", "llama3"}},
            {"{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}", {"dynamic", "llama3"}},
            {"{" SHAPE ", \"rope_scaling\": {\"rope_type\": \"llama3\"}}",
                    {"rope_scaling", "factor 0", "at least 1"}},
            {"{\"rope_scaling\": {\"factor\": 0.5}}", {"rope_scaling.factor", "0.5"}},
            {"{\"hidden_size\": 8}", {"config.json: no vocab_size", "1 to 16777216"}},
            {"{" SHAPE ", \"num_key_value_heads\": 3}", {"num_key_value_heads is 3", "divisor"}},
            {"{" SHAPE ", \"head_dim\": 3}", {"head_dim is 3", "even"}},
            {"{" SHAPE ", \"bos_token_id\": 32}", {"bos_token_id is 32", "0 to 31"}},
            {"{" SHAPE ", \"eos_token_id\": [1, 99]}", {"eos_token_id is 99", "0 to 31"}},
            {"{" SHAPE ", \"pad_token_id\": 1000}", {"pad_token_id is 1000", "vocab_size is 32"}},
            {"{" SHAPE ", \"eos_token_id\": [1, \"2\"]}", {"eos_token_id[1]", "\"2\""}},
            {"{" SHAPE ", \"eos_token_id\": [1,1,1,1,1,1,1,1,1]}",
                    {"eos_token_id", "a list of 9", "at most 8"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config m;
        const drv_status status = read_text(a, cases[i].json, &m);
        if (status != DRV_E_DATA) fail_msg("status %d for %s", status, cases[i].json);
        for (int k = 0; k < 3 && cases[i].says[k]; k++)
            if (!strstr(drv_message(), cases[i].says[k]))
                fail_msg("\"%s\" does not say \"%s\"", drv_message(), cases[i].says[k]);
    }
}

TEST(defaults_are_those_of_transformers) {
    model_config m;
    OK(read_text(a,
            "{" SHAPE ", \"rope_scaling\": null, \"pad_token_id\": -1, \"use_cache\": true}", &m));
    assert_int_equal(m.num_key_value_heads, 4);
    assert_int_equal(m.head_dim, 16);
    assert_int_equal(m.max_position_embeddings, 2048);
    assert_true(m.rms_norm_eps == 1e-6 && m.rope_theta == 1e4 && m.initializer_range == 0.02);
    assert_false(m.tie_word_embeddings);
    assert_true(m.bos_token_id == -1 && m.n_eos == 0 && m.pad_token_id == -1);
}

static char *as_json(const model_config *m) {
    json_t *o = model_config_json(m);
    char *text = json_dumps(o, JSON_INDENT(2));
    json_decref(o);
    return text;
}

TEST(a_family_has_its_own_defaults) {
    model_config m;
    OK(read_text(a,
            "{\"model_type\": \"qwen3\", \"vocab_size\": 32, \"hidden_size\": 64, "
            "\"intermediate_size\": 96, \"num_hidden_layers\": 2, \"num_attention_heads\": 32}",
            &m));
    assert_int_equal(m.head_dim, 128);
    assert_int_equal(m.num_key_value_heads, 32);
    assert_int_equal(m.max_position_embeddings, 32768);
    assert_true(m.qk_norm);
    OK(read_text(a,
            "{\"model_type\": \"qwen3\", " SHAPE
            ", \"head_dim\": null, \"num_key_value_heads\": null}",
            &m));
    assert_int_equal(m.head_dim, 16);
    assert_int_equal(m.num_key_value_heads, 4);
}

TEST(the_family_says_what_is_added) {
    model_config m;
    OK(read_text(a, "{\"model_type\": \"qwen2\", \"num_key_value_heads\": 2, " SHAPE "}", &m));
    assert_int_equal(m.max_position_embeddings, 32768);
    assert_true(m.qkv_bias && !m.qk_norm);
    OK(read_text(a, "{\"model_type\": \"mistral\", \"num_key_value_heads\": 2, " SHAPE "}", &m));
    assert_int_equal(m.sliding_window, 4096); // as MistralConfig says
    OK(read_text(a,
            "{\"model_type\": \"mistral\", \"sliding_window\": null, " SHAPE
            ", \"num_key_value_heads\": 2}",
            &m));
    assert_int_equal(m.sliding_window, 0);
    // No key of YAML makes another model of a Llama's file.
    OK(read_text(a, "{" SHAPE ", \"qk_norm\": true, \"qkv_bias\": true}", &m));
    assert_false(m.qk_norm || m.qkv_bias);
}

TEST(layers_without_rope_are_read_as_transformers_does) {
    static const struct {
        const char *fields;
        int64_t interval; // of 7 layers; 0: all rotate
        const char *says; // NULL: it is read
    } cases[] = {{"\"rms_norm_eps\": 1e-6", 4, NULL}, {"\"no_rope_layer_interval\": 3", 3, NULL},
            {"\"no_rope_layer_interval\": 8", 0, NULL}, // beyond the layers
            {"\"no_rope_layers\": null, \"no_rope_layer_interval\": 1", 1, NULL},
            {"\"no_rope_layers\": [1, 0, 1, 0, 1, 0, 1], \"no_rope_layer_interval\": 3", 2, NULL},
            {"\"no_rope_layers\": [1, 1, 1, 1, 1, 1, 1, 0]", 0, NULL}, // of no layer here
            {"\"no_rope_layers\": [1, 1, 0, 1, 1, 1, 1]", 0,
                    "\"no_rope_layers[5]\" is \"1\", expected 0, as layers without rotary "
                    "embedding are 3 apart here"},
            {"\"no_rope_layers\": [1, 1, 0]", 0, "null or a list of 0 or 1 for each of 7 layers"},
            {"\"no_rope_layers\": [1, 1, 2, 1, 1, 1, 1]", 0,
                    "\"no_rope_layers[2]\" is \"2\", expected 0 or 1"},
            {"\"no_rope_layers\": 4", 0, "\"no_rope_layers\" is \"4\", expected null or a list"},
            {"\"use_sliding_window\": true, \"sliding_window\": 8", 0,
                    "\"use_sliding_window\" is \"true\", expected false: windows of layers"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config config;
        const char *text = arena_printf(a,
                "{\"model_type\": \"smollm3\", \"vocab_size\": 32, \"hidden_size\": 64, "
                "\"intermediate_size\": 96, \"num_hidden_layers\": 7, "
                "\"num_attention_heads\": 4, %s}",
                cases[i].fields);
        if (cases[i].says) {
            FAILS(read_text(a, text, &config), DRV_E_DATA, cases[i].says);
            continue;
        }
        OK(read_text(a, text, &config));
        assert_int_equal(config.no_rope_layer_interval, cases[i].interval);
        assert_true(config.tie_word_embeddings && config.rope_theta == 2e6 &&
                    config.num_key_value_heads == 4);
        for (int64_t layer = 0; layer < 7; layer++)
            assert_int_equal(model_layer_rotates(&config, layer),
                    !cases[i].interval || (layer + 1) % cases[i].interval);
        char *written = as_json(&config);
        OK(read_text(a, written, &config));
        assert_int_equal(config.no_rope_layer_interval, cases[i].interval);
        free(written);
    }
}

TEST(windows_are_read_as_transformers_does) {
    static const struct {
        const char *fields;
        int64_t window, from; // tokens, layer
        const char *says;     // NULL: it is read
    } cases[] = {{"\"use_sliding_window\": false, \"sliding_window\": 131072", 0, 0, NULL},
            {"\"sliding_window\": 8", 0, 0, NULL}, // not used unless it is said
            {"\"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 1", 8, 1,
                    NULL},
            {"\"use_sliding_window\": true, \"sliding_window\": 8", 0, 0, NULL}, // from layer 28 on
            {"\"use_sliding_window\": true, \"sliding_window\": null, \"max_window_layers\": 0", 0,
                    0, NULL},
            {"\"use_sliding_window\": true, \"max_window_layers\": 0", 4096, 0, NULL},
            {"\"use_sliding_window\": true, \"sliding_window\": 32769, \"max_window_layers\": 0", 0,
                    0, "sliding_window is 32769, expected at most max_position_embeddings 32768"},
            {"\"use_sliding_window\": true, \"sliding_window\": -1, \"max_window_layers\": 0", 0, 0,
                    "sliding_window"},
            {"\"use_sliding_window\": \"yes\"", 0, 0, "use_sliding_window"},
            {"\"layer_types\": [\"full_attention\", \"full_attention\"]", 0, 0, NULL},
            {"\"layer_types\": [\"full_attention\", \"sliding_attention\"]", 0, 0,
                    "layer_types[1]"},
            {"\"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 1, "
             "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
                    8, 1, NULL},
            {"\"use_sliding_window\": true, \"sliding_window\": 32768, \"max_window_layers\": 1, "
             "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
                    0, 0, NULL}}; // as long as the context
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config m;
        const char *text = arena_printf(a,
                "{\"model_type\": \"qwen2\", \"num_key_value_heads\": 2, " SHAPE ", %s}",
                cases[i].fields);
        if (cases[i].says) {
            FAILS(read_text(a, text, &m), DRV_E_DATA, cases[i].says);
            continue;
        }
        OK(read_text(a, text, &m));
        assert_int_equal(m.sliding_window, cases[i].window);
        assert_int_equal(m.max_window_layers, cases[i].from);
        char *written = as_json(&m);
        OK(read_text(a, written, &m));
        assert_int_equal(m.sliding_window, cases[i].window);
        assert_int_equal(m.max_window_layers, cases[i].from);
        free(written);
    }
}

TEST(rope_is_read_from_any_version_of_transformers) {
    static const char *const cases[] =
            {"{" SHAPE
             ", \"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", " LLAMA3 "}}",
                    "{" SHAPE
                    ", \"rope_theta\": 5e5, \"rope_scaling\": {\"type\": \"llama3\", " LLAMA3 "}}",
                    "{" SHAPE
                    ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000.0, " LLAMA3
                    "}}",
                    // Of several places the one that transformers 5 prefers.
                    "{" SHAPE
                    ", \"rope_theta\": 10000, \"rope_parameters\": {\"type\": \"llama3\", "
                    "\"rope_theta\": 500000, " LLAMA3 "}}",
                    "{" SHAPE ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"rope_theta\": "
                    "500000, " LLAMA3 "}, \"rope_parameters\": {\"rope_type\": \"linear\", "
                    "\"factor\": 2, \"rope_theta\": 3}}",
                    "{" SHAPE
                    ", \"rope_theta\": 500000, \"rope_scaling\": {}, \"rope_parameters\": "
                    "{\"rope_type\": \"llama3\", \"type\": \"linear\", " LLAMA3 "}}",
                    "{" SHAPE ", \"rope_theta\": 500000, \"original_max_position_embeddings\": 64, "
                    "\"rope_scaling\": {\"type\": \"llama3\", " FACTORS
                    ", \"original_max_position_embeddings\": 32}}",
                    // Without the context before scaling it is that of the model.
                    "{" SHAPE ", \"rope_theta\": 500000, \"max_position_embeddings\": 64, "
                    "\"hidden_act\": \"swish\", \"rope_scaling\": {\"type\": \"llama3\", " FACTORS
                    "}}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config m;
        OK(read_text(a, cases[i], &m));
        assert_int_equal(m.rope_type, ROPE_LLAMA3);
        assert_true(m.rope_theta == 5e5 && m.rope_factor == 8 && m.rope_low_freq_factor == 1 &&
                    m.rope_high_freq_factor == 4 && m.rope_original_context == 64);
    }
}

TEST(rope_of_other_models_is_refused) {
    static const char *const cases[][2] = {
            {"\"rope_scaling\": {\"type\": \"default\", \"partial_rotary_factor\": 0.5}",
                    "\"rope_scaling.partial_rotary_factor\" is \"0.5\", expected 1"},
            {"\"rope_parameters\": {\"partial_rotary_factor\": 0.25}", "is \"0.25\", expected 1"},
            {"\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5}}",
                    "\"rope_parameters.full_attention\" is a section, expected one object for all"},
            {"\"rope_scaling\": {\"rope_type\": \"longrope\", \"type\": \"default\"}",
                    "\"rope_scaling.rope_type\" is \"longrope\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config m;
        FAILS(read_text(a, arena_printf(a, "{" SHAPE ", %s}", cases[i][0]), &m), DRV_E_DATA,
                cases[i][1]);
    }
}

TEST(written_and_read_back_is_the_same) {
    for (int i = 0; i < n_model_presets; i++) {
        model_config want, got;
        assert_true(model_preset(model_preset_name(i), &want));
        want.bos_token_id = i; // token ids in all numbers of them
        want.pad_token_id = i % 2 ? 7 : -1;
        for (want.n_eos = 0; want.n_eos < i % MAX_EOS; want.n_eos++)
            want.eos_token_id[want.n_eos] = 3 * want.n_eos;
        char *text = as_json(&want);
        OK(read_text(a, text, &got));
        char *again = as_json(&got);
        assert_string_equal(text, again);
        assert_null(model_config_difference(a, &want, &got));
        assert_memory_equal(&want.eos_token_id, &got.eos_token_id,
                sizeof want.eos_token_id[0] * (size_t)want.n_eos);
        assert_int_equal(want.n_eos, got.n_eos);
        free(text);
        free(again);
    }
}

TEST(differences_are_named) {
    model_config m, other;
    assert_true(model_preset("tiny", &m));
    other = m;
    other.bos_token_id = 5; // no part of the shape
    assert_null(model_config_difference(a, &m, &other));
    other.rope_theta = 5e5;
    assert_string_equal(model_config_difference(a, &m, &other), "rope_theta 1.0e+04 and 5.0e+05");
    other = m;
    other.tie_word_embeddings = false;
    assert_non_null(strstr(model_config_difference(a, &m, &other), "tie_word_embeddings true"));
}
