// Wrong configs give one line with file, line, key, value, expectation and the nearest key.
#include "harness.h"

static void one(const char *yaml, const char *const *says) {
    arena *a = arena_new("config");
    run_config c;
    const char *path = path_join(a, temporary_dir(a), "run.yaml");
    OK(file_write_atomic(path, yaml, strlen(yaml)));
    if (!says) {
        OK(config_load(a, path, NULL, 0, &c));
    } else {
        drv_status s = config_load(a, path, NULL, 0, &c);
        if (s == DRV_OK) fail_msg("accepted: %s", yaml);
        for (; *says; says++)
            if (!strstr(drv_message(), *says))
                fail_msg("\"%s\" does not say \"%s\"", drv_message(), *says);
        assert_null(strchr(drv_message(), '\n'));
    }
    arena_free(a);
}
#define REFUSED(yaml, ...) one(yaml, (const char *const[]){__VA_ARGS__, NULL})

static void wrong_configs(void **state) {
    (void)state;
    REFUSED("model: {preset: tiny}\ntraining:\n  stepz: 5\n", "run.yaml:3", "\"training.stepz\"",
            "5", "training.steps");
    REFUSED("model: {preset: tiny}\nlearning_rate: 1\n", "run.yaml:2",
            "unknown key \"learning_rate\"");
    REFUSED("model: {preset: tiny}\nlr: 1\n", "optimizer.lr");
    REFUSED("model: {preset: tinny}\n", "run.yaml:1", "tinny", "tiny", "llama-3.1-405b");
    REFUSED("model: {preset: tiny}\ntraining: {steps: many}\n", "run.yaml:2", "training.steps",
            "many", "a whole number from 0");
    REFUSED("model: {preset: tiny}\ntraining: {steps: 1.5}\n", "1.5", "a whole number");
    REFUSED("model: {preset: tiny}\noptimizer: {lr: -1}\n", "optimizer.lr", "-1",
            "a number from 0 to 1000");
    REFUSED("model: {preset: tiny}\noptimizer: {lr: nan}\n", "optimizer.lr", "nan");
    REFUSED("model: {preset: tiny}\noptimizer: {betas: [0.9, 1.5]}\n", "betas[1]", "1.5");
    REFUSED("model: {preset: tiny}\ntraining: {global_batch_size: 9, micro_batch_size: 2}\n",
            "run.yaml:2", "global_batch_size", "9", "multiple of micro_batch_size 2");
    REFUSED("model: {preset: tiny, num_key_value_heads: 3}\n", "num_key_value_heads is 3",
            "num_attention_heads 8");
    REFUSED("model: {hidden_size: 100, vocab_size: 10, intermediate_size: 8, num_hidden_layers: 1, "
            "num_attention_heads: 3}\n",
            "num_attention_heads is 3", "hidden_size 100");
    REFUSED("model: {preset: tiny}\ndata: {sequence_length: 4096}\n", "sequence_length", "4096",
            "512");
    REFUSED("model: {preset: tiny}\ntraining: {precision: fp16}\n", "fp16", "bf16 fp32");
    REFUSED("model: {preset: tiny}\nmodel: {preset: tiny}\n", "given twice");
    REFUSED("model: {preset: tiny\n", "run.yaml:");
    REFUSED("- a\n- b\n", "run.yaml:1");
    REFUSED("training: {steps: 1}\n", "no model");
    REFUSED("model: {preset: tiny}\nbackend: gpu\n", "backend", "gpu", "cpu");
    REFUSED("model: {preset: tiny, from: /x}\n", "exclude each other");
    REFUSED("model: {from: /nowhere}\n", "/nowhere");
    REFUSED("model: {preset: tiny}\nschedule: {min_lr: 1}\n", "min_lr", "at most optimizer.lr");
    REFUSED("model: {preset: tiny}\ndata: {train: [{weight: 1}]}\n", "data.train[0] has no prefix");
    REFUSED("model: {preset: tiny}\nparallel: {tensor: 2}\n", "parallel.tensor", "2");
    REFUSED("model: {preset: tiny}\nparallel: {zero: banana}\n", "parallel.zero", "banana");
}

static void right_configs(void **state) {
    (void)state;
    one("model: {preset: tiny}\n", NULL);
    one("model: {preset: llama-3.1-8b}\n"
        "data: {train: [{prefix: a, weight: 2}, {prefix: b}], split: [969, 30, 1]}\n"
        "optimizer: {betas: [0.8, 0.9]}\n",
            NULL);
    one("model: {preset: tiny}\n"
        "parallel: {tensor: 1, sequence: true, pipeline: 1, context: 1, data: auto, zero: 1}\n",
            NULL);
}

// What config prints is a config, and the same one.
static void printed_config_reads_back(void **state) {
    (void)state;
    arena *a = arena_new("config");
    run_config c, again;
    str text = {0}, second = {0};
    const char *sets[] = {"model.preset=llama-3.1-8b",
            "data.train=[{prefix: a, weight: 2}, {prefix: b, weight: 0.5}]", "optimizer.lr=1.1e-4",
            "training.recompute=full", "data.split=[9, 1, 0]", "model.num_hidden_layers=7"};
    OK(config_from_sets(a, sets, 6, &c));
    config_print(&c, true, &text);
    const char *path = path_join(a, temporary_dir(a), "run.yaml");
    OK(file_write_atomic(path, text.p, text.n));
    OK(config_load(a, path, NULL, 0, &again));
    config_print(&again, true, &second);
    assert_string_equal(text.p, second.p);
    assert_non_null(strstr(text.p, " lr: 0.00011 "));
    assert_non_null(strstr(text.p, " eps: 1.0e-08 "));
    assert_int_equal(again.model.num_hidden_layers, 7);
    assert_true(again.model.rope_factor == 8);
    assert_true(again.train[1].weight == 0.5);
    str_free(&text);
    str_free(&second);
    arena_free(a);
}

static void overrides(void **state) {
    (void)state;
    arena *a = arena_new("config");
    run_config c;
    OK(config_from_sets(a,
            (const char *[]){"model.preset=tiny", "training.steps=7", "training.steps=9"}, 3, &c));
    assert_int_equal(c.steps, 9);
    FAILS(config_from_sets(a, (const char *[]){"training.steps=7"}, 1, &c), DRV_E_USAGE,
            "no model");
    FAILS(config_from_sets(a, (const char *[]){"model.preset=tiny", "training.stepz=7"}, 2, &c),
            DRV_E_USAGE, "--set: unknown key \"training.stepz\"");
    FAILS(config_from_sets(a, (const char *[]){"steps"}, 1, &c), DRV_E_USAGE, "expected key=value");
    arena_free(a);
}

static void hf_config(void **state) {
    (void)state;
    arena *a = arena_new("config.json");
    const char *dir = temporary_dir(a), *path = path_join(a, dir, "config.json");
    model_config m;
    const struct {
        const char *json, *says;
    } cases[] = {{"[]", "expected a JSON object"}, {"{", "not valid JSON"},
            {"{\"model_type\": \"gpt2\"}", "expected \"llama\""},
            {"{\"vocab_size\": \"x\"}", "expected a whole number"},
            {"{\"hidden_act\": \"gelu\"}", "expected \"silu\""},
            {"{\"attention_bias\": true}", "attention_bias is true"},
            {"{\"rope_scaling\": {\"rope_type\": \"yarn\"}}", "rope type is \"yarn\""},
            {"{\"rope_scaling\": {\"rope_type\": \"llama3\"}}", "needs factor"},
            {"{\"hidden_size\": 8}", "vocab_size is 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(file_write_atomic(path, cases[i].json, strlen(cases[i].json)));
        drv_status s = model_config_read(dir, &m);
        assert_true(s != DRV_OK);
        if (!strstr(drv_message(), cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", drv_message(), cases[i].says);
    }
    for (int i = 0; i < n_model_presets; i++) { // written and read back
        model_config want;
        assert_true(model_preset(model_preset_names[i], &want));
        OK(json_write_file(path, model_config_json(&want)));
        OK(model_config_read(dir, &m));
        assert_int_equal(model_parameters(&m), model_parameters(&want));
        assert_true(m.rope_factor == want.rope_factor && m.rope_theta == want.rope_theta &&
                    m.n_eos == want.n_eos);
    }
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_configs),
            cmocka_unit_test(right_configs), cmocka_unit_test(printed_config_reads_back),
            cmocka_unit_test(overrides), cmocka_unit_test(hf_config)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
